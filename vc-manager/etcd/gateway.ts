import { Agent, request } from 'undici';
import { answeredError, answerTooLarge, connectionError, EtcdError } from './errors.ts';

export interface GatewayOptions {
  /** Client URL of etcd, https. */
  readonly endpoint: string;
  /** PEM. */
  readonly ca: string;
  /** Without a common name: the gateway refuses others once authentication is on. */
  readonly cert: string;
  readonly key: string;
  /** Longest wait for a connection, and then for an answer; default 10 s. */
  readonly timeoutMs?: number;
}

interface GatewayCall {
  readonly token?: string;
  readonly signal?: AbortSignal | undefined;
}

/** Of one answer; what is longer is not read to its end. A value has 1.5 MiB at most, and JSON makes 2 MiB of it. */
const longestAnswerBytes = 8 * 1024 * 1024;

/** etcd's gRPC services as JSON over HTTPS. Every answer but a success is thrown as EtcdError; it never tries twice. */
export class EtcdGateway {
  readonly endpoint: string;
  readonly #agent: Agent;

  constructor(options: GatewayOptions) {
    let url: URL;
    try {
      url = new URL(options.endpoint);
    } catch (cause) {
      throw invalidEndpoint(options.endpoint, cause);
    }
    if (url.protocol !== 'https:') throw invalidEndpoint(options.endpoint);
    const timeoutMs = options.timeoutMs ?? 10_000;
    this.endpoint = url.origin;
    this.#agent = new Agent({
      connect: { ca: options.ca, cert: options.cert, key: options.key, timeout: timeoutMs },
      headersTimeout: timeoutMs,
      bodyTimeout: timeoutMs,
      connections: 8,
      allowH2: false,
    });
  }

  /** One unary call, for example `post('/v3/auth/user/add', { name })`. */
  async post(path: string, body: object, call: GatewayCall = {}): Promise<unknown> {
    const { status, text } = await this.#send('POST', path, call, JSON.stringify(body));
    if (status !== 200) throw answeredError(this.endpoint, path, status, messageOf(text));
    return parse(text);
  }

  /** A plain HTTP page of etcd, whatever its status. */
  async get(path: string, call: GatewayCall = {}): Promise<{ status: number; body: unknown }> {
    const { status, text } = await this.#send('GET', path, call);
    return { status, body: parse(text) };
  }

  async close(): Promise<void> {
    await this.#agent.destroy();
  }

  async #send(
    method: 'GET' | 'POST',
    path: string,
    call: GatewayCall,
    body?: string,
  ): Promise<{ status: number; text: string }> {
    try {
      const response = await request(`${this.endpoint}${path}`, {
        dispatcher: this.#agent,
        method,
        headers: {
          // Not for the answer's sake. By this header etcd knows a request that came through its gateway; without it
          // the request would be made in the name of the gateway's own certificate.
          accept: 'application/json',
          ...(body !== undefined && { 'content-type': 'application/json' }),
          ...(call.token !== undefined && { authorization: call.token }),
        },
        ...(body !== undefined && { body }),
        ...(call.signal !== undefined && { signal: call.signal }),
      });
      return { status: response.statusCode, text: await this.#textOf(path, response.body) };
    } catch (error) {
      call.signal?.throwIfAborted();
      if (error instanceof EtcdError) throw error;
      throw connectionError(this.endpoint, path, error);
    }
  }

  /** Throws EtcdError `AnswerTooLarge`. */
  async #textOf(path: string, body: AsyncIterable<Buffer>): Promise<string> {
    const chunks: Buffer[] = [];
    let bytes = 0;
    for await (const chunk of body) {
      bytes += chunk.length;
      if (bytes > longestAnswerBytes) throw answerTooLarge(this.endpoint, path, longestAnswerBytes);
      chunks.push(chunk);
    }
    return Buffer.concat(chunks, bytes).toString();
  }
}

function invalidEndpoint(endpoint: string, cause?: unknown): EtcdError {
  return new EtcdError(
    'InvalidOptions',
    `"${endpoint}" is not the URL of a datastore: it has to look like https://127.0.0.1:2379.`,
    { endpoint },
    { cause },
  );
}

function parse(text: string): unknown {
  try {
    return JSON.parse(text);
  } catch {
    return undefined;
  }
}

function messageOf(text: string): string {
  const body = parse(text);
  if (typeof body === 'object' && body !== null && 'message' in body) return String(body.message);
  return text.slice(0, 500);
}

const rootUser = 'root';

/** How often a call is repeated that lost against a change of users or roles; each loss means that another change won. */
const attempts = 8;

/**
 * Calls as the user `root`. The gateway does not look at the client certificate's name, so a token stands for the user;
 * etcd forgets tokens when it restarts or when they are not used for five minutes, and a new one is fetched then.
 */
export class EtcdSession {
  readonly #gateway: EtcdGateway;
  readonly #password: string;
  /** The token or the one request for it that is under way; undefined when the next call has to ask. */
  #token: Promise<string> | undefined;

  constructor(gateway: EtcdGateway, password: string) {
    this.#gateway = gateway;
    this.#password = password;
  }

  /** Throws EtcdError; `AuthDisabled` when etcd does not check rights. */
  async call(path: string, body: object, signal?: AbortSignal): Promise<unknown> {
    for (let attempt = 1; ; attempt++) {
      signal?.throwIfAborted();
      const request = this.#currentToken();
      const token = await request;
      try {
        return await this.#gateway.post(path, body, { token, signal });
      } catch (error) {
        if (!(error instanceof EtcdError) || attempt >= attempts) throw error;
        if (error.code === 'TokenRefused' || error.code === 'Timeout') this.#forget(request);
        if (error.code !== 'TokenRefused' && error.code !== 'AuthStoreMoved') throw error;
      }
    }
  }

  /**
   * Has the next call ask for a token. A token names the state of the data at which it was given, and etcd waits for that
   * state before it answers: a datastore that lost its data would wait for ever, which is also why a timeout ends a token.
   */
  forgetToken(): void {
    this.#token = undefined;
  }

  #currentToken(): Promise<string> {
    if (this.#token === undefined) {
      const request = this.#authenticate();
      this.#token = request;
      request.catch(() => this.#forget(request));
    }
    return this.#token;
  }

  /** Only the token that was refused: another call may have fetched a new one meanwhile. */
  #forget(request: Promise<string>): void {
    if (this.#token === request) this.#token = undefined;
  }

  async #authenticate(): Promise<string> {
    for (let attempt = 1; ; attempt++) {
      try {
        const body = { name: rootUser, password: this.#password };
        const answer = (await this.#gateway.post('/v3/auth/authenticate', body)) as { token?: string };
        return answer.token ?? '';
      } catch (error) {
        if (!(error instanceof EtcdError && error.code === 'AuthStoreMoved') || attempt >= attempts)
          throw error;
      }
    }
  }
}
