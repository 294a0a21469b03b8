import { onAbort } from './abort.ts';

/** Time, passed in so that tests can hold it. */
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
