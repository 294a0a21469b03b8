import { onAbort } from './abort.ts';

/** Up to this latency a server is near: so long does a call take on one that has much to do. */
const nearMs = 15;
/** The shortest latency of the last one to two of these counts. */
const windowMs = 10_000;

interface InFlightLimitOptions {
  /** Calls at once to a server that is near. */
  near: number;
  /** At most, however far it is. */
  max: number;
  /** Milliseconds; never runs backwards. */
  now?: () => number;
}

/**
 * How many calls to one server run at once: in proportion to its distance, so that as many are answered in a second as
 * near. Distance is the shortest latency of late: what a server takes longer because it has much to do does not count.
 */
export class InFlightLimit {
  readonly #near: number;
  readonly #max: number;
  readonly #now: () => number;
  #inUse = 0;
  /** In the order in which they came. */
  readonly #waiting = new Set<() => void>();
  #windowEndsAt = 0;
  #shortestMs = Number.POSITIVE_INFINITY;
  #shortestBeforeMs = Number.POSITIVE_INFINITY;

  constructor({ near, max, now = () => performance.now() }: InFlightLimitOptions) {
    this.#near = near;
    this.#max = max;
    this.#now = now;
  }

  get limit(): number {
    const shortestMs = Math.min(this.#shortestMs, this.#shortestBeforeMs);
    if (!Number.isFinite(shortestMs)) return this.#near;
    return Math.min(this.#max, Math.max(this.#near, Math.floor((this.#near * shortestMs) / nearMs)));
  }

  /** Takes a slot if one is free. */
  tryTake(): boolean {
    if (this.#waiting.size > 0 || this.#inUse >= this.limit) return false;
    this.#inUse += 1;
    return true;
  }

  /** Takes a slot when it is its turn. Rejects with the signal's reason, and takes none then. */
  take(signal: AbortSignal): Promise<void> {
    if (signal.aborted) return Promise.reject(signal.reason);
    if (this.tryTake()) return Promise.resolve();
    return new Promise((resolve, reject) => {
      const go = (): void => {
        unlink();
        resolve();
      };
      const unlink = onAbort(signal, () => {
        this.#waiting.delete(go);
        reject(signal.reason);
      });
      this.#waiting.add(go);
    });
  }

  /** Gives a slot back. `latencyMs`: of a call that was answered. */
  giveBack(latencyMs: number | undefined): void {
    this.#inUse -= 1;
    if (latencyMs !== undefined) this.#measured(latencyMs);
    const { limit } = this;
    for (const go of this.#waiting) {
      if (this.#inUse >= limit) return;
      this.#waiting.delete(go);
      this.#inUse += 1;
      go();
    }
  }

  #measured(latencyMs: number): void {
    const now = this.#now();
    if (now >= this.#windowEndsAt) {
      const isNext = now < this.#windowEndsAt + windowMs;
      this.#shortestBeforeMs = isNext ? this.#shortestMs : Number.POSITIVE_INFINITY;
      this.#shortestMs = Number.POSITIVE_INFINITY;
      this.#windowEndsAt = now + windowMs;
    }
    this.#shortestMs = Math.min(this.#shortestMs, latencyMs);
  }
}
