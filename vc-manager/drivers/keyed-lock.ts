/** Lets one task per key run at a time, in the order of their calls. */
export class KeyedLock {
  readonly #last = new Map<string, Promise<void>>();

  /** A task whose turn has not come when the signal is aborted never runs. */
  async run<T>(key: string, signal: AbortSignal, task: () => Promise<T>): Promise<T> {
    const before = this.#last.get(key) ?? Promise.resolve();
    const mine = Promise.withResolvers<void>();
    const chained = before.then(() => mine.promise);
    this.#last.set(key, chained);
    try {
      await settledOrAborted(before, signal);
      signal.throwIfAborted();
      return await task();
    } finally {
      mine.resolve();
      void chained.then(() => {
        if (this.#last.get(key) === chained) this.#last.delete(key);
      });
    }
  }
}

async function settledOrAborted(promise: Promise<void>, signal: AbortSignal): Promise<void> {
  const over = new AbortController();
  const aborted = new Promise<void>((resolve) => {
    if (signal.aborted) resolve();
    signal.addEventListener('abort', () => resolve(), { once: true, signal: over.signal });
  });
  await Promise.race([promise, aborted]);
  over.abort();
}
