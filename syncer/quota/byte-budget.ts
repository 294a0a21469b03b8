const longestMs = 60_000;

interface ByteBudgetOptions {
  monotonicMs: () => number;
  /** How much the bucket holds: as many milliseconds' worth. */
  burstMs: number;
  /** Queues a waiting key again, this long from now. */
  wake: (id: string, afterMs: number) => void;
}

/**
 * How many bytes a tenant may have moved in a minute: a token bucket. One may take more than is left, so that something
 * large is possible at all; the next has to wait until that is made up for. Keys that wait are served in the order in
 * which they came, one at a time, before any other.
 */
export class ByteBudget {
  readonly #options: ByteBudgetOptions;
  #bytesPerMinute: number | undefined;
  #left = 0;
  #atMs = 0;
  /** Bytes of the last minute; what is older counts less and less. */
  #recent = 0;
  readonly #waiting = new Set<string>();
  /** Keys whose turn has come in the run that is under way, and that have not taken anything yet. */
  readonly #served = new Set<string>();

  constructor(options: ByteBudgetOptions) {
    this.#options = options;
  }

  /** Undefined: no limit. A full bucket at the beginning; after a change no more than the new one holds. */
  setLimit(bytesPerMinute: number | undefined): void {
    if (bytesPerMinute === this.#bytesPerMinute) return;
    const isFirst = this.#bytesPerMinute === undefined;
    this.#refill();
    this.#bytesPerMinute = bytesPerMinute;
    this.#left = isFirst ? this.#capacity : Math.min(this.#left, this.#capacity);
    this.#wakeNext();
  }

  /**
   * Milliseconds after which to ask again; 0: it may go on, and what it moves is to be taken. A key that waits is woken when
   * its turn comes, and may ask earlier, or once more when it has come, without losing it.
   */
  waitMs(id: string): number {
    this.#refill();
    const next = this.#next ?? id;
    if (this.#bytesPerMinute === undefined || this.#served.has(id) || (this.#left > 0 && next === id)) {
      if (this.#waiting.delete(id)) this.#served.add(id);
      return 0;
    }
    this.#waiting.add(id);
    return next === id ? this.#untilRoomMs : longestMs;
  }

  take(id: string, bytes: number): void {
    this.#refill();
    this.#left -= bytes;
    this.#recent += bytes;
    this.#served.delete(id);
    this.#wakeNext();
  }

  /** What may not wait is done without asking. The debt that it makes is made up for in a minute at most. */
  charge(bytes: number): void {
    this.#refill();
    const mostDebt = Math.min(this.#left, -(this.#bytesPerMinute ?? 0));
    this.#left = Math.max(this.#left - bytes, mostDebt);
    this.#recent += bytes;
  }

  /** What was taken is not moved after all. */
  giveBack(bytes: number): void {
    this.#refill();
    this.#left = Math.min(this.#capacity, this.#left + bytes);
    this.#recent = Math.max(0, this.#recent - bytes);
    this.#wakeNext();
  }

  /** To be called at the end of each run: `waits` says whether it is to ask again. Another one's turn may have come. */
  ended(id: string, waits: boolean): void {
    this.#served.delete(id);
    if (!waits) this.#waiting.delete(id);
    this.#wakeNext();
  }

  isWaiting(id: string): boolean {
    return this.#waiting.has(id);
  }

  /** Bytes of the last minute, about. */
  get spent(): number {
    this.#refill();
    return Math.round(this.#recent);
  }

  #wakeNext(): void {
    if (this.#waiting.size === 0 || this.#bytesPerMinute === 0) return;
    this.#refill();
    this.#options.wake(this.#next as string, this.#untilRoomMs);
  }

  get #next(): string | undefined {
    return this.#waiting.values().next().value;
  }

  get #untilRoomMs(): number {
    if (this.#bytesPerMinute === undefined || this.#left > 0) return 0;
    return Math.min(longestMs, Math.ceil(((1 - this.#left) * 60_000) / this.#bytesPerMinute));
  }

  get #capacity(): number {
    return ((this.#bytesPerMinute ?? 0) * this.#options.burstMs) / 60_000;
  }

  #refill(): void {
    const now = this.#options.monotonicMs();
    const passedMs = now - this.#atMs;
    if (passedMs === 0) return;
    this.#left = Math.min(this.#capacity, this.#left + (passedMs * (this.#bytesPerMinute ?? 0)) / 60_000);
    this.#recent *= Math.exp(-passedMs / 60_000);
    this.#atMs = now;
  }
}
