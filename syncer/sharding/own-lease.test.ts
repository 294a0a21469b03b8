import { describe, expect, it } from 'vitest';
import { type Clock, readClock } from '../../kube/index.ts';
import { FakeClock } from '../../kube/testing/index.ts';
import { Fence, LeaseLapsed } from './own-lease.ts';

describe('a fence', () => {
  it('is closed until a renewal, and closes by itself, counted from when that was sent', async () => {
    const clock = new FakeClock();
    let refused = 0;
    const fence = new Fence({ windowMs: 6_000, clock, onRefused: () => (refused += 1) });
    expect(() => fence.check()).toThrow(LeaseLapsed);
    const sentAt = readClock(clock);
    await clock.advance(2_000);
    fence.open(sentAt);
    expect(() => fence.check()).not.toThrow();
    await clock.advance(3_999);
    expect(fence.isOpen).toBe(true);
    await clock.advance(1);
    expect(() => fence.check()).toThrow('nothing is written until it is');
    expect(refused).toBe(2);
  });

  it('is closed after a machine has slept, when the monotonic clock has stood still', () => {
    let slept = 0;
    const clock: Clock = { now: () => 1_000 + slept, monotonic: () => 5, sleep: () => Promise.resolve() };
    const fence = new Fence({ windowMs: 6_000, clock });
    fence.open(readClock(clock));
    expect(fence.isOpen).toBe(true);
    slept = 60_000;
    expect(fence.isOpen).toBe(false);
  });
});
