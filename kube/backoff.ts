import type { Clock } from './clock.ts';

export interface BackoffOptions {
  clock: Clock;
  random: () => number;
  minMs?: number;
  maxMs?: number;
}

/** After this long without a failure the next one counts as the first. */
const resetAfterMs = 120_000;

/**
 * How long to wait after each failure: 0.8 s, doubling to 30 s, each stretched by up to 100 % at
 * random so that many clients of one server do not come back together.
 */
export class Backoff {
  readonly #clock: Clock;
  readonly #random: () => number;
  readonly #minMs: number;
  readonly #maxMs: number;
  #nextMs: number;
  #lastAt = Number.NEGATIVE_INFINITY;

  constructor(options: BackoffOptions) {
    this.#clock = options.clock;
    this.#random = options.random;
    this.#minMs = options.minMs ?? 800;
    this.#maxMs = options.maxMs ?? 30_000;
    this.#nextMs = this.#minMs;
  }

  /** Makes the next failure count as the first. */
  reset(): void {
    this.#nextMs = this.#minMs;
  }

  next(): number {
    const now = this.#clock.monotonic();
    if (now - this.#lastAt > resetAfterMs) this.#nextMs = this.#minMs;
    this.#lastAt = now;
    const delay = this.#nextMs * (1 + this.#random());
    this.#nextMs = Math.min(this.#nextMs * 2, this.#maxMs);
    return delay;
  }
}
