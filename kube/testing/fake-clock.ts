import { onAbort } from '../abort.ts';
import type { Clock } from '../clock.ts';

interface Sleeper {
  readonly dueAt: number;
  readonly wake: () => void;
}

/** Time that stands still until it is moved. */
export class FakeClock implements Clock {
  /** Every sleep that was asked for, in order. */
  readonly sleeps: number[] = [];
  readonly #autoAdvance: boolean;
  #epoch: number;
  #elapsed = 0;
  #sleepers: Sleeper[] = [];
  #onSleep: (() => void)[] = [];

  /** With `autoAdvance`, time jumps to the end of each sleep as soon as everything else has had its turn. */
  constructor(options: { now?: number; autoAdvance?: boolean } = {}) {
    this.#epoch = options.now ?? Date.UTC(2030, 0, 1);
    this.#autoAdvance = options.autoAdvance ?? false;
  }

  now(): number {
    return this.#epoch + this.#elapsed;
  }

  /** The machine sleeps: of its two clocks one goes on. */
  suspend(ms: number): void {
    this.#epoch += ms;
  }

  monotonic(): number {
    return this.#elapsed;
  }

  /** How many sleeps have not ended. */
  get sleeping(): number {
    return this.#sleepers.length;
  }

  sleep(ms: number, signal?: AbortSignal): Promise<void> {
    return new Promise((resolve, reject) => {
      if (signal?.aborted) {
        reject(signal.reason);
        return;
      }
      this.sleeps.push(ms);
      const sleeper: Sleeper = {
        dueAt: this.#elapsed + ms,
        wake: () => {
          release();
          resolve();
        },
      };
      this.#sleepers.push(sleeper);
      const release = onAbort(signal, () => {
        this.#sleepers = this.#sleepers.filter((each) => each !== sleeper);
        reject(signal?.reason);
      });
      for (const listener of this.#onSleep.splice(0)) listener();
      if (this.#autoAdvance) {
        setImmediate(() => {
          if (this.#sleepers.includes(sleeper)) this.#wakeUntil(sleeper.dueAt);
        });
      }
    });
  }

  /** Resolves as soon as `count` sleeps are going on. */
  async untilSleeping(count = 1): Promise<void> {
    while (this.#sleepers.length < count) {
      await new Promise<void>((resolve) => this.#onSleep.push(resolve));
    }
  }

  /** Moves time, ending sleeps in the order in which they are due; what they start may end within the same span. */
  async advance(ms: number): Promise<void> {
    const target = this.#elapsed + ms;
    await turn();
    for (;;) {
      const due = this.#sleepers.reduce((min, { dueAt }) => Math.min(min, dueAt), Number.POSITIVE_INFINITY);
      if (due > target) break;
      this.#wakeUntil(due);
      await turn();
    }
    this.#elapsed = target;
  }

  #wakeUntil(time: number): void {
    this.#elapsed = Math.max(this.#elapsed, time);
    const due = this.#sleepers.filter(({ dueAt }) => dueAt <= this.#elapsed);
    this.#sleepers = this.#sleepers.filter(({ dueAt }) => dueAt > this.#elapsed);
    for (const { wake } of due.sort((a, b) => a.dueAt - b.dueAt)) wake();
  }
}

function turn(): Promise<void> {
  return new Promise((resolve) => setImmediate(resolve));
}
