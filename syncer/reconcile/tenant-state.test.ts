import { describe, expect, it } from 'vitest';
import { Dependents, LiveCheckBudget, StatusRateLimiter } from './tenant-state.ts';

const key = (name: string): { kind: string; namespace: string; name: string } => ({
  kind: 'pods',
  namespace: 'shop',
  name,
});

describe('waiters', () => {
  it('are given out once, each once', () => {
    const waiters = new Dependents();
    waiters.add(key('x'), key('a'));
    waiters.add(key('x'), key('b'));
    waiters.add(key('x'), key('a'));
    expect(waiters.has(key('x'))).toBe(true);
    expect(waiters.take(key('x'))).toEqual([key('a'), key('b')]);
    expect(waiters.take(key('x'))).toEqual([]);
    expect(waiters.has(key('x'))).toBe(false);
  });

  it('leave nothing behind', () => {
    const waiters = new Dependents();
    waiters.add(key('x'), key('a'));
    waiters.add(key('y'), key('a'));
    expect(waiters.size).toBe(2);
    waiters.clear();
    expect(waiters.size).toBe(0);
  });
});

describe('the limit of statuses', () => {
  it('lets the status of a key be written once in 10 s', () => {
    let nowMs = 1_000;
    const limiter = new StatusRateLimiter(() => nowMs);
    expect([limiter.take('a'), limiter.take('a'), limiter.take('b')]).toEqual([0, 10_000, 0]);
    nowMs += 9_999;
    expect(limiter.take('a')).toBe(1);
    nowMs += 1;
    expect([limiter.take('a'), limiter.take('a')]).toEqual([0, 10_000]);
  });

  it('lets 5,000 keys be written in 10 s, and holds others until there is room', () => {
    let nowMs = 1_000;
    const limiter = new StatusRateLimiter(() => nowMs);
    for (let n = 0; n < 5_000; n++) expect(limiter.take(`key-${n}`)).toBe(0);
    nowMs += 4_000;
    expect(limiter.take('one more')).toBe(10_000);
    nowMs += 6_000;
    expect(limiter.take('one more')).toBe(0);
  });

  it('lets a key be written when the clock was set back', () => {
    let nowMs = 3_600_000;
    const limiter = new StatusRateLimiter(() => nowMs);
    expect(limiter.take('a')).toBe(0);
    nowMs = 1_000;
    expect([limiter.take('a'), limiter.take('a')]).toEqual([0, 10_000]);
  });
});

describe('the budget of live checks', () => {
  const takeAll = (budget: LiveCheckBudget): number => {
    let taken = 0;
    while (taken < 10_000 && budget.take()) taken += 1;
    return taken;
  };

  it('has 50 more with each second, and never more than 1,000', () => {
    let nowMs = 0;
    const budget = new LiveCheckBudget(() => nowMs);
    expect(takeAll(budget)).toBe(1_000);
    nowMs += 1_000;
    expect(takeAll(budget)).toBe(50);
    nowMs += 3_600_000;
    expect(takeAll(budget)).toBe(1_000);
  });

  it('goes on when the clock was set back', () => {
    let nowMs = 3_600_000;
    const budget = new LiveCheckBudget(() => nowMs);
    takeAll(budget);
    nowMs = 1_000;
    expect(takeAll(budget)).toBe(0);
    nowMs = 2_000;
    expect(takeAll(budget)).toBe(50);
  });
});
