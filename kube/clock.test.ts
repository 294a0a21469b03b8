import { describe, expect, it, vi } from 'vitest';
import { systemClock } from './clock.ts';
import { FakeClock } from './testing/index.ts';

describe.each([
  ['systemClock', () => systemClock],
  ['FakeClock', () => new FakeClock({ autoAdvance: true })],
])('%s', (_name, create) => {
  it('sleeps at least as long as asked', async () => {
    const clock = create();
    const before = clock.monotonic();
    await clock.sleep(20);
    // Timers count whole milliseconds of another clock.
    expect(clock.monotonic() - before).toBeGreaterThanOrEqual(19);
  });

  it("rejects with the signal's reason, before and during a sleep", async () => {
    const clock = create();
    const reason = new Error('enough');
    await expect(clock.sleep(60_000, AbortSignal.abort(reason))).rejects.toBe(reason);
    const controller = new AbortController();
    const sleeping = clock.sleep(60_000, controller.signal);
    controller.abort(reason);
    await expect(sleeping).rejects.toBe(reason);
  });
});

it('systemClock sleeps for longer than a timer of Node.js can wait', async () => {
  vi.useFakeTimers();
  try {
    const woken = vi.fn();
    const sleeping = systemClock.sleep(2 ** 32).then(woken);
    await vi.advanceTimersByTimeAsync(2 ** 32 - 1);
    expect(woken).not.toHaveBeenCalled();
    await vi.advanceTimersByTimeAsync(1);
    expect(woken).toHaveBeenCalledOnce();
    await sleeping;
    const aborted = new AbortController();
    const cut = systemClock.sleep(2 ** 32, aborted.signal);
    await vi.advanceTimersByTimeAsync(2 ** 31);
    aborted.abort('enough');
    await expect(cut).rejects.toBe('enough');
    expect(vi.getTimerCount()).toBe(0);
  } finally {
    vi.useRealTimers();
  }
});

describe('FakeClock', () => {
  it('wakes sleepers in the order in which they are due, also those that start meanwhile', async () => {
    const clock = new FakeClock();
    const woken: string[] = [];
    const sleep = async (name: string, ms: number): Promise<void> => {
      await clock.sleep(ms);
      woken.push(`${name} at ${clock.monotonic()}`);
    };
    const late = sleep('late', 30);
    const early = sleep('early', 10).then(() => sleep('after early', 10));
    await clock.advance(25);
    expect(woken).toEqual(['early at 10', 'after early at 20']);
    await clock.advance(5);
    await Promise.all([late, early]);
    expect(woken).toHaveLength(3);
    expect(clock.monotonic()).toBe(30);
  });
});
