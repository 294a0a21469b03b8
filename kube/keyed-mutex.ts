import { onAbort } from './abort.ts';

/** Runs one task per key at a time, in the order of the calls; tasks of different keys do not wait for each other. */
export class KeyedMutex {
  /** Settles when the last task of the key has ended. A key without tasks is not in it. */
  readonly #last = new Map<string, Promise<void>>();

  /**
   * Settles as the task does. A task that fails does not keep the next one from running; one that has not begun
   * when the signal is aborted never runs.
   */
  async run<T>(key: string, signal: AbortSignal | undefined, task: () => Promise<T>): Promise<T> {
    const before = this.#last.get(key) ?? Promise.resolve();
    const own = Promise.withResolvers<void>();
    const last = before.then(() => own.promise);
    this.#last.set(key, last);
    try {
      await settledOrAborted(before, signal);
      signal?.throwIfAborted();
      return await task();
    } finally {
      own.resolve();
      void last.then(() => {
        if (this.#last.get(key) === last) this.#last.delete(key);
      });
    }
  }
}

function settledOrAborted(promise: Promise<void>, signal: AbortSignal | undefined): Promise<void> {
  return new Promise((resolve) => {
    const release = onAbort(signal, resolve);
    void promise.then(() => {
      release();
      resolve();
    });
  });
}
