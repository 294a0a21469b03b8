import tls from 'node:tls';
import { Agent, Client, type Dispatcher, Pool } from 'undici';
import { deferredSignal } from './abort.ts';
import { ConnectionError } from './errors.ts';
import { FramingLimit } from './framing-limit.ts';
import { InFlightLimit } from './in-flight-limit.ts';
import {
  defaultReadLimits,
  errorBytes,
  type ReadLimits,
  type ReadMemory,
  type ReadMeter,
} from './read-limits.ts';
import {
  type Answer,
  backstopMs,
  CallDeadline,
  firstOf,
  observeStream,
  RoundTripTimeout,
  readText,
  roundTrip,
} from './round-trip.ts';

/** `beforeWrite` refused a call; `cause` is what it threw. */
class WriteRefused extends Error {
  readonly code: string;

  constructor(cause: unknown) {
    super(cause instanceof Error ? cause.message : String(cause), { cause });
    const code: unknown = cause instanceof Error && 'code' in cause ? cause.code : undefined;
    this.code = typeof code === 'string' ? code : 'EREFUSED';
  }
}

/** Calls `beforeWrite` right before a request other than GET is written to its connection. */
function guardWrites(beforeWrite: () => void): Dispatcher.DispatcherComposeInterceptor {
  return (dispatch) => (options, handler) =>
    dispatch(options, options.method === 'GET' ? handler : withBeforeWrite(handler, beforeWrite));
}

/** The handler itself, but for its first call: nothing of an answer passes through here. */
function withBeforeWrite(
  handler: Dispatcher.DispatchHandler,
  beforeWrite: () => void,
): Dispatcher.DispatchHandler {
  const start = handler.onRequestStart?.bind(handler);
  handler.onRequestStart = (controller, context) => {
    try {
      beforeWrite();
    } catch (error) {
      // Thrown, not aborted: the connection stays as it is.
      throw new WriteRefused(error);
    }
    start?.(controller, context);
  };
  return handler;
}

/**
 * After a GOAWAY, an undici client with open streams (and watches are open for minutes) opens a new
 * session for the requests that it holds only if it may have more than one in flight. It takes that
 * number from its session while it has one; so this sets it when HTTP/2 has been agreed on.
 */
function createHttpClient(origin: URL, options: Pool.Options, framing: FramingLimit | undefined): Dispatcher {
  const { connect } = options;
  if (typeof connect !== 'function') return new Client(origin, options);
  const client = new Client(origin, {
    ...options,
    connect: (target, callback) =>
      connect(target, (error, socket) => {
        if (error !== null) {
          callback(error, null);
          return;
        }
        // A plain socket has agreed on nothing.
        const isHttp2 = 'alpnProtocol' in socket && socket.alpnProtocol === 'h2';
        client.pipelining = isHttp2 ? 100 : 1;
        framing?.observe(socket, { isHttp2 });
        callback(null, socket);
      }),
  });
  return client;
}

/** Where an API server is, and the credentials for it. PEM texts, not paths. */
export interface ConnectionOptions {
  /** `https://host:port`, optionally with a path in front of the API. */
  server: string;
  ca?: string | undefined;
  cert?: string | undefined;
  key?: string | undefined;
  token?: string | undefined;
  /** The user in whose name the calls are made. These credentials need the right to impersonate it. */
  impersonate?: {
    readonly user: string;
    readonly groups: readonly string[];
    readonly extra: Readonly<Record<string, readonly string[]>>;
  };
  /** Called before every request, for credentials that change (exec plugins). It has to cache its answers. */
  authorization?: (() => Promise<string | undefined>) | undefined;
  tlsServerName?: string | undefined;
  insecureSkipTlsVerify?: boolean;
  userAgent?: string;
  /** How long an answer may take. Default 30 s. */
  requestTimeoutMs?: number;
  /** How long it may take to be connected. Default 10 s, or `requestTimeoutMs` if that is less. */
  connectTimeoutMs?: number;
  /** For all calls but watches; each costs both sides a handshake. Default 16. */
  maxConnections?: number;
  /** How many of these calls run at once where the server is near; default: as many as there are connections, wherever it is. */
  callsWhenNear?: number;
  /** How much of an answer is read; default `defaultReadLimits`. */
  readLimits?: Partial<ReadLimits>;
  /** Counts what lists and watches take of this thread's time, and makes them wait. */
  meter?: ReadMeter;
  /** The same for answers to all other calls. Only large ones count: those to what is written are small. */
  answerMeter?: ReadMeter;
  /** Counts what answers and events hold in memory until they are parsed. */
  readMemory?: ReadMemory;
  /** Called once for every call, when its answer starts or it fails; must not throw. */
  onCall?: (call: CallRecord) => void;
  /**
   * Called right before a call that is no GET is put on the wire, which may be long after it was asked for.
   * What it throws keeps the call from being sent: it fails with a ConnectionError of that code and message.
   */
  beforeWrite?: (() => void) | undefined;
}

export type Verb = 'get' | 'list' | 'watch' | 'create' | 'update' | 'patch' | 'delete' | 'other';

export interface CallRecord {
  method: string;
  verb: Verb;
  /** Plural name; empty when the path is none of a resource. */
  resource: string;
  /** 0: there was no answer. */
  status: number;
  durationMs: number;
}

/** One HTTP call. `path` includes the query. */
export interface Call {
  method: string;
  path: string;
  verb: Verb;
  resource: string;
  body?: string | undefined;
  contentType?: string | undefined;
  /** Default: JSON. */
  accept?: string | undefined;
  signal?: AbortSignal | undefined;
  timeoutMs?: number | undefined;
  /** How much of the answer is read; default: what an object may have. */
  maxBytes?: number | undefined;
  /** Told of each rest while the answer is read: it does not count towards the timeout. */
  onRest?: ((ms: number) => void) | undefined;
}

interface Stream {
  status: number;
  retryAfter: string | undefined;
  body: Dispatcher.ResponseData['body'];
}

const mebibyte = 2 ** 20;
/** Answers up to this size do not count. */
const smallAnswerBytes = 64 * 1024;
/** About what it takes to receive, decrypt and parse a MiB, most of it where nothing can measure it. */
const msPerMebibyte = 10;
/** The same without parsing. */
const msPerReceivedMebibyte = 5;
/** No object that an API server stores is longer, but for one full of characters that it escapes. */
const longestUsualBytes = 2 * 2 ** 20;
/** What a MiB beyond that counts, or beyond what the caller lets the answer have: who sends such answers gets little of this thread. */
const msPerUnusualMebibyte = 160;

/** Counts a piece of an answer, whose size is `total` with it. */
function countAnswer(meter: ReadMeter, bytes: number, total = bytes, usualBytes = longestUsualBytes): void {
  if (total <= smallAnswerBytes) return;
  const unusual = Math.min(bytes, Math.max(0, total - usualBytes));
  meter.worked(((bytes - unusual) * msPerMebibyte + unusual * msPerUnusualMebibyte) / 2 ** 20);
}

/** Counts a piece of a page of a list, or of a watch: what is made of it counts by itself. */
function countReceived(meter: ReadMeter, bytes: number): void {
  meter.worked((bytes * msPerReceivedMebibyte) / 2 ** 20);
}

/** Answers of one server that may be read at once beyond their first piece: each may take as much memory as an object may have. */
const maxLargeAnswers = 4;

function paceOf(
  meter: ReadMeter,
  largeAnswers: InFlightLimit,
  { verb, signal, maxBytes = 0, onRest }: Call & { onRest: (ms: number) => void },
): NonNullable<Parameters<typeof roundTrip>[1]['pace']> {
  let isLarge = false;
  let hasEnded = false;
  const enlarge = (): Promise<void> | undefined => {
    if (isLarge) return undefined;
    isLarge = largeAnswers.tryTake();
    if (isLarge) return undefined;
    const ending = signal ?? new AbortController().signal;
    return largeAnswers.take(ending).then(() => {
      if (hasEnded) largeAnswers.giveBack(undefined);
      else isLarge = true;
    });
  };
  return {
    read: (bytes, total) =>
      verb === 'list'
        ? countReceived(meter, bytes)
        : countAnswer(meter, bytes, total, Math.max(longestUsualBytes, maxBytes)),
    turn: () => {
      const place = enlarge();
      return place === undefined ? meter.turn(signal) : place.then(() => meter.turn(signal));
    },
    // Before any other call, its turn is asked for.
    parseTurn: () => (verb === 'list' ? meter.turn(signal) : undefined),
    rested: onRest,
    end: () => {
      hasEnded = true;
      if (isLarge) largeAnswers.giveBack(undefined);
    },
  };
}

/** So much of each stream of HTTP/2 may wait to be read. It is what undici takes: 8.12 does not send another. */
const windowBytes = 256 * 1024;

/** API servers end what was idle for 90 s. */
const keepAliveMs = 80_000;
/**
 * All traffic to one API server. Watches, of which there are many and which are idle for most of the time, share
 * HTTP/2 connections where the server offers it, without a cap: with a cap of one, requests after a GOAWAY wait
 * until the old watches have drained, and a full set of streams blocks everything else. All other calls go over a
 * few HTTP/1.1 connections, which costs client and server about half the CPU.
 */
export class Connection {
  readonly server: string;
  readonly readLimits: ReadLimits;
  readonly meter: ReadMeter | undefined;
  readonly readMemory: ReadMemory | undefined;
  readonly #answerMeter: ReadMeter | undefined;
  /** Of servers whose answers are counted. */
  readonly #framing: FramingLimit | undefined;
  /** The same of the connections of watches. */
  readonly #streamFraming: FramingLimit | undefined;
  readonly #calls: Dispatcher;
  readonly #slots: InFlightLimit | undefined;
  readonly #largeAnswers = new InFlightLimit({ near: maxLargeAnswers, max: maxLargeAnswers });
  readonly #watches: Dispatcher;
  readonly #origin: string;
  readonly #basePath: string;
  readonly #headers: CallHeaders;
  readonly #authorization: (() => Promise<string | undefined>) | undefined;
  readonly #timeoutMs: number;
  readonly #onCall: ((call: CallRecord) => void) | undefined;

  constructor(options: ConnectionOptions) {
    const url = serverUrl(options.server);
    if ((options.cert === undefined) !== (options.key === undefined)) {
      throw new TypeError('a client certificate needs its key, and a key its certificate');
    }
    this.server = options.server.replace(/\/+$/, '');
    this.meter = options.meter;
    this.#answerMeter = options.answerMeter;
    this.readMemory = options.readMemory;
    this.readLimits = { ...defaultReadLimits, ...options.readLimits };
    this.#origin = url.origin;
    this.#basePath = url.pathname.replace(/\/+$/, '');
    this.#timeoutMs = options.requestTimeoutMs ?? 30_000;
    this.#onCall = options.onCall;
    this.#authorization = options.authorization;
    this.#headers = { accept: 'application/json', 'user-agent': options.userAgent ?? 'skerry' };
    if (options.token !== undefined) this.#headers['authorization'] = `Bearer ${options.token}`;
    if (options.impersonate !== undefined) Object.assign(this.#headers, impersonation(options.impersonate));
    const connect = withSecureContext(tlsOptions(options));
    if (options.meter !== undefined) {
      this.#framing = new FramingLimit({ mostBytes: 16 * mebibyte });
      this.#streamFraming = new FramingLimit({ mostBytes: 4 * mebibyte, bytesPerStream: windowBytes });
    }
    const common = (framing: FramingLimit | undefined) => ({
      keepAliveTimeout: keepAliveMs,
      // Servers may say less.
      keepAliveMaxTimeout: keepAliveMs,
      connectTimeout: options.connectTimeoutMs ?? Math.min(10_000, this.#timeoutMs),
      connect,
      factory: (origin: string | URL, poolOptions: Pool.Options) =>
        new Pool(origin, {
          ...poolOptions,
          factory: (each, clientOptions) => createHttpClient(each, clientOptions, framing),
        }),
    });
    const { maxConnections = 16, callsWhenNear } = options;
    const calls = new Agent({ ...common(this.#framing), allowH2: false, connections: maxConnections });
    if (callsWhenNear !== undefined)
      this.#slots = new InFlightLimit({ near: callsWhenNear, max: maxConnections });
    this.#calls = options.beforeWrite === undefined ? calls : calls.compose(guardWrites(options.beforeWrite));
    this.#watches = new Agent({
      ...common(this.#streamFraming),
      allowH2: true,
      // That of the connection limits nothing: Node gives it back for data as soon as it has come.
      h2Options: { settings: { initialWindowSize: windowBytes }, connectionWindowSize: 16 * mebibyte },
    });
  }

  /** Sends a call and reads the whole answer, whatever its status. Throws ConnectionError or the signal's reason. */
  async request(call: Call): Promise<Answer> {
    const timeoutMs = call.timeoutMs ?? this.#timeoutMs;
    const maxBytes = call.maxBytes ?? this.readLimits.objectBytes;
    const isList = call.verb === 'list';
    const meter = isList ? this.meter : this.#answerMeter;
    const turn = isList ? undefined : meter?.turn(call.signal);
    if (turn !== undefined) await turn;
    const startedAt = performance.now();
    let status = 0;
    let restedMs = 0;
    const onRest = (ms: number): void => {
      restedMs += ms;
      call.onRest?.(ms);
    };
    let giveBack: (latencyMs?: number) => void = () => undefined;
    try {
      if (this.#slots?.tryTake() === false) await this.#awaitSlot(this.#slots, call.signal, timeoutMs);
      const sentAt = performance.now();
      // Once it is answered: what is read of the answer, and when, is up to us.
      giveBack = (latencyMs) => {
        giveBack = () => undefined;
        this.#slots?.giveBack(latencyMs);
      };
      const answer = await roundTrip(
        this.#calls,
        {
          origin: this.#origin,
          path: this.#basePath + call.path,
          method: call.method,
          headers: await this.#headersInTime(call, timeoutMs),
          body: call.body ?? null,
          // undici would give up the connection after each DELETE with a body; API servers read it.
          reset: false,
          headersTimeout: timeoutMs,
          bodyTimeout: timeoutMs,
          deadlineMs: timeoutMs + backstopMs - (sentAt - startedAt),
          maxBytes,
          pace: meter && paceOf(meter, this.#largeAnswers, { ...call, onRest }),
          memory: this.readMemory,
          onStart: () => {
            this.#framing?.started();
            giveBack(performance.now() - sentAt);
          },
          onReceived: this.#framing && ((bytes) => this.#framing?.received(bytes)),
        },
        call.signal,
      );
      status = answer.status;
      return answer;
    } catch (error) {
      throw this.failure(error, call.signal);
    } finally {
      giveBack();
      this.#record(call, status, startedAt + restedMs);
    }
  }

  async #awaitSlot(slots: InFlightLimit, signal: AbortSignal | undefined, timeoutMs: number): Promise<void> {
    const deadline = new CallDeadline(signal, timeoutMs);
    try {
      await slots.take(deadline.signal);
    } catch (error) {
      throw deadline.expired ? new RoundTripTimeout() : error;
    } finally {
      deadline.release();
    }
  }

  /** The same for a GET, over the connections of the watches, where no other call delays it, nor a turn that it had to wait for. */
  async requestAside(call: Call & { method: 'GET' }): Promise<Answer> {
    const timeoutMs = call.timeoutMs ?? this.#timeoutMs;
    let received = 0;
    const { status, retryAfter, body } = await this.stream(call, timeoutMs, (bytes) => {
      received += bytes;
    });
    const { maxBytes = this.readLimits.objectBytes } = call;
    const limits = { maxBytes: status > 299 ? Math.min(errorBytes, maxBytes) : maxBytes, timeoutMs };
    try {
      return { status, retryAfter, text: await readText(body, limits) };
    } catch (error) {
      throw this.failure(error, call.signal);
    } finally {
      if (this.#answerMeter !== undefined) countAnswer(this.#answerMeter, received);
    }
  }

  /**
   * Sends a call whose answer is a stream. `timeoutMs` limits the wait for its start, `bodyTimeoutMs`
   * the silence between two chunks. The caller owns the body: read it to the end or destroy it.
   * A silent body fails with UND_ERR_BODY_TIMEOUT; undici then probes the connection and replaces a dead one.
   * `onReceived` is told of each chunk, as of `workBytes`; default: the meter counts it.
   */
  async stream(
    call: Call,
    bodyTimeoutMs: number,
    onReceived = (bytes: number): void => {
      if (this.meter !== undefined) countReceived(this.meter, bytes);
    },
  ): Promise<Stream> {
    const timeoutMs = call.timeoutMs ?? this.#timeoutMs;
    const deadline = new CallDeadline(call.signal, timeoutMs);
    const startedAt = performance.now();
    let status = 0;
    // The caller's signal outlives the deadline: it also ends the body.
    const signal =
      call.signal === undefined ? deadline.signal : AbortSignal.any([call.signal, deadline.signal]);
    try {
      const limits = { signal, headersTimeout: timeoutMs, bodyTimeout: bodyTimeoutMs };
      const response = await deadline.race(this.#send(call, limits, onReceived));
      status = response.statusCode;
      return { status, retryAfter: firstOf(response.headers['retry-after']), body: response.body };
    } catch (error) {
      throw this.failure(error, call.signal, deadline);
    } finally {
      deadline.release();
      this.#record(call, status, startedAt);
    }
  }

  /** Turns an error of undici into a ConnectionError, or into the signal's reason after an abort. */
  failure(error: unknown, signal: AbortSignal | undefined, deadline?: { expired: boolean }): unknown {
    if (signal?.aborted) return signal.reason;
    if (error instanceof WriteRefused) {
      return new ConnectionError(this.server, error.code, error.cause, error.message);
    }
    if (deadline?.expired || error instanceof RoundTripTimeout)
      return new ConnectionError(this.server, 'ETIMEDOUT', error);
    return new ConnectionError(this.server, errorCode(error), error);
  }

  /** Ends every request and watch at once and frees the sockets. */
  async close(): Promise<void> {
    await Promise.all([this.#calls.destroy(), this.#watches.destroy()]);
  }

  /** A promise only where credentials have to be fetched: there are thousands of calls. */
  #headersOf(call: Call): CallHeaders | Promise<CallHeaders> {
    let headers = this.#headers;
    if (call.contentType !== undefined) headers = { ...headers, 'content-type': call.contentType };
    if (call.accept !== undefined) headers = { ...headers, accept: call.accept };
    if (this.#authorization === undefined) return headers;
    return this.#authorization().then((authorization) =>
      authorization === undefined ? headers : { ...headers, authorization },
    );
  }

  /** The headers, within the timeout of the call and the life of its signal. */
  async #headersInTime(call: Call, timeoutMs: number): Promise<CallHeaders> {
    const headers = this.#headersOf(call);
    if (!(headers instanceof Promise)) return headers;
    const deadline = new CallDeadline(call.signal, timeoutMs);
    try {
      return await deadline.race(headers);
    } catch (error) {
      throw deadline.expired ? new RoundTripTimeout() : error;
    } finally {
      deadline.release();
    }
  }

  async #send(
    call: Call,
    { signal, ...timeouts }: { signal: AbortSignal; headersTimeout: number; bodyTimeout: number },
    onReceived: (bytes: number) => void,
  ): Promise<Dispatcher.ResponseData> {
    const headers = await this.#headersOf(call);
    const later = deferredSignal(signal);
    try {
      const response = await this.#watches.compose(observeStream(onReceived, this.#streamFraming)).request({
        origin: this.#origin,
        path: this.#basePath + call.path,
        method: call.method,
        headers,
        body: call.body ?? null,
        // An HTTP/2 stream that is aborted in the very turn in which it was made loses its error listener in
        // undici 8.12: the end of the session would be an uncaught exception.
        signal: later.signal,
        ...timeouts,
      });
      response.body.once('close', later.release);
      return response;
    } catch (error) {
      later.release();
      throw error;
    }
  }

  #record(call: Call, status: number, startedAt: number): void {
    this.#onCall?.({
      method: call.method,
      verb: call.verb,
      resource: call.resource,
      status,
      durationMs: performance.now() - startedAt,
    });
  }
}

type CallHeaders = Record<string, string | string[]>;

function impersonation({ user, groups, extra }: NonNullable<ConnectionOptions['impersonate']>): CallHeaders {
  return {
    'impersonate-user': headerValue(user),
    ...(groups.length === 0 ? {} : { 'impersonate-group': groups.map(headerValue) }),
    ...Object.fromEntries(
      Object.entries(extra).map(([key, values]) => [
        `impersonate-extra-${encodeURIComponent(key)}`,
        values.map(headerValue),
      ]),
    ),
  };
}

/** API servers take these as they come: what HTTP cannot carry is refused here. */
function headerValue(text: string): string {
  if (!/^[\x21-\x7e]([\x20-\x7e]*[\x21-\x7e])?$/.test(text))
    throw new TypeError(
      `${JSON.stringify(text)} cannot be impersonated: it does not fit into an HTTP header`,
    );
  return text;
}

/** As Node's TLS takes them. */
export function tlsOptions({ ca, cert, key, tlsServerName, insecureSkipTlsVerify }: ConnectionOptions) {
  const verify = insecureSkipTlsVerify === true ? { rejectUnauthorized: false } : {};
  return { ca, cert, key, servername: tlsServerName, ...verify };
}

/** The header of that name. Throws what `authorization` throws. */
export async function authorizationOf(options: ConnectionOptions): Promise<string | undefined> {
  const { token, authorization } = options;
  return (await authorization?.()) ?? (token === undefined ? undefined : `Bearer ${token}`);
}

/** Made once: to read certificates and key anew for each connection costs more than its handshake. */
function withSecureContext({ ca, cert, key, ...options }: ReturnType<typeof tlsOptions>) {
  try {
    return { ...options, secureContext: tls.createSecureContext({ ca, cert, key }) };
  } catch {
    // Not readable: each connection attempt fails with the reason.
    return { ...options, ca, cert, key };
  }
}

function serverUrl(server: string): URL {
  const url = URL.canParse(server) ? new URL(server) : undefined;
  if (url === undefined || !/^https?:$/.test(url.protocol)) {
    throw new TypeError(`"${server}" is not the address of an API server: give https://host:port`);
  }
  return url;
}

function errorCode(error: unknown): string {
  for (let e = error; e instanceof Error; e = e.cause) {
    const code: unknown = 'code' in e ? e.code : undefined;
    if (typeof code === 'string' && code !== '') return code;
  }
  return 'ECONNFAILED';
}
