import { describe, expect, it } from 'vitest';
import { Dependents } from './tenant-state.ts';

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
