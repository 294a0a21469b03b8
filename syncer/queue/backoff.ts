import { QueueError, requirePositive } from './errors.ts';

export interface BackoffOptions {
  baseMs: number;
  maxMs: number;
}

/** Exponential back-off with jitter: the n-th failure waits between half and all of `baseMs * 2^(n-1)`, at most `maxMs`. */
export class Backoff {
  readonly #baseMs: number;
  readonly #maxMs: number;
  readonly #random: () => number;

  constructor(options: BackoffOptions, random: () => number) {
    this.#baseMs = requirePositive('backoff.baseMs', options.baseMs);
    this.#maxMs = requirePositive('backoff.maxMs', options.maxMs);
    if (this.#maxMs < this.#baseMs) {
      throw new QueueError(
        'InvalidOption',
        `backoff.maxMs ${options.maxMs} is below backoff.baseMs ${options.baseMs}`,
      );
    }
    this.#random = random;
  }

  delayMs(failures: number): number {
    const full = Math.min(this.#maxMs, this.#baseMs * 2 ** (failures - 1));
    return full * (1 - this.#random() / 2);
  }
}
