import { onAbort } from './abort.ts';

/**
 * undici's own timeouts fire first, because they also make it probe the connection; this deadline
 * is for what they do not cover: a body that trickles, a queue behind a connect.
 */
const backstopMs = 1_000;

/** Ends one call: when its signal aborts, or some time after its timeout. */
export class CallGuard {
  readonly #controller = new AbortController();
  readonly #timer: NodeJS.Timeout;
  readonly #unlink: () => void;
  /** True when time was up, false when the signal aborted. */
  expired = false;

  constructor(outer: AbortSignal | undefined, timeoutMs: number) {
    this.#timer = setTimeout(() => {
      this.expired = true;
      this.#controller.abort();
    }, timeoutMs + backstopMs);
    this.#unlink = onAbort(outer, () => this.#controller.abort(outer?.reason));
  }

  get signal(): AbortSignal {
    return this.#controller.signal;
  }

  /**
   * The result of `work`, or a rejection as soon as the guard fires. undici hears an abort only once a
   * request has been given to a connection; one that waits in its queue would not end.
   */
  race<T>(work: Promise<T>): Promise<T> {
    return new Promise((resolve, reject) => {
      work.then(resolve, reject);
      onAbort(this.signal, () => reject(this.signal.reason));
    });
  }

  release(): void {
    clearTimeout(this.#timer);
    this.#unlink();
  }
}
