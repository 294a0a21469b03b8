import { describe, expect, it } from 'vitest';
import { WindowSize } from './window-size.ts';

/** A scheduler that takes `msPerPod` for each, one after the other, and `restMs` from there to where it is seen. */
function run(
  size: WindowSize,
  scheduler: { msPerPod: number; restMs: number },
  forMs: number,
  from = 0,
): { latencyMs: number; perSecond: number; until: number } {
  const inQueue: { since: number; inUse: number }[] = [];
  let now = from;
  let served = 0;
  let latencyMs = 0;
  while (now < from + forMs) {
    while (inQueue.length < size.size) inQueue.push({ since: now, inUse: inQueue.length + 1 });
    now += scheduler.msPerPod;
    const pod = inQueue.shift() as { since: number; inUse: number };
    latencyMs = now - pod.since + scheduler.restMs;
    size.add({ latencyMs, inUse: pod.inUse, limited: true }, now);
    served += 1;
  }
  return { latencyMs, perSecond: (served * 1_000) / forMs, until: now };
}

describe('the size of the window', () => {
  it.each([
    [1, 100],
    [2, 50],
    [5, 20],
  ])(
    'comes to what the scheduler manages in the target time, at %i ms per pod about %i',
    (msPerPod, size) => {
      const window = new WindowSize({ targetMs: 100 });
      const { latencyMs } = run(window, { msPerPod, restMs: 0 }, 20_000);
      expect(window.size).toBeGreaterThan(size * 0.7);
      expect(window.size).toBeLessThanOrEqual(size + 2);
      expect(latencyMs).toBeLessThanOrEqual(110);
    },
  );

  it('never falls below the floor, however slow the scheduler is, and comes back after that', () => {
    const window = new WindowSize();
    const slow = run(window, { msPerPod: 400, restMs: 0 }, 60_000);
    expect(window.size).toBeGreaterThanOrEqual(16);
    expect(window.size).toBeLessThanOrEqual(20);
    run(window, { msPerPod: 1, restMs: 0 }, 60_000, slow.until);
    expect(window.size).toBeGreaterThan(60);
  });

  it('shrinks at once when the scheduler stalls', () => {
    const window = new WindowSize({ initial: 128 });
    run(window, { msPerPod: 60, restMs: 0 }, 64 * 60 * 4);
    expect(window.size).toBe(16);
  });

  it('grows only while somebody waits for a place', () => {
    const window = new WindowSize();
    for (let i = 0; i < 1_000; i += 1) window.add({ latencyMs: 1, inUse: 3, limited: false }, i);
    expect(window.size).toBe(32);
  });

  it('does not shrink to the floor because every answer takes long, queue or not', () => {
    const window = new WindowSize();
    const pace = { msPerPod: 1, restMs: 400 };
    let until = 0;
    for (let i = 0; i < 50; i += 1) until = run(window, pace, 1_000, until).until;
    expect(window.targetMs).toBeGreaterThan(400);
    expect(window.size).toBeGreaterThan(100);
  });

  it('keeps the latency down for as long as the load lasts: a long queue is never taken for how it always is', () => {
    const window = new WindowSize();
    const { latencyMs } = run(window, { msPerPod: 5, restMs: 10 }, 30 * 60_000);
    expect(window.targetMs).toBeLessThanOrEqual(120);
    expect(latencyMs).toBeLessThanOrEqual(130);
  });

  it('does not take the silence of a scheduler that was away for how long it takes', () => {
    const window = new WindowSize();
    for (let i = 0; i < 10; i += 1)
      window.add({ latencyMs: 10_000, inUse: 1, limited: false, silent: true }, 10_000 + i);
    expect(window.targetMs).toBe(100);
  });

  it('forgets how long it took in a slow spell, if the load after it never lets the window get small', () => {
    const window = new WindowSize();
    for (let i = 0; i < 10; i += 1) window.add({ latencyMs: 10_000, inUse: 1, limited: false }, 10_000 + i);
    expect(window.targetMs).toBe(20_000);
    const { latencyMs } = run(window, { msPerPod: 7, restMs: 0 }, 120_000, 20_000);
    expect(latencyMs).toBeLessThanOrEqual(150);
  });

  it('refuses sizes that make no sense, and names them', () => {
    expect(() => new WindowSize({ floor: 0 })).toThrow('floor');
    expect(() => new WindowSize({ floor: 10, ceiling: 9 })).toThrow('ceiling');
  });
});
