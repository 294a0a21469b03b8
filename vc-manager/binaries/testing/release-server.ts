import { createHash } from 'node:crypto';
import { once } from 'node:events';
import { createServer, type IncomingMessage, type Server, type ServerResponse } from 'node:http';
import type { AddressInfo } from 'node:net';

type Answer = (request: IncomingMessage, response: ServerResponse) => void | Promise<void>;

/** A mirror of the release servers on loopback, whose answers a test can replace by worse ones. */
export class ReleaseServer {
  readonly #server: Server;
  readonly #files = new Map<string, Answer>();
  /** Every request: path, and the Range header where there was one. */
  readonly requests: { path: string; range: string | undefined }[] = [];

  constructor() {
    this.#server = createServer((request, response) => {
      const path = request.url ?? '';
      this.requests.push({ path, range: request.headers.range });
      const answer = this.#files.get(path);
      if (answer === undefined) response.writeHead(404).end('no such file');
      else void answer(request, response);
    });
  }

  get address(): string {
    return `http://127.0.0.1:${(this.#server.address() as AddressInfo).port}`;
  }

  async [Symbol.asyncDispose](): Promise<void> {
    this.#server.closeAllConnections();
    this.#server.close();
    await once(this.#server, 'close');
  }

  static async start(): Promise<ReleaseServer> {
    const server = new ReleaseServer();
    server.#server.listen(0, '127.0.0.1');
    await once(server.#server, 'listening');
    return server;
  }

  on(path: string, answer: Answer): void {
    this.#files.set(path, answer);
  }

  /** A file as real servers give it: with its length, and from any byte on. */
  file(path: string, content: Buffer | string): void {
    this.on(path, serve(Buffer.from(content)));
  }

  /** A Kubernetes program and its checksum. */
  kubernetes(name: string, version: string, content: string, hash = sha256(content)): string {
    const path = `/dl.k8s.io/release/v${version}/bin/linux/amd64/${name}`;
    this.file(path, content);
    this.file(`${path}.sha256`, hash);
    return path;
  }

  count(path: string): number {
    return this.requests.filter((request) => request.path === path).length;
  }
}

/** Answers with the whole of `content` or, when asked, from a byte on. */
export function serve(content: Buffer): Answer {
  return (request, response) => {
    const from = Number(/^bytes=(\d+)-$/.exec(request.headers.range ?? '')?.[1] ?? Number.NaN);
    if (Number.isNaN(from)) {
      response.writeHead(200, { 'content-length': content.length }).end(content);
    } else if (from >= content.length) {
      response.writeHead(416, { 'content-range': `bytes */${content.length}` }).end();
    } else {
      const range = `bytes ${from}-${content.length - 1}/${content.length}`;
      response.writeHead(206, { 'content-length': content.length - from, 'content-range': range });
      response.end(content.subarray(from));
    }
  };
}

export function sha256(content: Buffer | string): string {
  return createHash('sha256').update(content).digest('hex');
}
