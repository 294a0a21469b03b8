import { onAbort } from '../../kube/index.ts';

/** So many at the same time, the others in the order of their arrival. */
export class Turns {
  #free: number;
  readonly #waiting = new Set<() => void>();

  constructor(parallel: number) {
    this.#free = parallel;
  }

  async take<T>(signal: AbortSignal, work: () => Promise<T>): Promise<T> {
    signal.throwIfAborted();
    if (this.#free > 0) this.#free -= 1;
    else await this.#turn(signal);
    try {
      return await work();
    } finally {
      const [next] = this.#waiting;
      if (next === undefined) this.#free += 1;
      else next();
    }
  }

  #turn(signal: AbortSignal): Promise<void> {
    return new Promise((resolve, reject) => {
      const begin = (): void => {
        this.#waiting.delete(begin);
        release();
        resolve();
      };
      this.#waiting.add(begin);
      const release = onAbort(signal, () => {
        if (this.#waiting.delete(begin)) reject(signal.reason);
      });
    });
  }
}
