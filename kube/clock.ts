import { onAbort } from './abort.ts';

/** Time, passed in so that tests can control it. */
export interface Clock {
  /** Milliseconds since the epoch: for timestamps in objects, never for measuring. */
  now(): number;
  /** Milliseconds that only move forward: for deadlines and durations. */
  monotonic(): number;
  /** Rejects with `signal.reason` when aborted. */
  sleep(ms: number, signal?: AbortSignal): Promise<void>;
}

export const systemClock: Clock = {
  now: () => Date.now(),
  monotonic: () => performance.now(),
  sleep(ms, signal) {
    return new Promise((resolve, reject) => {
      const timer = setTimeout(() => {
        release();
        resolve();
      }, ms);
      const release = onAbort(signal, () => {
        clearTimeout(timer);
        reject(signal?.reason);
      });
    });
  },
};

/** One moment on both clocks. The monotonic one stands still while a machine is suspended, the other may be set. */
export interface ClockReading {
  readonly monotonicMs: number;
  readonly wallMs: number;
}

export function readClock(clock: Clock): ClockReading {
  return { monotonicMs: clock.monotonic(), wallMs: clock.now() };
}

/** How long ago that was, by the clock that shows more: an overestimate is safe, an underestimate is not. */
export function elapsedMs(since: ClockReading, clock: Clock): number {
  return Math.max(clock.monotonic() - since.monotonicMs, clock.now() - since.wallMs);
}
