import { once } from 'node:events';
import type { IncomingMessage, ServerResponse } from 'node:http';
import { createServer, type Server } from 'node:https';
import type { AddressInfo, Socket } from 'node:net';
import type { ConnectionOptions } from '../../../kube/index.ts';
import { sharedTestCertificates } from '../../../kube/testing/index.ts';

interface Asked {
  readonly method: string;
  readonly url: string;
  readonly headers: IncomingMessage['headers'];
  readonly raw: readonly string[];
}

/** A super cluster's API server as far as streams go: remembers what it is asked, answers as it is told. */
export class FakeSuper {
  readonly asked: Asked[] = [];
  /** Connections that are open now. */
  readonly sockets = new Set<Socket>();
  onRequest: (request: IncomingMessage, response: ServerResponse) => void = (_request, response) =>
    response.end();
  /** By default the upgrade is accepted with a greeting, and then all is sent back as it comes. */
  onUpgrade: (request: IncomingMessage, socket: Socket, head: Buffer) => void = accept;
  readonly #server: Server;
  readonly #options: ConnectionOptions;

  private constructor(server: Server, options: ConnectionOptions) {
    this.#server = server;
    this.#options = options;
    server.on('connection', (socket: Socket) => {
      this.sockets.add(socket);
      socket.on('error', () => undefined);
      socket.once('close', () => this.sockets.delete(socket));
    });
    server.on('request', (request, response) => {
      this.#note(request);
      this.onRequest(request, response);
    });
    server.on('upgrade', (request, socket, head) => {
      this.#note(request);
      socket.on('error', () => undefined);
      this.onUpgrade(request, socket as Socket, head);
    });
  }

  static async start(): Promise<FakeSuper> {
    const { ca, server, client } = await sharedTestCertificates();
    const listening = createServer({
      ...server,
      ca,
      requestCert: true,
      rejectUnauthorized: true,
      allowHalfOpen: true,
    } as Parameters<typeof createServer>[0]);
    listening.listen(0, '127.0.0.1');
    await once(listening, 'listening');
    const { port } = listening.address() as AddressInfo;
    return new FakeSuper(listening, { server: `https://127.0.0.1:${port}`, ca, ...client });
  }

  get connectionOptions(): ConnectionOptions {
    return this.#options;
  }

  async stop(): Promise<void> {
    for (const socket of this.sockets) socket.destroy();
    await new Promise((resolve) => this.#server.close(resolve));
  }

  #note({ method = '', url = '', headers, rawHeaders }: IncomingMessage): void {
    this.asked.push({ method, url, headers, raw: rawHeaders });
  }
}

/** The greeting comes in one piece with the headers, as from a server that begins to speak at once. */
function accept(request: IncomingMessage, socket: Socket, head: Buffer): void {
  const offered = request.headers['x-stream-protocol-version'] ?? '';
  socket.write(
    `HTTP/1.1 101 Switching Protocols\r\nConnection: Upgrade\r\nUpgrade: ${request.headers.upgrade}\r\n` +
      `X-Stream-Protocol-Version: ${String(offered).split(',')[0]}\r\nX-Secret: of-the-super-cluster\r\n\r\nhello `,
  );
  socket.write(head);
  socket.pipe(socket);
}

/** An answer to every request. */
export function answering(status: number, body: string, type = 'text/plain') {
  return (_request: IncomingMessage, response: ServerResponse): void => {
    response.writeHead(status, { 'content-type': type });
    response.end(body);
  };
}
