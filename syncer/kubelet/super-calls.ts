import type { IncomingMessage } from 'node:http';
import { Agent, type AgentOptions, request } from 'node:https';
import type { Socket } from 'node:net';
import { authorizationOf, type ConnectionOptions, tlsOptions } from '../../kube/index.ts';
import { unreachable } from './refusal.ts';

interface SuperCall {
  method: string;
  /** With the query. */
  path: string;
  /** Nothing that a tenant sent, unless it is known to be harmless: a header can make us impersonate another user. */
  headers: Readonly<Record<string, string | readonly string[]>>;
  /** Ends the call; an answer that has begun is cut off. */
  signal: AbortSignal;
  /** How long the answer may take to begin. Without: as long as it takes (logs that are followed are silent). */
  answerTimeoutMs?: number;
}

export type SuperResponse =
  | { readonly upgraded: false; readonly response: IncomingMessage }
  | {
      readonly upgraded: true;
      readonly response: IncomingMessage;
      readonly socket: Socket;
      readonly head: Buffer;
    };

const connectTimeoutMs = 10_000;

/**
 * Calls to the super cluster's API server whose connection itself is wanted: streams and upgrades. Each has
 * a connection of its own, over HTTP/1.1, as neither SPDY nor WebSocket can be had over HTTP/2.
 */
export class SuperCalls {
  readonly #options: ConnectionOptions;
  readonly #url: URL;
  readonly #agent: Agent;

  constructor(options: ConnectionOptions) {
    this.#options = options;
    this.#url = new URL(options.server);
    // Passed on to the socket, which Node's types do not say: a client that has sent everything may still be answered.
    const halfOpen = { allowHalfOpen: true } as AgentOptions;
    this.#agent = new Agent({
      ...halfOpen,
      keepAlive: false,
      ALPNProtocols: ['http/1.1'],
      ...tlsOptions(options),
    });
  }

  /** Throws Refusal when there is no answer, and the signal's reason. */
  async open(call: SuperCall): Promise<SuperResponse> {
    const { hostname, port, pathname } = this.#url;
    const authorization = await authorizationOf(this.#options).catch((error: unknown) => {
      throw unreachable(error);
    });
    call.signal.throwIfAborted();
    const { promise, resolve, reject } = Promise.withResolvers<SuperResponse>();
    const sent = request({
      agent: this.#agent,
      host: hostname.replace(/^\[|\]$/g, ''),
      port: port === '' ? 443 : Number(port),
      method: call.method,
      path: pathname.replace(/\/+$/, '') + call.path,
      signal: call.signal,
      headers: {
        ...(call.headers as Record<string, string | string[]>),
        'user-agent': this.#options.userAgent ?? 'skerry',
        ...(authorization === undefined ? {} : { authorization }),
      },
    });
    const timers = new Set<NodeJS.Timeout>();
    const limit = (ms: number, what: string): NodeJS.Timeout => {
      const expired = Object.assign(new Error(`timed out waiting for ${what}`), { code: 'ETIMEDOUT' });
      const timer = setTimeout(() => sent.destroy(expired), ms);
      timers.add(timer);
      return timer;
    };
    const connecting = limit(connectTimeoutMs, 'a connection');
    if (call.answerTimeoutMs !== undefined) limit(call.answerTimeoutMs, 'an answer');
    sent.once('socket', (socket) => socket.once('secureConnect', () => clearTimeout(connecting)));
    sent.once('response', (response) => resolve({ upgraded: false, response }));
    sent.once('upgrade', (response, socket, head) =>
      resolve({ upgraded: true, response, socket: socket as Socket, head }),
    );
    // Also after the answer has begun, when the body's own error tells what happened.
    sent.on('error', (error) => reject(call.signal.aborted ? call.signal.reason : unreachable(error)));
    sent.end();
    try {
      return await promise;
    } finally {
      for (const timer of timers) clearTimeout(timer);
    }
  }

  close(): void {
    this.#agent.destroy();
  }
}
