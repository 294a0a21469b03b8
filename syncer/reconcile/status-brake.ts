/** How long the status of a key is not written again. */
const holdMs = 10_000;
const mostInHold = 5_000;

/**
 * Limits how often a tenant object is told in its status why it has no super object. What its server shows does not count:
 * it may hide what was written, or drop it. Bounded: when very many keys were written within the hold, others wait.
 */
export class StatusBrake {
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
      if (nowMs >= atMs && nowMs - atMs < holdMs) break;
      this.#written.delete(key);
    }
    const atMs = this.#written.get(id);
    if (atMs !== undefined) return Math.min(holdMs, atMs + holdMs - nowMs);
    // Not when the next one may be written: all that wait would come for that.
    if (this.#written.size >= mostInHold) return holdMs;
    this.#written.set(id, nowMs);
    return 0;
  }
}
