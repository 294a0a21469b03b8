import { createServer, type Server } from 'node:https';
import type { AddressInfo, Socket } from 'node:net';
import type { Duplex } from 'node:stream';
import { parseKubeletPath, unavailable } from './answer.ts';

export interface KubeletServerOptions {
  cert: string;
  key: string;
  /** Whether the super cluster's nodes are simulated, asked at each request. */
  nodesAreSimulated: () => boolean;
}

/** 500 is what an API server passes on together with the words that came with it. */
const status = 500;

/**
 * What tenant API servers find at the address of their nodes. Every answer is a refusal that says
 * why; nothing of any pod is looked up, so that there is nothing to protect.
 */
export class KubeletServer {
  readonly #server: Server;
  readonly #sockets = new Set<Socket>();
  readonly #nodesAreSimulated: () => boolean;

  constructor(options: KubeletServerOptions) {
    this.#nodesAreSimulated = options.nodesAreSimulated;
    this.#server = createServer({ cert: options.cert, key: options.key }, (request, response) => {
      request.resume();
      response.writeHead(status, { 'content-type': 'text/plain; charset=utf-8' });
      response.end(this.#answer(request.url));
    });
    this.#server.on('upgrade', (request, socket: Duplex) => {
      const body = this.#answer(request.url);
      socket.end(
        `HTTP/1.1 ${status} Internal Server Error\r\nContent-Type: text/plain; charset=utf-8\r\nContent-Length: ${Buffer.byteLength(body)}\r\nConnection: close\r\n\r\n${body}`,
      );
    });
    // Before any handshake: one that never comes would otherwise keep the server from closing.
    this.#server.on('connection', (socket: Socket) => {
      this.#sockets.add(socket);
      socket.on('error', () => undefined);
      socket.on('close', () => this.#sockets.delete(socket));
    });
    this.#server.on('secureConnection', (socket) => socket.on('error', () => undefined));
    this.#server.on('tlsClientError', () => undefined);
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

  async close(): Promise<void> {
    for (const socket of this.#sockets) socket.destroy();
    await new Promise<void>((resolve) => this.#server.close(() => resolve()));
  }

  #answer(url: string | undefined): string {
    return unavailable(parseKubeletPath(url ?? '/'), this.#nodesAreSimulated());
  }
}
