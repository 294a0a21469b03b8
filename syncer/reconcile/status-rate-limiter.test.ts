import { expect, it } from 'vitest';
import { StatusRateLimiter } from './status-rate-limiter.ts';

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
