/** The bucket holds a sixth of a minute's worth: a burst of all of it is over before others notice. */
const burstsPerMinute = 6;

/**
 * How many bytes a tenant may write in a minute: a token bucket that holds ten seconds' worth. A write may take more than
 * is left, so that a large one is possible at all; the next has to wait until that is made up for.
 */
export class WriteBudget {
  readonly #monotonicMs: () => number;
  #bytesPerMinute: number | undefined;
  #left = 0;
  #atMs = 0;

  constructor(monotonicMs: () => number) {
    this.#monotonicMs = monotonicMs;
  }

  /** Undefined: no limit. A full bucket at the beginning; after a change no more than the new one holds. */
  setLimit(bytesPerMinute: number | undefined): void {
    if (bytesPerMinute === this.#bytesPerMinute) return;
    const isFirst = this.#bytesPerMinute === undefined;
    this.#refill();
    this.#bytesPerMinute = bytesPerMinute;
    this.#left = isFirst ? this.#capacity : Math.min(this.#left, this.#capacity);
  }

  /** Milliseconds until a write may be made; 0: now. */
  waitMs(): number {
    this.#refill();
    if (this.#bytesPerMinute === undefined || this.#left > 0) return 0;
    if (this.#bytesPerMinute === 0) return 60_000;
    return Math.min(60_000, Math.ceil(((1 - this.#left) * 60_000) / this.#bytesPerMinute));
  }

  take(bytes: number): void {
    this.#refill();
    this.#left -= bytes;
  }

  /** Bytes per minute at which it writes, as far as the last ten seconds tell: the limit when nothing is left. */
  get spent(): number {
    this.#refill();
    return Math.max(0, Math.ceil((this.#capacity - this.#left) * burstsPerMinute));
  }

  get #capacity(): number {
    return (this.#bytesPerMinute ?? 0) / burstsPerMinute;
  }

  #refill(): void {
    const now = this.#monotonicMs();
    const back = ((now - this.#atMs) * (this.#bytesPerMinute ?? 0)) / 60_000;
    this.#left = Math.min(this.#capacity, this.#left + back);
    this.#atMs = now;
  }
}
