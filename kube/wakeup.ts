import type { Clock } from './clock.ts';

/** Ends the wait of one waiter. A signal without a waiter ends the next wait at once; several count as one. */
export class Wakeup {
  #signalled = false;
  #wake: (() => void) | undefined;

  signal(): void {
    this.#signalled = true;
    this.#wake?.();
  }

  async wait(): Promise<void> {
    if (!this.#signalled) {
      await new Promise<void>((resolve) => {
        this.#wake = resolve;
      });
      this.#wake = undefined;
    }
    this.#signalled = false;
  }

  /** Resolves when signalled, or after that time. Rejects with the signal's reason. */
  async waitFor(ms: number, clock: Pick<Clock, 'sleep'>, signal: AbortSignal): Promise<void> {
    if (!this.#signalled) {
      const woken = new AbortController();
      this.#wake = () => woken.abort();
      await clock.sleep(ms, AbortSignal.any([signal, woken.signal])).catch(() => undefined);
      this.#wake = undefined;
    }
    signal.throwIfAborted();
    this.#signalled = false;
  }
}
