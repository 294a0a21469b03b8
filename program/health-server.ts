import { once } from 'node:events';
import { createServer, type IncomingMessage, type Server, type ServerResponse } from 'node:http';
import type { AddressInfo } from 'node:net';
import { setTimeout } from 'node:timers/promises';
import { messageOf } from '../kube/index.ts';
import { ListenError } from './addresses.ts';
import { UnauthenticatedConnections } from './unauthenticated-connections.ts';

/** `true`: well. `false`, or the reason as text: not well. A check that throws or does not answer in time has failed. */
type Check = () => boolean | string | Promise<boolean | string>;

interface PageAnswer {
  status: number;
  body: object;
}

type Page = (query: URLSearchParams) => PageAnswer | Promise<PageAnswer>;

export interface HealthServerOptions {
  metrics?: { readonly contentType: string; render(): Promise<string> };
  /** What has to be well for the process not to be restarted, by name. None: it is enough that it answers. */
  live?: Record<string, Check>;
  /** What has to be well for the process to be counted on, by name. */
  ready?: Record<string, Check>;
  /** What else is answered, as JSON, by path. */
  pages?: Record<string, Page>;
  /** Default 2,000. */
  checkTimeoutMs?: number;
}

interface Answer {
  status: number;
  type: string;
  body: string;
}

/** Longer than scrapers pause: one whose connection is closed as it asks misses a sample. Milliseconds. */
const keepAliveTimeout = 90_000;
/** More than scrapers and probes have; who opens more ends those that came first. */
const maxConnections = 128;
const plainText = 'text/plain; charset=utf-8';

/** Serves `/metrics`, `/healthz`, `/readyz` and pages of its user over HTTP. Every client that reaches it may read them: keep it off public addresses. */
export class HealthServer {
  readonly #options: HealthServerOptions;
  readonly #server: Server;

  constructor(options: HealthServerOptions) {
    this.#options = options;
    this.#server = createServer(
      { keepAliveTimeout },
      (request, response) => void this.#serve(request, response),
    );
    const connections = new UnauthenticatedConnections(maxConnections);
    this.#server.on('connection', (socket) => connections.arrive(socket));
  }

  /**
   * @param port 0 for a free one
   * @returns the port
   * @throws ListenError
   */
  async listen(port: number, host = '127.0.0.1'): Promise<number> {
    this.#server.listen(port, host);
    await once(this.#server, 'listening').catch((cause: Error) => {
      throw new ListenError('serve metrics', host, port, cause);
    });
    // An accept that fails, for lack of file descriptors, is no reason to end.
    this.#server.on('error', () => undefined);
    return (this.#server.address() as AddressInfo).port;
  }

  /** Ends open connections too. Closing a server that does not listen does nothing. */
  async close(): Promise<void> {
    if (!this.#server.listening) return;
    const closed = new Promise<void>((resolve) => this.#server.close(() => resolve()));
    this.#server.closeAllConnections();
    await closed;
  }

  async #serve(request: IncomingMessage, response: ServerResponse): Promise<void> {
    const { status, type, body } = await this.#answer(request);
    response.writeHead(status, {
      'content-type': type,
      'content-length': Buffer.byteLength(body),
      'cache-control': 'no-store',
      ...(status === 405 && { allow: 'GET, HEAD' }),
    });
    response.end(request.method === 'HEAD' ? undefined : body);
  }

  async #answer(request: IncomingMessage): Promise<Answer> {
    if (request.method !== 'GET' && request.method !== 'HEAD') {
      return { status: 405, type: plainText, body: 'only GET and HEAD are answered here\n' };
    }
    const [path = '', query] = request.url?.split('?', 2) ?? [];
    switch (path) {
      case '/metrics':
        return this.#metrics();
      case '/healthz':
        return this.#checks(this.#options.live ?? {});
      case '/readyz':
        return this.#checks(this.#options.ready ?? {});
      default:
        return this.#page(path, new URLSearchParams(query));
    }
  }

  async #page(path: string, query: URLSearchParams): Promise<Answer> {
    const pages = this.#options.pages ?? {};
    const page = Object.hasOwn(pages, path) ? pages[path] : undefined;
    if (page === undefined) {
      const all = ['/metrics', '/healthz', '/readyz', ...Object.keys(pages)];
      return { status: 404, type: plainText, body: `there are ${all.join(', ')}\n` };
    }
    try {
      const { status, body } = await page(query);
      return { status, type: 'application/json', body: `${JSON.stringify(body)}\n` };
    } catch (error) {
      return { status: 500, type: plainText, body: `${path} has failed: ${messageOf(error)}\n` };
    }
  }

  async #metrics(): Promise<Answer> {
    const { metrics } = this.#options;
    if (metrics === undefined) return { status: 404, type: plainText, body: 'there are no metrics\n' };
    try {
      return { status: 200, type: metrics.contentType, body: await metrics.render() };
    } catch (error) {
      return { status: 500, type: plainText, body: `metrics cannot be collected: ${messageOf(error)}\n` };
    }
  }

  async #checks(checks: Record<string, Check>): Promise<Answer> {
    const results = await Promise.all(
      Object.entries(checks).map(async ([name, check]) => [name, await this.#run(check)] as const),
    );
    const ok = results.every(([, result]) => result === true);
    const lines = results.map(([name, result]) => `${name}: ${result === true ? 'ok' : result}\n`);
    return { status: ok ? 200 : 503, type: plainText, body: `${lines.join('')}${ok ? 'ok' : 'not ok'}\n` };
  }

  async #run(check: Check): Promise<true | string> {
    const timer = new AbortController();
    const timeoutMs = this.#options.checkTimeoutMs ?? 2_000;
    try {
      const late = setTimeout(timeoutMs, `no answer within ${timeoutMs} ms`, {
        signal: timer.signal,
        ref: false,
      });
      const result = await Promise.race([check(), late]);
      return result === false ? 'not yet' : result;
    } catch (error) {
      return messageOf(error);
    } finally {
      timer.abort();
    }
  }
}
