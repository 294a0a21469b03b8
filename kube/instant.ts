import type { Clock } from './clock.ts';

/** One moment on both clocks. The monotonic one counts; but it stands still while a machine sleeps, and the other does not. */
export interface Instant {
  readonly monotonicMs: number;
  readonly wallMs: number;
}

export function instantOf(clock: Clock): Instant {
  return { monotonicMs: clock.monotonic(), wallMs: clock.now() };
}

/** How long ago that was by the clock that says more: too much is safe, too little is not. */
export function elapsedMs(since: Instant, clock: Clock): number {
  return Math.max(clock.monotonic() - since.monotonicMs, clock.now() - since.wallMs);
}
