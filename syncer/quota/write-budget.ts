/** The bucket holds two seconds' worth: a burst of all of it is over before others notice. */
const burstsPerMinute = 30;
const longestMs = 60_000;
const mostTurns = 1_000;

/**
 * How many bytes a tenant may write in a minute: a token bucket that holds two seconds' worth. A write may take more than
 * is left, so that a large one is possible at all; the next has to wait until that is made up for.
 */
export class WriteBudget {
  readonly #monotonicMs: () => number;
  #bytesPerMinute: number | undefined;
  #left = 0;
  #atMs = 0;
  /** When those come back that were told to wait. */
  readonly #turns = new Map<string, number>();
  #lastTurn = 0;
  #lastBytes = 0;

  constructor(monotonicMs: () => number) {
    this.#monotonicMs = monotonicMs;
  }

  /** Undefined: no limit. A full bucket at the beginning; after a change no more than the new one holds. */
  setLimit(bytesPerMinute: number | undefined): void {
    if (bytesPerMinute === this.#bytesPerMinute) return;
    this.#forgetTurns(Number.POSITIVE_INFINITY);
    this.#lastTurn = 0;
    const isFirst = this.#bytesPerMinute === undefined;
    this.#refill();
    this.#bytesPerMinute = bytesPerMinute;
    this.#left = isFirst ? this.#capacity : Math.min(this.#left, this.#capacity);
  }

  /**
   * Milliseconds until a write may be made; 0: now. Writes that have to wait are told times one after the other, as far apart as
   * the last write takes, and a minute at the most: they would only meet each other if all came back at once.
   */
  waitMs(write: string): number {
    this.#refill();
    if (this.#bytesPerMinute === undefined || this.#left > 0) {
      this.#turns.delete(write);
      return 0;
    }
    if (this.#bytesPerMinute === 0) return longestMs;
    const told = this.#turns.get(write) ?? 0;
    if (told > this.#atMs) return Math.ceil(told - this.#atMs);
    const msPerByte = 60_000 / this.#bytesPerMinute;
    const possible = this.#atMs + (1 - this.#left) * msPerByte;
    const isNext = this.#lastTurn <= this.#atMs;
    const turn = isNext ? possible : Math.max(possible, this.#lastTurn + this.#lastBytes * msPerByte);
    if (turn - this.#atMs >= longestMs) return longestMs;
    if (this.#turns.size >= mostTurns) this.#forgetTurns(this.#atMs);
    this.#turns.set(write, turn);
    this.#lastTurn = turn;
    return Math.ceil(turn - this.#atMs);
  }

  take(bytes: number): void {
    this.#refill();
    this.#left -= bytes;
    this.#lastBytes = bytes;
  }

  /** Bytes per minute at which it writes, as far as the last two seconds tell: the limit when nothing is left. */
  get spent(): number {
    this.#refill();
    return Math.max(0, Math.ceil((this.#capacity - this.#left) * burstsPerMinute));
  }

  #forgetTurns(untilMs: number): void {
    for (const [write, turn] of this.#turns) if (turn <= untilMs) this.#turns.delete(write);
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
