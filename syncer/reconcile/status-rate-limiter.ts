/** The status of a key is written at most once in this time. */
const intervalMs = 10_000;
const maxKeys = 5_000;

/**
 * Limits how often the status of a tenant object says why it has no super object. What the tenant's server shows does not
 * count: it may hide or drop what was written. Bounded: while `maxKeys` keys were written within the interval, others wait.
 */
export class StatusRateLimiter {
  /** When each key was written, oldest first; by key id. */
  readonly #written = new Map<string, number>();
  readonly #nowMs: () => number;

  constructor(nowMs: () => number) {
    this.#nowMs = nowMs;
  }

  /** Call it before the status is written. 0: write it; else not before so many ms. */
  take(id: string): number {
    const nowMs = this.#nowMs();
    for (const [key, atMs] of this.#written) {
      // A clock that was set back must not make it wait.
      if (nowMs >= atMs && nowMs - atMs < intervalMs) break;
      this.#written.delete(key);
    }
    const atMs = this.#written.get(id);
    if (atMs !== undefined) return Math.min(intervalMs, atMs + intervalMs - nowMs);
    // Not when the next one may be written: all that wait would come for that.
    if (this.#written.size >= maxKeys) return intervalMs;
    this.#written.set(id, nowMs);
    return 0;
  }
}
