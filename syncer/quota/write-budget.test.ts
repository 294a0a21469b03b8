import { expect, it } from 'vitest';
import { WriteBudget } from './write-budget.ts';

it('allows ten seconds’ worth at once, and then as much as comes back', () => {
  let now = 0;
  const budget = new WriteBudget(() => now);
  budget.setLimit(60_000);
  expect(budget.waitMs()).toBe(0);
  expect(budget.spent).toBe(0);
  budget.take(10_000);
  expect(budget.waitMs()).toBe(1);
  expect(budget.spent).toBe(60_000);
  now = 1_000;
  expect(budget.waitMs()).toBe(0);
  expect(budget.spent).toBe(54_000);
  now = 60_000;
  expect(budget.spent).toBe(0);
  budget.take(10_000);
  expect(budget.waitMs()).toBe(1);
});

it('lets a write through that is larger than all of it, and has the next make up for it', () => {
  let now = 0;
  const budget = new WriteBudget(() => now);
  budget.setLimit(6_000);
  budget.take(9_000);
  expect(budget.waitMs()).toBe(60_000);
  now = 30_000;
  expect(budget.waitMs()).toBe(50_010);
  now = 80_010;
  expect(budget.waitMs()).toBe(0);
});

it('has no limit until there is one, and none after', () => {
  const budget = new WriteBudget(() => 0);
  budget.take(1e12);
  expect(budget.waitMs()).toBe(0);
  budget.setLimit(10);
  expect(budget.waitMs()).toBe(0);
  budget.take(20);
  expect(budget.waitMs()).toBe(60_000);
  budget.setLimit(undefined);
  expect(budget.waitMs()).toBe(0);
});
