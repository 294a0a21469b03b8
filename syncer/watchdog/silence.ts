export const tickMs = 250;

/** As long as this without a beat, a thread is stuck: a third of the time after which its replica counts as dead. */
const stuckTicks = 3_000 / tickMs;
/** Where memory runs out too, there is no time to wait. */
const stuckTicksWhenFull = 500 / tickMs;

/**
 * Notices that another thread has fallen silent. Counts looks at it and not time: a machine that stood still has not
 * looked either.
 */
export class Silence {
  #beat: number | undefined;
  #ticks = 0;

  /** To be called every `tickMs` with the beats so far and whether memory is nearly full: only then is a short one told. */
  look(beat: number, isFull: boolean): 'none' | 'short' | 'long' {
    this.#ticks = beat === this.#beat ? this.#ticks + 1 : 0;
    this.#beat = beat;
    if (this.#ticks >= stuckTicks) return 'long';
    return isFull && this.#ticks >= stuckTicksWhenFull ? 'short' : 'none';
  }
}
