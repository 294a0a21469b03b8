import { describe, expect, it } from 'vitest';
import { Backoff } from './backoff.ts';

describe('Backoff', () => {
  it('doubles with each failure, up to the maximum', () => {
    const backoff = new Backoff({ baseMs: 100, maxMs: 1_000 }, () => 0);
    expect([1, 2, 3, 4, 5, 60, 5_000].map((failures) => backoff.delayMs(failures))).toEqual([
      100, 200, 400, 800, 1_000, 1_000, 1_000,
    ]);
  });

  it('spreads over the second half of the delay', () => {
    const backoff = new Backoff({ baseMs: 100, maxMs: 1_000 }, () => 0.5);
    expect(backoff.delayMs(2)).toBe(150);
  });

  it('refuses delays that make no sense, and names them', () => {
    expect(() => new Backoff({ baseMs: 0, maxMs: 10 }, () => 0)).toThrow('backoff.baseMs');
    expect(() => new Backoff({ baseMs: 20, maxMs: 10 }, () => 0)).toThrow('below');
  });
});
