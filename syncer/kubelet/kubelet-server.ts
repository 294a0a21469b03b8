import { type IncomingMessage, type ServerResponse, STATUS_CODES } from 'node:http';
import { createServer, type Server } from 'node:https';
import type { AddressInfo, Socket } from 'node:net';
import { setTimeout } from 'node:timers/promises';
import type { TLSSocket } from 'node:tls';
import { UnauthenticatedConnections } from '../../program/unauthenticated-connections.ts';
import type { CurrentTenant } from '../watchdog/watchdog.ts';
import type { KubeletTenant } from './find-pod.ts';
import type { Client, KubeletTenants } from './kubelet-tenants.ts';
import type { NodeRequest } from './node-api.ts';
import type { PodStreams } from './pod-streams.ts';
import { nodeWide, Refusal, unknownPath, wrongMethod, wrongUpgrade } from './refusal.ts';
import {
  askedNode,
  isMetricsApi,
  type KubeletRequest,
  type PodRequest,
  parseKubeletRequest,
} from './request-path.ts';
import type { ServingCertificate } from './serving-certificate.ts';

/** Something that answers on behalf of a tenant; throws Refusal before the first byte. */
type RequestHandler<Asked> = (client: Client, asked: Asked, response: ServerResponse) => Promise<void>;

export interface KubeletServerOptions {
  certificate: ServingCertificate;
  tenants: KubeletTenants;
  streams: Pick<PodStreams, 'logs' | 'upgrade'>;
  /** Runs a command without a terminal and answers with what it prints. */
  run: RequestHandler<PodRequest>;
  /** Answers with the tenant's own pods on a node. */
  nodeApi: RequestHandler<NodeRequest>;
  metricsApi: RequestHandler<
    Extract<KubeletRequest, { about: 'metrics-api' }> & { method: string; accept: string }
  >;
  atWork?: CurrentTenant | undefined;
  /** A fault of ours, not of the client. */
  onFault?: (error: unknown) => void;
}

/** Most connections whose client is not authenticated. */
const maxUnauthenticated = 256;
const limits = {
  handshakeTimeout: 10_000,
  headersTimeout: 10_000,
  requestTimeout: 30_000,
  connectionsCheckingInterval: 2_000,
  // Longer than an API server keeps an idle connection, so that it is never closed as it is used.
  keepAliveTimeout: 120_000,
  // What an API server takes itself: the words of a command are part of the path.
  maxHeaderSize: 1 << 20,
};

/**
 * What tenant API servers find at the address of their nodes. Each is known by the certificate that it
 * presents, sees its own pods only, and has a limited number of connections.
 */
export class KubeletServer {
  readonly #server: Server;
  readonly #options: KubeletServerOptions;
  readonly #unauthenticated = new UnauthenticatedConnections(maxUnauthenticated);
  readonly #open = new Set<Socket>();
  /** The last answer on each connection. */
  readonly #answers = new WeakMap<Socket, ServerResponse>();

  constructor(options: KubeletServerOptions) {
    this.#options = options;
    this.#server = createServer({
      ...limits,
      ...options.certificate,
      // Whose certificate it is we find out by ourselves: against one tenant's authority, not a pool of all.
      requestCert: true,
      rejectUnauthorized: false,
      // A client that has sent everything may still be answered.
      allowHalfOpen: true,
    });
    // Before any handshake: one that never comes would otherwise keep the server from closing.
    this.#server.on('connection', (socket: Socket) => {
      this.#unauthenticated.arrive(socket);
      this.#open.add(socket);
      socket.once('close', () => this.#open.delete(socket));
    });
    this.#server.on('secureConnection', (socket) => {
      socket.on('error', () => undefined);
      if (options.tenants.greet(socket)) this.#unauthenticated.known(socket);
    });
    this.#server.on('tlsClientError', () => undefined);
    this.#server.on('request', (request, response) => void this.#onRequest(request, response));
    this.#server.on('upgrade', (request, socket, head) =>
      this.#onUpgrade(request, socket as TLSSocket, head),
    );
  }

  /** Open connections, those of clients that are not authenticated included. */
  get connections(): number {
    return this.#open.size;
  }

  /** Returns the port, which is chosen by the system for port 0. */
  async listen(host: string, port: number): Promise<number> {
    await new Promise<void>((resolve, reject) => {
      this.#server.once('error', reject);
      this.#server.listen(port, host, () => {
        this.#server.off('error', reject);
        resolve();
      });
    });
    return (this.#server.address() as AddressInfo).port;
  }

  /** From the next handshake on; what is open stays. */
  renew(certificate: ServingCertificate): void {
    this.#server.setSecureContext({ ...certificate });
  }

  async close(): Promise<void> {
    for (const socket of this.#open) socket.destroy();
    await new Promise<void>((resolve) => this.#server.close(() => resolve()));
  }

  async #onRequest(request: IncomingMessage, response: ServerResponse): Promise<void> {
    const socket = request.socket as TLSSocket;
    dropBody(request);
    const { sockets } = this.#options.tenants;
    // Connections are what is limited, and an answer that waits for another is not told when its connection ends.
    if (this.#answers.get(socket)?.writableEnded === false) {
      socket.destroy();
      return;
    }
    this.#answers.set(socket, response);
    try {
      const { url = '/' } = request;
      const client = this.#clientOf(socket, url);
      const bytes = headBytes(request);
      sockets.begin(socket, bytes);
      response.once('close', () => sockets.end(socket, bytes));
      const asked = parseKubeletRequest(url);
      await this.#answer(client, asked, request, response);
    } catch (error) {
      // The client is gone.
      if (socket.destroyed) return;
      const { status, message } = this.#refusal(error);
      if (response.headersSent) {
        response.destroy();
        return;
      }
      // An unauthenticated client may send nothing more.
      if (status === 401 || status === 429) response.setHeader('connection', 'close');
      response.writeHead(status, { 'content-type': 'text/plain; charset=utf-8' });
      response.end(message);
    }
  }

  async #answer(
    client: Client,
    asked: KubeletRequest,
    request: IncomingMessage,
    response: ServerResponse,
  ): Promise<void> {
    const { streams, run, nodeApi, metricsApi } = this.#options;
    const { method = 'GET' } = request;
    if (asked.about === 'pod' || asked.about === 'node-pods') await complete(client.tenant, request.socket);
    switch (asked.about) {
      case 'health':
        response.writeHead(200, { 'content-type': 'text/plain; charset=utf-8' });
        response.end('ok');
        return;
      case 'metrics-api':
        return metricsApi(client, { ...asked, method, accept: request.headers.accept ?? '' }, response);
      case 'node-pods': {
        const { what } = asked;
        if (method !== 'GET') throw wrongMethod(method, what);
        const forwarded = request.headers['x-forwarded-uri'];
        return nodeApi(client, { what, node: askedNode(forwarded?.toString()) }, response);
      }
      case 'node':
        throw nodeWide(asked.path);
      case 'unknown':
        throw unknownPath(asked.path);
      case 'pod': {
        const { verb } = asked.pod;
        if (verb === 'logs') {
          if (method !== 'GET') throw wrongMethod(method, 'logs');
          return streams.logs(response, client, asked.pod);
        }
        if (verb !== 'run') throw new Refusal(400, 'Upgrade request required');
        if (method !== 'POST') throw wrongMethod(method, 'run');
        return run(client, asked.pod, response);
      }
      default:
        asked satisfies never;
    }
  }

  #onUpgrade(request: IncomingMessage, socket: TLSSocket, head: Buffer): void {
    const { tenants, streams } = this.#options;
    const before = this.#answers.get(socket);
    if (before?.writableEnded === false) {
      // As for a second request. HTTP has let go of the connection, and would not tell the answer that it ends.
      before.destroy();
      socket.destroy();
      before.emit('close');
      return;
    }
    const work = async (): Promise<void> => {
      const { url = '/' } = request;
      const client = this.#clientOf(socket, url);
      tenants.sockets.begin(socket, headBytes(request));
      const asked = parseKubeletRequest(url);
      if (asked.about === 'node') throw nodeWide(asked.path);
      if (asked.about !== 'pod') throw unknownPath(asked.about === 'unknown' ? asked.path : '/');
      const { verb } = asked.pod;
      if (verb === 'logs' || verb === 'run') throw wrongMethod('an upgrade', verb);
      if (!isStreamUpgrade(request)) throw wrongUpgrade();
      await complete(client.tenant, socket);
      await streams.upgrade(request, socket, head, client, asked.pod);
    };
    work().catch((error: unknown) => {
      if (!socket.destroyed) refuse(socket, this.#refusal(error));
    });
  }

  /** Before anything of the request is parsed: work for it is charged to its tenant. */
  #clientOf(socket: TLSSocket, url: string): Client {
    const purpose = isMetricsApi(url) ? 'frontProxy' : 'kubeletClient';
    const client = this.#options.tenants.authenticate(socket, purpose);
    this.#options.atWork?.enter(client.uid);
    this.#unauthenticated.known(socket);
    return client;
  }

  #refusal(error: unknown): Refusal {
    if (error instanceof Refusal) return error;
    this.#options.onFault?.(error);
    return new Refusal(500, 'this node could not carry out the request; try again');
  }
}

/** What kubelets speak, in lower case. */
const streamProtocols: ReadonlySet<string> = new Set(['websocket', 'spdy/3.1']);

/** Whether one protocol is asked for, and it is one of streams: a server on the way might act on any other. */
function isStreamUpgrade({ headersDistinct }: IncomingMessage): boolean {
  const [protocol = '', ...others] = headersDistinct['upgrade'] ?? [];
  return others.length === 0 && streamProtocols.has(protocol.trim().toLowerCase());
}

/** What stays in memory of a request, as long as it is not answered. */
function headBytes({ url = '', rawHeaders }: IncomingMessage): number {
  return rawHeaders.reduce((sum, { length }) => sum + length, url.length);
}

/** Nothing here reads one: what goes on and on is cut off. */
const longestBody = 64 * 1024;

function dropBody(request: IncomingMessage): void {
  let bytes = 0;
  request.on('data', ({ length }: Buffer) => {
    bytes += length;
    if (bytes > longestBody) request.socket.destroy();
  });
}

/** As an HTTP answer on a connection that HTTP has let go of. */
function refuse(socket: Socket, { status, message }: Refusal): void {
  socket.end(
    `HTTP/1.1 ${status} ${STATUS_CODES[status] ?? ''}\r\nContent-Type: text/plain; charset=utf-8\r\n` +
      `Content-Length: ${Buffer.byteLength(message)}\r\nConnection: close\r\n\r\n${message}`,
    () => socket.destroy(),
  );
}

const longestJoiningMs = 10_000;

/**
 * A tenant that has just woken up is asked for logs and streams before all of its pods are known: that takes a moment.
 * Throws when the client goes meanwhile.
 */
async function complete(tenant: KubeletTenant, socket: Socket): Promise<void> {
  if (tenant.isComplete || tenant.complete === undefined) return;
  const ending = new AbortController();
  const end = (): void => ending.abort();
  socket.once('close', end);
  if (socket.destroyed) end();
  const limit = setTimeout(longestJoiningMs, undefined, { signal: ending.signal, ref: false });
  await Promise.race([tenant.complete, limit.catch(() => undefined)]);
  socket.off('close', end);
  end();
  if (socket.destroyed) throw new Error('the client is gone');
}
