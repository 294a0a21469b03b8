import PQueue from 'p-queue';
import { HttpError } from './http.ts';

/** Lets each do so much at once, and has the rest wait. */
export class Turns {
  readonly #atOnce: number;
  readonly #waiting: number;
  readonly #queues = new Map<string, PQueue>();

  /** `waiting`: beyond so many of one, others are refused. */
  constructor({ atOnce, waiting }: { atOnce: number; waiting: number }) {
    this.#atOnce = atOnce;
    this.#waiting = waiting;
  }

  /** Throws HttpError 429, the reason of the signal when it ends the wait, or what `work` throws. */
  async take<T>(whose: string, work: () => Promise<T>, signal?: AbortSignal): Promise<T> {
    const queue = this.#queues.get(whose) ?? new PQueue({ concurrency: this.#atOnce });
    if (queue.size >= this.#waiting) throw new HttpError(429, 'too many requests at once: wait a moment');
    this.#queues.set(whose, queue);
    try {
      return (await queue.add(work, signal === undefined ? {} : { signal })) as T;
    } finally {
      if (queue.size === 0 && queue.pending <= 1) void queue.onIdle().then(() => this.#forget(whose, queue));
    }
  }

  /** Of whom something is under way or waits. */
  get busy(): number {
    return this.#queues.size;
  }

  #forget(whose: string, queue: PQueue): void {
    if (queue.size === 0 && queue.pending === 0 && this.#queues.get(whose) === queue)
      this.#queues.delete(whose);
  }
}
