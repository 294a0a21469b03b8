import { expect, it } from 'vitest';
import { WriteBudget } from './write-budget.ts';

it('allows two seconds’ worth at once, and then as much as comes back', () => {
  let now = 0;
  const budget = new WriteBudget(() => now);
  budget.setLimit(60_000);
  expect(budget.waitMs('a')).toBe(0);
  expect(budget.spent).toBe(0);
  budget.take(2_000);
  expect(budget.waitMs('a')).toBe(1);
  expect(budget.spent).toBe(60_000);
  now = 500;
  expect(budget.waitMs('a')).toBe(0);
  expect(budget.spent).toBe(45_000);
  now = 60_000;
  expect(budget.spent).toBe(0);
  budget.take(2_000);
  expect(budget.waitMs('a')).toBe(1);
});

it('lets a write through that is larger than all of it, and has the next make up for it', () => {
  let now = 0;
  const budget = new WriteBudget(() => now);
  budget.setLimit(6_000);
  budget.take(9_200);
  expect(budget.waitMs('a')).toBe(60_000);
  now = 40_000;
  expect(budget.waitMs('a')).toBe(50_010);
  now = 90_010;
  expect(budget.waitMs('a')).toBe(0);
});

it('has no limit until there is one, and none after', () => {
  const budget = new WriteBudget(() => 0);
  budget.take(1e12);
  expect(budget.waitMs('a')).toBe(0);
  budget.setLimit(10);
  expect(budget.waitMs('a')).toBe(0);
  budget.take(20);
  expect(budget.waitMs('a')).toBe(60_000);
  budget.setLimit(undefined);
  expect(budget.waitMs('a')).toBe(0);
});

it('has those who wait come back one after the other, and each of them once', () => {
  let now = 0;
  const budget = new WriteBudget(() => now);
  budget.setLimit(60_000);
  budget.take(2_000);
  budget.take(5_000);
  const told = ['a', 'b', 'c'].map((write) => budget.waitMs(write));
  expect(told).toEqual([5_001, 10_001, 15_001]);
  now = 1_000;
  expect(['a', 'b', 'c'].map((write) => budget.waitMs(write))).toEqual(told.map((ms) => ms - 1_000));
  now = 5_001;
  expect(budget.waitMs('a')).toBe(0);
  budget.take(5_000);
  expect(budget.waitMs('a')).toBe(15_000);
  expect(budget.waitMs('b')).toBe(5_000);
});

it('has nobody wait for more than a minute, however many there are', () => {
  const budget = new WriteBudget(() => 0);
  budget.setLimit(60_000);
  budget.take(2_001);
  const told = Array.from({ length: 3_000 }, (_, n) => budget.waitMs(`w${n}`));
  expect(Math.max(...told)).toBe(60_000);
  budget.setLimit(600_000);
  expect(budget.waitMs('w2999')).toBe(1);
});
