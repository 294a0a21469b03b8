import type { Dispatcher } from 'undici';
import { onAbort } from './abort.ts';
import { Chunks } from './chunks.ts';
import { errorBytes, TooLarge } from './read-limits.ts';

/**
 * undici's own timeouts fire first, because they also make it probe the connection; this deadline
 * is for what they do not cover: a body that trickles, a queue behind a connect.
 */
export const backstopMs = 1_000;

/** Ends one call: when its signal aborts, or some time after its timeout. */
export class CallDeadline {
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
   * The result of `work`, or a rejection at the deadline or abort. undici handles an abort only once a
   * request has a connection; one that waits in its queue would not end.
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

interface Limits {
  /**
   * For the whole round trip, waiting for a connection included, but not the rests of its pace; undici's own limits end the
   * rest sooner.
   */
  deadlineMs: number;
  /** Of the body of a successful answer; what refuses is cut sooner. */
  maxBytes: number;
  /** Counts the body while it comes. */
  pace?: BodyPace | undefined;
  /** Called when the answer begins. */
  onStart?: (() => void) | undefined;
}

type RoundTripOptions = Limits & Dispatcher.DispatchOptions;

/** Counts an answer's body, in pieces, and says when more of it may be read. */
interface BodyPace {
  /** Told of each piece, with what has come with it, and of the rest when the answer has ended or is given up. */
  readonly read: (bytes: number, total: number) => void;
  /** Asked after each piece but the last; undefined: at once. */
  readonly turn: () => Promise<void> | undefined;
  /** Told how long a turn was waited for. */
  readonly rested: (ms: number) => void;
  /** Told once, when no more of the body comes. */
  readonly end: () => void;
}

/** Of a body that is counted. */
const pieceBytes = 512 * 1024;

/** A whole answer, whatever its status. */
export interface Answer {
  status: number;
  text: string;
  retryAfter: string | undefined;
}

/** Time was up. */
export class RoundTripTimeout extends Error {
  constructor() {
    super('the call took too long');
  }
}

/**
 * One request and its whole answer. Without the stream, the abort signals and the promises that undici's `request`
 * makes for each call, which together cost more than the call itself.
 * Rejects with what undici reports, with RoundTripTimeout, with TooLarge, or with the signal's reason. An answer that
 * refuses and is too large resolves without its text.
 */
export function roundTrip(
  dispatcher: Dispatcher,
  { deadlineMs, maxBytes, pace, onStart, ...options }: RoundTripOptions,
  signal: AbortSignal | undefined,
): Promise<Answer> {
  return new Promise((resolve, reject) => {
    new RoundTrip({ deadlineMs, maxBytes, pace, onStart }, signal, resolve, reject).start(
      dispatcher,
      options,
    );
  });
}

class RoundTrip implements Dispatcher.DispatchHandler {
  readonly #resolve: (answer: Answer) => void;
  readonly #reject: (error: unknown) => void;
  #timer: NodeJS.Timeout;
  #endsAt: number;
  /** A no-op while the constructor handles a signal that is already aborted. */
  #unlink: () => void = () => undefined;
  readonly #maxBytes: number;
  readonly #pace: BodyPace | undefined;
  readonly #onStart: (() => void) | undefined;
  #bytes = 0;
  /** Of these, counted. */
  #counted = 0;
  readonly #chunks = new Chunks();
  #controller: Dispatcher.DispatchController | undefined;
  #status = 0;
  #retryAfter: string | undefined;
  /** Set when the promise was resolved or rejected. */
  #ended: { readonly error: unknown } | undefined;

  constructor(
    { deadlineMs, maxBytes, pace, onStart }: Limits,
    signal: AbortSignal | undefined,
    resolve: (answer: Answer) => void,
    reject: (error: unknown) => void,
  ) {
    this.#resolve = resolve;
    this.#reject = reject;
    this.#maxBytes = maxBytes;
    this.#pace = pace;
    this.#onStart = onStart;
    this.#endsAt = performance.now() + deadlineMs;
    this.#timer = this.#endAfter(deadlineMs);
    this.#unlink = onAbort(signal, () => this.#cancel(signal?.reason));
  }

  start(dispatcher: Dispatcher, options: Dispatcher.DispatchOptions): void {
    if (this.#ended !== undefined) return;
    try {
      dispatcher.dispatch(options, this);
    } catch (error) {
      this.#end(error);
    }
  }

  onRequestStart(controller: Dispatcher.DispatchController): void {
    this.#controller = controller;
    // Cancelled while it waited for a connection. Thrown, because an abort would close the connection.
    if (this.#ended !== undefined) throw asError(this.#ended.error);
  }

  onResponseStart(
    _controller: Dispatcher.DispatchController,
    statusCode: number,
    headers: Record<string, string | string[] | undefined>,
  ): void {
    // Informational answers come before the real one.
    if (statusCode < 200) return;
    this.#status = statusCode;
    this.#onStart?.();
    this.#retryAfter = firstOf(headers['retry-after']);
  }

  onResponseData(_controller: Dispatcher.DispatchController, chunk: Buffer): void {
    if (this.#ended !== undefined) return;
    this.#bytes += chunk.length;
    const isRefusal = this.#status > 299;
    if (this.#chunks.length + chunk.length <= (isRefusal ? errorBytes : this.#maxBytes)) {
      this.#chunks.add(chunk);
      this.#rest();
      return;
    }
    this.#chunks.clear();
    if (!isRefusal) {
      this.#cancel(new TooLarge('the answer', this.#maxBytes));
      return;
    }
    this.onResponseEnd();
    this.#controller?.abort(new TooLarge('the answer', errorBytes));
  }

  onResponseEnd(): void {
    if (this.#ended !== undefined) return;
    let text: string;
    try {
      text = this.#chunks.take().toString();
    } catch (error) {
      // Longer than a Buffer or a string can be.
      this.#end(error);
      return;
    }
    this.#release();
    this.#ended = { error: undefined };
    this.#resolve({ status: this.#status, text, retryAfter: this.#retryAfter });
  }

  onResponseError(_controller: Dispatcher.DispatchController, error: Error): void {
    this.#end(error);
  }

  /** Reads no more until the pace allows it. */
  #rest(): void {
    if (this.#pace === undefined || this.#bytes - this.#counted < pieceBytes) return;
    this.#count(this.#pace);
    const turn = this.#pace.turn();
    if (turn === undefined) return;
    this.#controller?.pause();
    clearTimeout(this.#timer);
    const fromMs = performance.now();
    const goOn = (): void => {
      const restedMs = performance.now() - fromMs;
      this.#pace?.rested(restedMs);
      if (this.#ended !== undefined) return;
      this.#endsAt += restedMs;
      this.#timer = this.#endAfter(this.#endsAt - performance.now());
      this.#controller?.resume();
    };
    // It is aborted with the call, which then ends.
    turn.then(goOn, goOn);
  }

  #endAfter(ms: number): NodeJS.Timeout {
    return setTimeout(() => this.#cancel(new RoundTripTimeout()), ms);
  }

  #count(pace: BodyPace): void {
    pace.read(this.#bytes - this.#counted, this.#bytes);
    this.#counted = this.#bytes;
  }

  /** undici handles an abort only once a request has a connection; the caller does not wait for that. */
  #cancel(error: unknown): void {
    if (this.#ended !== undefined) return;
    this.#end(error);
    this.#controller?.abort(asError(error));
  }

  #end(error: unknown): void {
    if (this.#ended !== undefined) return;
    this.#ended = { error };
    this.#release();
    this.#reject(error);
  }

  #release(): void {
    if (this.#pace !== undefined && this.#bytes > this.#counted) this.#count(this.#pace);
    this.#pace?.end();
    clearTimeout(this.#timer);
    this.#unlink();
  }
}

export function firstOf(header: string | string[] | undefined): string | undefined {
  return Array.isArray(header) ? header[0] : header;
}

function asError(reason: unknown): Error {
  return reason instanceof Error ? reason : new Error(String(reason));
}

interface ReadTextOptions {
  maxBytes: number;
  timeoutMs: number;
  /** As of a round trip. */
  onLength?: ((bytes: number) => void) | undefined;
}

/** Reads a stream to its end, within limits in bytes and time. Throws TooLarge, RoundTripTimeout, or what undici reports. */
export async function readText(
  body: Dispatcher.ResponseData['body'],
  { maxBytes, timeoutMs, onLength }: ReadTextOptions,
): Promise<string> {
  const chunks = new Chunks();
  let bytes = 0;
  const timer = setTimeout(() => body.destroy(new RoundTripTimeout()), timeoutMs);
  try {
    for await (const chunk of body) {
      bytes += chunk.length;
      if (chunks.length + chunk.length > maxBytes) throw new TooLarge('the answer', maxBytes);
      chunks.add(chunk);
    }
    return chunks.take().toString();
  } finally {
    onLength?.(bytes);
    clearTimeout(timer);
    // Without a listener, an error that arrives after this point would be an uncaught exception.
    body.on('error', () => undefined).destroy();
  }
}
