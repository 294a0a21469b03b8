import { createServer, type IncomingMessage } from 'node:http';
import { Counter, collectDefaultMetrics, Registry } from 'prom-client';
import type { ConnectionOptions } from '../../../kube/index.ts';
import { CliError } from '../errors.ts';

type CallListener = NonNullable<ConnectionOptions['onCall']>;

export interface HealthAddress {
  host: string;
  port: number;
}

/** Without an answer of the super cluster for so long, the manager is of no use. */
const silentMs = 60_000;
/** Longer than scrapers pause: one whose connection is closed as it asks misses a sample. Milliseconds. */
const keepAliveTimeout = 90_000;
const plainText = 'text/plain; charset=utf-8';

/**
 * Serves `/healthz` (the process answers), `/readyz` (the super cluster has answered it lately) and `/metrics`, over
 * HTTP and to everybody who gets there.
 */
export class ManagerHealth {
  readonly #registry = new Registry();
  readonly #calls: Counter;
  readonly #now: () => number;
  #answeredAt: number | undefined;

  /** `now`: milliseconds of a monotonic clock. */
  constructor(now: () => number) {
    this.#now = now;
    this.#calls = new Counter({
      name: 'skerry_manager_api_calls_total',
      help: 'Calls of the super cluster, by HTTP status; "none" where there was no answer.',
      labelNames: ['verb', 'resource', 'code'],
      registers: [this.#registry],
    });
    collectDefaultMetrics({ register: this.#registry });
  }

  /** To be told of every call of the super cluster. */
  readonly onCall: CallListener = ({ verb, resource, status }) => {
    this.#calls.inc({ verb, resource, code: status === 0 ? 'none' : String(status) });
    if (status > 0 && status < 500) this.#answeredAt = this.#now();
  };

  /** Why nobody should count on it, as far as that is known. */
  get problem(): string | undefined {
    if (this.#answeredAt === undefined) return 'the super cluster has not answered yet';
    const silent = this.#now() - this.#answeredAt;
    if (silent <= silentMs) return undefined;
    return `the super cluster has not answered for ${Math.round(silent / 1000)} s`;
  }

  /** Until it is closed. Returns the port. Throws `StartFailed` when the address cannot be had. */
  async listen({ host, port }: HealthAddress): Promise<{ port: number; close: () => Promise<void> }> {
    const server = createServer({ keepAliveTimeout }, (request, response) => {
      this.#answer(request).then(
        ([status, type, body]) => {
          response.writeHead(status, { 'content-type': type, 'cache-control': 'no-store' });
          response.end(request.method === 'HEAD' ? undefined : body);
        },
        () => response.writeHead(500).end(),
      );
    });
    await new Promise<void>((resolve, reject) => {
      server.once('error', (cause) =>
        reject(
          new CliError(
            'StartFailed',
            `cannot listen on ${host}:${port}: ${cause.message}; choose another --health-address`,
          ),
        ),
      );
      server.listen(port, host, resolve);
    });
    const address = server.address();
    return {
      port: typeof address === 'object' && address !== null ? address.port : port,
      close: async () => {
        const closed = new Promise<void>((resolve) => server.close(() => resolve()));
        server.closeAllConnections();
        await closed;
      },
    };
  }

  /** Status, type and body. */
  async #answer({ method, url }: IncomingMessage): Promise<[number, string, string]> {
    if (method !== 'GET' && method !== 'HEAD')
      return [405, plainText, 'only GET and HEAD are answered here\n'];
    const path = url?.split('?', 1)[0];
    if (path === '/healthz') return [200, plainText, 'ok\n'];
    if (path === '/readyz')
      return this.problem === undefined ? [200, plainText, 'ok\n'] : [503, plainText, `${this.problem}\n`];
    if (path === '/metrics') return [200, this.#registry.contentType, await this.#registry.metrics()];
    return [404, plainText, 'there are /healthz, /readyz and /metrics\n'];
  }
}
