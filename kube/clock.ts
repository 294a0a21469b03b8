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

/** Node.js fires a timer at once that is to wait for longer. */
const longestTimerMs = 2 ** 31 - 1;

export const systemClock: Clock = {
  now: () => Date.now(),
  monotonic: () => performance.now(),
  sleep(ms, signal) {
    return new Promise((resolve, reject) => {
      const wait = (leftMs: number): NodeJS.Timeout =>
        setTimeout(
          () => {
            if (leftMs > longestTimerMs) {
              timer = wait(leftMs - longestTimerMs);
              return;
            }
            release();
            resolve();
          },
          Math.min(leftMs, longestTimerMs),
        );
      let timer = wait(ms);
      const release = onAbort(signal, () => {
        clearTimeout(timer);
        reject(signal?.reason);
      });
    });
  },
};

interface RepeatOptions {
  /** From the end of one round to the next. */
  everyMs: number;
  clock: Pick<Clock, 'sleep'>;
  /** What a round has thrown; the next one comes all the same. */
  onError: (error: unknown) => void;
}

/** Calls `round` at once, and again and again until aborted, as client-go's `wait.Until` does. */
export async function repeatUntilAborted(
  { everyMs, clock, onError }: RepeatOptions,
  signal: AbortSignal,
  round: () => Promise<void>,
): Promise<void> {
  while (!signal.aborted) {
    await round().catch((error: unknown) => {
      if (!signal.aborted) onError(error);
    });
    await clock.sleep(everyMs, signal).catch(() => undefined);
  }
}

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
