import type { Dispatcher } from 'undici';
import { onAbort } from './abort.ts';
import { Chunks } from './chunks.ts';
import { errorBytes, type MemoryHold, type ReadMemory, TooLarge } from './read-limits.ts';

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
  /** Counts what is in memory of it, beyond its first piece. */
  memory?: ReadMemory | undefined;
  /** Called when the answer begins. */
  onStart?: (() => void) | undefined;
  /** Called with what each chunk counts as. */
  onReceived?: ((bytes: number) => void) | undefined;
}

type RoundTripOptions = Limits & Dispatcher.DispatchOptions;

/** Counts an answer's body, in pieces, and says when more of it may be read. Sizes are those of `workBytes`. */
interface BodyPace {
  /** Told of each piece, with what has come with it, and of the rest when the answer has ended or is given up. */
  readonly read: (bytes: number, total: number) => void;
  /** Asked after each piece but the last; undefined: at once. */
  readonly turn: () => Promise<void> | undefined;
  /** Asked when a body is complete, before it is handed over to be parsed; undefined: at once. */
  readonly parseTurn: () => Promise<void> | undefined;
  /** Told how long a turn was waited for. */
  readonly rested: (ms: number) => void;
  /** Told once, when the body is handed over or given up. */
  readonly end: () => void;
}

/** Receiving a chunk takes as much time as receiving this many bytes, however few it has. API servers send few that are smaller. */
export const fewestBytes = 1024;

/** How many bytes a chunk counts as, where it is the time that counts. */
function workBytes(chunk: Buffer): number {
  return Math.max(chunk.length, fewestBytes);
}

/** Beyond so much work, chunks have to be of an eighth of `fewestBytes` on average: no server sends an answer in smaller ones. */
const smallChunksFrom = 64 * 2 ** 20;
/** API servers send none. A deadline alone would allow millions. */
const maxInformational = 8;

function tooManyInformational(): TooLarge {
  return new TooLarge('the answer', maxInformational, 'informational answers');
}

/** For a call whose answer is a stream: tells what its chunks count as, and ends it after too many informational answers. */
export function observeStream(
  onReceived: (bytes: number) => void,
  framing: { started: () => void; opened: () => () => void; received: (bytes: number) => void } | undefined,
): Dispatcher.DispatcherComposeInterceptor {
  return (dispatch) => (options, handler) => {
    const start = handler.onResponseStart?.bind(handler);
    const data = handler.onResponseData?.bind(handler);
    const end = handler.onResponseEnd?.bind(handler);
    const fail = handler.onResponseError?.bind(handler);
    let informational = 0;
    let closed: (() => void) | undefined;
    const close = (): void => {
      closed?.();
      closed = undefined;
    };
    handler.onResponseStart = (controller, status, ...rest) => {
      if (status < 200) informational += 1;
      framing?.started();
      closed ??= framing?.opened();
      if (informational > maxInformational) controller.abort(tooManyInformational());
      else start?.(controller, status, ...rest);
    };
    handler.onResponseData = (controller, chunk) => {
      onReceived(workBytes(chunk));
      framing?.received(chunk.length);
      data?.(controller, chunk);
    };
    handler.onResponseEnd = (...args) => {
      close();
      end?.(...args);
    };
    handler.onResponseError = (...args) => {
      close();
      fail?.(...args);
    };
    return dispatch(options, handler);
  };
}

/** Of a body that is counted. */
export const pieceBytes = 512 * 1024;

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
  { deadlineMs, maxBytes, pace, memory, onStart, onReceived, ...options }: RoundTripOptions,
  signal: AbortSignal | undefined,
): Promise<Answer> {
  return new Promise((resolve, reject) => {
    new RoundTrip({ deadlineMs, maxBytes, pace, memory, onStart, onReceived }, signal, resolve, reject).start(
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
  readonly #memory: ReadMemory | undefined;
  #hold: MemoryHold | undefined;
  readonly #onStart: (() => void) | undefined;
  readonly #onReceived: ((bytes: number) => void) | undefined;
  /** Turns that are waited for. */
  #waits = 0;
  /** Since when, of what is not counted yet. */
  #restsFromMs = 0;
  #informational = 0;
  /** In bytes, as of `workBytes`. */
  #work = 0;
  /** Of this, counted. */
  #counted = 0;
  readonly #chunks = new Chunks();
  #controller: Dispatcher.DispatchController | undefined;
  #status = 0;
  #retryAfter: string | undefined;
  /** Set when the promise was resolved or rejected. */
  #ended: { readonly error: unknown } | undefined;

  constructor(
    { deadlineMs, maxBytes, pace, memory, onStart, onReceived }: Limits,
    signal: AbortSignal | undefined,
    resolve: (answer: Answer) => void,
    reject: (error: unknown) => void,
  ) {
    this.#resolve = resolve;
    this.#reject = reject;
    this.#maxBytes = maxBytes;
    this.#pace = pace;
    this.#memory = memory;
    this.#onStart = onStart;
    this.#onReceived = onReceived;
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
    if (statusCode < 200) {
      this.#informational += 1;
      if (this.#informational > maxInformational) this.#cancel(tooManyInformational());
      return;
    }
    this.#status = statusCode;
    this.#onStart?.();
    this.#retryAfter = firstOf(headers['retry-after']);
  }

  onResponseData(_controller: Dispatcher.DispatchController, chunk: Buffer): void {
    if (this.#ended !== undefined) return;
    const work = workBytes(chunk);
    this.#work += work;
    this.#onReceived?.(work);
    const isRefusal = this.#status > 299;
    if (this.#chunks.length + chunk.length <= (isRefusal ? errorBytes : this.#maxBytes)) {
      this.#chunks.add(chunk);
      if (this.#work > 8 * Math.max(this.#chunks.length, smallChunksFrom / 8))
        this.#cancel(new TooLarge('the answer', smallChunksFrom / fewestBytes, 'small chunks'));
      if (this.#chunks.length > pieceBytes) this.#takesMemory();
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
    this.#count();
    const turn = this.#status > 299 ? undefined : this.#pace?.parseTurn();
    if (turn === undefined) this.#resolveWithText();
    else this.#wait(turn, () => this.#resolveWithText());
  }

  #resolveWithText(): void {
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
    if (this.#ended !== undefined || this.#work - this.#counted < pieceBytes) return;
    this.#count();
    const turn = this.#pace?.turn();
    if (turn === undefined) return;
    this.#controller?.pause();
    this.#wait(turn, () => this.#controller?.resume());
  }

  /** An answer that ends with its connection does so during a rest, too: then two are waited for at a time. */
  #wait(turn: Promise<void>, goOn: () => void): void {
    clearTimeout(this.#timer);
    if (this.#waits === 0) this.#restsFromMs = performance.now();
    this.#waits += 1;
    const rested = (): void => {
      const nowMs = performance.now();
      const restedMs = nowMs - this.#restsFromMs;
      this.#restsFromMs = nowMs;
      this.#waits -= 1;
      this.#pace?.rested(restedMs);
      if (this.#ended !== undefined) return;
      this.#endsAt += restedMs;
      if (this.#waits === 0) this.#timer = this.#endAfter(this.#endsAt - nowMs);
      goOn();
    };
    // It is aborted with the call, which then ends.
    turn.then(rested, rested);
  }

  /** Of what has come of the body. May end the call. */
  #takesMemory(): void {
    this.#hold ??= this.#memory?.hold((error) => this.#cancel(error));
    this.#hold?.takes(this.#chunks.length);
  }

  #endAfter(ms: number): NodeJS.Timeout {
    return setTimeout(() => this.#cancel(new RoundTripTimeout()), ms);
  }

  #count(): void {
    if (this.#work > this.#counted) this.#pace?.read(this.#work - this.#counted, this.#work);
    this.#counted = this.#work;
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
    this.#chunks.clear();
    this.#release();
    this.#reject(error);
  }

  #release(): void {
    this.#count();
    this.#pace?.end();
    this.#hold?.release();
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
}

/** Reads a stream to its end, within limits in bytes and time. Throws TooLarge, RoundTripTimeout, or what undici reports. */
export async function readText(
  body: Dispatcher.ResponseData['body'],
  { maxBytes, timeoutMs }: ReadTextOptions,
): Promise<string> {
  const chunks = new Chunks();
  const timer = setTimeout(() => body.destroy(new RoundTripTimeout()), timeoutMs);
  try {
    for await (const chunk of body) {
      if (chunks.length + chunk.length > maxBytes) throw new TooLarge('the answer', maxBytes);
      chunks.add(chunk);
    }
    return chunks.take().toString();
  } finally {
    clearTimeout(timer);
    // Without a listener, an error that arrives after this point would be an uncaught exception.
    body.on('error', () => undefined).destroy();
  }
}
