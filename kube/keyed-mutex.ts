/** Runs tasks that share a key one after another, in the order of the calls; tasks of different keys do not wait. */
export class KeyedMutex {
  /** The end of the line of each key that has one; a key whose tasks are all done is not in it. */
  readonly #tails = new Map<string, Promise<unknown>>();

  /** Settles as the task does. A task that fails does not keep the next one from running. */
  run<T>(key: string, task: () => Promise<T>): Promise<T> {
    const before = this.#tails.get(key) ?? Promise.resolve();
    const result = before.then(task, task);
    this.#tails.set(key, result);
    const leave = () => {
      if (this.#tails.get(key) === result) this.#tails.delete(key);
    };
    result.then(leave, leave);
    return result;
  }
}
