/**
 * How many bytes a tenant may write in a minute: a token bucket that holds a minute's worth. A write may take more than
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
    if (bytesPerMinute !== undefined && this.#bytesPerMinute === undefined) {
      this.#left = bytesPerMinute;
      this.#atMs = this.#monotonicMs();
    } else this.#refill();
    this.#bytesPerMinute = bytesPerMinute;
    this.#left = Math.min(this.#left, bytesPerMinute ?? 0);
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

  /** Bytes of the last minute's budget that are not made up for. */
  get spent(): number {
    this.#refill();
    return this.#bytesPerMinute === undefined ? 0 : Math.max(0, Math.ceil(this.#bytesPerMinute - this.#left));
  }

  #refill(): void {
    const now = this.#monotonicMs();
    const perMinute = this.#bytesPerMinute ?? 0;
    this.#left = Math.min(perMinute, this.#left + ((now - this.#atMs) * perMinute) / 60_000);
    this.#atMs = now;
  }
}
