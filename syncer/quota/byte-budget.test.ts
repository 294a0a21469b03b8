import { expect, it } from 'vitest';
import { ByteBudget } from './byte-budget.ts';

/** A budget whose waiters ask again when they are woken, as keys in a queue do. */
class Trial {
  now = 0;
  readonly budget: ByteBudget;
  readonly dueMs = new Map<string, number>();

  constructor(bytesPerMinute?: number) {
    this.budget = new ByteBudget({
      monotonicMs: () => this.now,
      burstMs: 2_000,
      wake: (id, afterMs) => this.#due(id, this.now + afterMs),
    });
    this.budget.setLimit(bytesPerMinute);
  }

  /** Whether it was let in. It has a due time if not. */
  run(id: string, bytes: number): boolean {
    this.dueMs.delete(id);
    const waitMs = this.budget.waitMs(id);
    if (waitMs === 0) this.budget.take(id, bytes);
    else this.#due(id, this.now + waitMs);
    this.budget.ended(id, waitMs > 0);
    return waitMs === 0;
  }

  #due(id: string, atMs: number): void {
    this.dueMs.set(id, Math.min(atMs, this.dueMs.get(id) ?? Number.POSITIVE_INFINITY));
  }
}

it('allows a burst, and then as much as comes back', () => {
  const trial = new Trial(60_000);
  const { budget } = trial;
  expect(budget.waitMs('a')).toBe(0);
  budget.take('x', 2_000);
  expect(budget.waitMs('a')).toBe(1);
  trial.now = 500;
  expect(budget.waitMs('a')).toBe(0);
  budget.ended('a', false);
  trial.now = 60_000;
  budget.take('x', 2_000);
  expect(budget.waitMs('a')).toBe(1);
});

it('lets one through that is larger than all of it, and has the next make up for it', () => {
  const trial = new Trial(6_000);
  const { budget } = trial;
  budget.take('x', 9_200);
  expect(budget.waitMs('a')).toBe(60_000);
  trial.now = 40_000;
  expect(budget.waitMs('a')).toBe(50_010);
  trial.now = 90_010;
  expect(budget.waitMs('a')).toBe(0);
});

it('lets go on at once what may not wait, and has others make up for a minute of it at most', () => {
  const trial = new Trial(60_000);
  const { budget } = trial;
  budget.charge(1_500);
  expect(budget.waitMs('a')).toBe(0);
  budget.ended('a', false);
  for (let i = 0; i < 100; i += 1) budget.charge(4_096);
  expect(budget.waitMs('a')).toBe(60_000);
  expect(budget.spent).toBe(1_500 + 100 * 4_096);
  trial.now = 30_000;
  budget.charge(4_096);
  expect(budget.waitMs('a')).toBe(34_097);
  trial.now = 64_097;
  expect(budget.waitMs('a')).toBe(0);
  // A larger debt of others is left as it is.
  budget.take('a', 100_000);
  const before = budget.waitMs('b');
  budget.charge(4_096);
  trial.now += 40_000;
  expect([before, budget.waitMs('b')]).toEqual([60_000, 60_000]);
  trial.now += 20_001;
  expect(budget.waitMs('b')).toBe(39_999);
});

it('has no limit until there is one, and none after', () => {
  const { budget, dueMs } = new Trial();
  budget.take('x', 1e12);
  expect(budget.waitMs('a')).toBe(0);
  budget.setLimit(10);
  expect(budget.waitMs('a')).toBe(0);
  budget.take('x', 20);
  expect(budget.waitMs('a')).toBe(60_000);
  budget.setLimit(undefined);
  expect(dueMs.get('a')).toBe(0);
  expect(budget.waitMs('a')).toBe(0);
});

it('serves those who wait in the order in which they came, each when there is room, and lets nobody pass', () => {
  const trial = new Trial(60_000);
  trial.run('large', 7_000);
  for (const id of ['a', 'b', 'c']) expect(trial.run(id, 500)).toBe(false);
  expect([...trial.dueMs]).toEqual([
    ['a', 5_001],
    ['b', 60_000],
    ['c', 60_000],
  ]);
  trial.now = 5_001;
  // Room for one, and it is not theirs.
  for (const id of ['new', 'b', 'c']) expect(trial.run(id, 500)).toBe(false);
  expect(trial.run('a', 500)).toBe(true);
  expect(trial.dueMs.get('b')).toBe(5_501);
  trial.now = 5_501;
  expect(trial.run('b', 0)).toBe(true);
  expect(trial.run('c', 0)).toBe(true);
  expect(trial.run('new', 0)).toBe(true);
});

it('has one whose turn has come ask again in the same run, but for what it takes after that', () => {
  const trial = new Trial(60_000);
  trial.run('large', 7_000);
  for (const id of ['a', 'b']) trial.run(id, 500);
  trial.now = 5_001;
  expect(trial.budget.waitMs('a')).toBe(0);
  expect(trial.budget.waitMs('a')).toBe(0);
  trial.budget.take('a', 500);
  expect(trial.budget.waitMs('a')).toBe(60_000);
  expect(trial.dueMs.get('b')).toBe(5_501);
});

it('goes on to the next where one that was woken has nothing to do any more, or takes nothing', () => {
  const trial = new Trial(60_000);
  trial.run('large', 7_000);
  for (const id of ['a', 'b', 'c']) trial.run(id, 500);
  trial.now = 5_001;
  trial.budget.ended('a', false);
  expect(trial.dueMs.get('b')).toBe(5_001);
  expect(trial.budget.waitMs('b')).toBe(0);
  trial.budget.ended('b', false);
  expect(trial.dueMs.get('c')).toBe(5_001);
});

it('has small ones wait no longer than for one large one that is changed all the time', () => {
  const trial = new Trial(64 * 1024 * 1024);
  const madeMs: number[] = [];
  let left = 30;
  for (; left > 0 && trial.now < 600_000; trial.now += 1) {
    if (trial.now % 20 === 0) trial.run('hot', 1024 * 1024);
    const isNew = trial.now === 5_000;
    for (let n = 0; n < 30; n += 1) {
      const id = `pod-${n}`;
      if (!isNew && (trial.dueMs.get(id) ?? Number.POSITIVE_INFINITY) > trial.now) continue;
      if (!trial.run(id, 3_000)) continue;
      madeMs.push(trial.now);
      left -= 1;
    }
  }
  expect(madeMs).toHaveLength(30);
  expect(Math.max(...madeMs)).toBeLessThan(7_000);
});

it('tells what the last minute came to, about', () => {
  const trial = new Trial(60_000);
  expect(trial.budget.spent).toBe(0);
  for (; trial.now < 600_000; trial.now += 1_000) trial.budget.take('x', 500);
  expect(trial.budget.spent).toBeGreaterThan(28_000);
  expect(trial.budget.spent).toBeLessThan(32_000);
  trial.now += 600_000;
  expect(trial.budget.spent).toBeLessThan(5);
});

it('lets others have what is given back, and no more than it holds', () => {
  const trial = new Trial(60_000);
  const { budget } = trial;
  budget.take('x', 5_000);
  expect(trial.run('a', 1)).toBe(false);
  budget.giveBack(4_000);
  expect(budget.spent).toBe(1_000);
  expect(trial.dueMs.get('a')).toBe(0);
  expect(trial.run('a', 1_000)).toBe(true);
  budget.giveBack(10_000);
  expect(budget.spent).toBe(0);
  expect(trial.run('b', 2_001)).toBe(true);
  expect(trial.run('c', 1)).toBe(false);
});
