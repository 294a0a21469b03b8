import { expect, it } from 'vitest';
import { CacheBudget, SharedCacheBudget } from './cache-budget.ts';

it('knows who has more than all others together, as they are now', () => {
  const shared = new SharedCacheBudget(() => 1_000_000);
  const bytes: Record<string, number> = { blue: 100, green: 150, red: 60 };
  const budgets = Object.keys(bytes).map((uid) => {
    const budget = new CacheBudget({
      uid,
      limitBytes: () => 1_000_000,
      cachedBytes: () => bytes[uid] ?? 0,
      shared,
      onExceeded: () => undefined,
    });
    budget.grown();
    return budget;
  });
  expect(shared.largest(0)).toBeUndefined();
  // One that has become smaller does not say so.
  bytes['blue'] = 10;
  expect(shared.largest(0)?.uid).toBe('green');
  expect(shared.largest(151)).toBeUndefined();
  budgets[1]?.close();
  expect(shared.largest(0)?.uid).toBe('red');
});
