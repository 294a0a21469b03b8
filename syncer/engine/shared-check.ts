/**
 * A question to a server that many ask at once. An answer counts for a caller only if it was asked for after
 * the call, so that what the caller saw before cannot be younger than the answer; callers that wait share one.
 */
export class SharedCheck<T> {
  readonly #ask: () => Promise<T>;
  #running: Promise<T> | undefined;
  #next: Promise<T> | undefined;

  constructor(ask: () => Promise<T>) {
    this.#ask = ask;
  }

  /** Throws what `ask` throws. */
  async run(): Promise<T> {
    if (this.#running === undefined) return this.#start();
    this.#next ??= this.#running.then(
      () => this.#start(),
      () => this.#start(),
    );
    return this.#next;
  }

  #start(): Promise<T> {
    this.#next = undefined;
    const check = this.#ask().finally(() => {
      if (this.#running === check) this.#running = undefined;
    });
    this.#running = check;
    return check;
  }
}
