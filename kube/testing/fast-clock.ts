import { type Clock, systemClock } from '../clock.ts';

/** Time that runs this many times as fast: back-offs and times to live keep their proportions. */
export function fastClock(factor: number): Clock {
  const epoch = systemClock.now();
  const start = systemClock.monotonic();
  const elapsed = (): number => (systemClock.monotonic() - start) * factor;
  return {
    now: () => epoch + elapsed(),
    monotonic: elapsed,
    sleep: (ms, signal) => systemClock.sleep(ms / factor, signal),
  };
}
