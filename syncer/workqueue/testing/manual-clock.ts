import type { WaitingClock } from '../options.ts';

interface Sleeper {
  at: number;
  wake: () => void;
}

/** A clock that moves only when told to. */
export class ManualClock implements WaitingClock {
  #now = 1_000;
  readonly #sleepers = new Set<Sleeper>();

  get sleepers(): number {
    return this.#sleepers.size;
  }

  monotonic(): number {
    return this.#now;
  }

  advance(ms: number): void {
    this.advanceTo(this.#now + ms);
  }

  advanceTo(at: number): void {
    this.#now = Math.max(this.#now, at);
    for (const sleeper of this.#sleepers) {
      if (sleeper.at <= this.#now) sleeper.wake();
    }
  }

  sleep(ms: number, signal?: AbortSignal): Promise<void> {
    return new Promise((resolve, reject) => {
      const sleeper: Sleeper = {
        at: this.#now + ms,
        wake: () => {
          this.#sleepers.delete(sleeper);
          resolve();
        },
      };
      this.#sleepers.add(sleeper);
      signal?.addEventListener('abort', () => {
        this.#sleepers.delete(sleeper);
        reject(signal.reason);
      });
    });
  }
}
