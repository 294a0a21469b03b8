import type { Clock } from '../../kube/index.ts';

/** Ends somebody's wait; rung while nobody waits, it ends the next one. */
export class Wake {
  readonly #clock: Clock;
  #rung = false;
  #end: (() => void) | undefined;

  constructor(clock: Clock) {
    this.#clock = clock;
  }

  ring(): void {
    this.#rung = true;
    this.#end?.();
  }

  /** Resolves when rung, or after that time. Rejects with the signal's reason. */
  async wait(ms: number, signal: AbortSignal): Promise<void> {
    if (!this.#rung) {
      const ended = new AbortController();
      this.#end = () => ended.abort();
      await this.#clock.sleep(ms, AbortSignal.any([signal, ended.signal])).catch(() => undefined);
      this.#end = undefined;
    }
    signal.throwIfAborted();
    this.#rung = false;
  }
}
