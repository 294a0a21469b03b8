import type { Clock, Reflector } from '../../kube/index.ts';

export interface RoundsOptions {
  everyMs: number;
  clock: Clock;
  /** 0 to 1. */
  random: () => number;
}

/**
 * Calls `round` again and again until aborted, first within one interval and then at intervals that vary by a
 * tenth: those who start together do not stay together. Rejects with what a round throws, and when aborted.
 */
export async function inRounds(
  { everyMs, clock, random }: RoundsOptions,
  signal: AbortSignal,
  round: () => void | Promise<void>,
): Promise<never> {
  await clock.sleep(everyMs * random(), signal);
  for (;;) {
    await round();
    await clock.sleep(everyMs * (0.9 + random() * 0.2), signal);
  }
}

/** Has one of the reflectors list afresh at each call, in turns that begin anywhere. */
export function freshListsOf(reflectors: () => readonly Reflector[], random: () => number): () => void {
  let turn = Math.floor(random() * reflectors().length);
  return () => {
    const present = reflectors();
    turn = (turn + 1) % Math.max(present.length, 1);
    present[turn]?.relist();
  };
}
