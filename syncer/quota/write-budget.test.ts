import { expect, it } from 'vitest';
import { WriteBudget } from './write-budget.ts';

it('allows a minute’s worth at once, and then as much as comes back', () => {
  let now = 0;
  const budget = new WriteBudget(() => now);
  budget.setLimit(60_000);
  expect(budget.waitMs()).toBe(0);
  budget.take(60_000);
  expect(budget.waitMs()).toBe(1);
  now = 1_000;
  expect(budget.waitMs()).toBe(0);
  expect(budget.spent).toBe(59_000);
});

it('lets a write through that is larger than all of it, and has the next make up for it', () => {
  let now = 0;
  const budget = new WriteBudget(() => now);
  budget.setLimit(1_000);
  budget.take(2_500);
  expect(budget.waitMs()).toBe(60_000);
  now = 90_000;
  expect(budget.waitMs()).toBe(60);
  now = 90_060;
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
