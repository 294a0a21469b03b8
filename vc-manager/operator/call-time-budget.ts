import { tenantTooSlow } from './errors.ts';

/**
 * How long the answers of a tenant's API server may take, all together: it may answer each call just in time, and a
 * manager has few workers.
 */
export class CallTimeBudget {
  readonly #longestMs: number;
  #leftMs: number;

  constructor(longestMs: number) {
    this.#longestMs = longestMs;
    this.#leftMs = longestMs;
  }

  /** `work` gets the signal for its calls. Rejects with what it rejects with: when the time is up, TenantTooSlow. */
  async within<T>(signal: AbortSignal, work: (signal: AbortSignal) => Promise<T>): Promise<T> {
    const over = new AbortController();
    const timer = setTimeout(() => over.abort(tenantTooSlow(this.#longestMs)), this.#leftMs);
    const startedAt = performance.now();
    try {
      return await work(AbortSignal.any([signal, over.signal]));
    } finally {
      clearTimeout(timer);
      this.#leftMs = Math.max(0, this.#leftMs - (performance.now() - startedAt));
    }
  }
}
