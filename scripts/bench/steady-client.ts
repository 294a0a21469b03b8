import { setTimeout as delay } from 'node:timers/promises';
import {
  ApiError,
  Connection,
  ConnectionError,
  type ConnectionOptions,
  KubeClient,
} from '../../kube/index.ts';

interface SteadyAnswer {
  /** Milliseconds since it began. */
  at: number;
  tookMs: number;
  /** Absent: it was answered well. */
  error?: string | undefined;
}

const requestEveryMs = 50;
const closed = new Set(['UND_ERR_SOCKET', 'ECONNRESET']);

/**
 * Asks an API server for one object twenty times a second, whatever the answers, and remembers them all. A request that
 * crosses the end of a server is sent again, as client-go does for a GET, once for each connection at most: the server closes
 * those that it finds idle, or answers 503 with Retry-After. Each such repeat counts (`repeats`).
 */
export class SteadyClient {
  readonly answers: SteadyAnswer[] = [];
  /** Why requests were sent again: the errors. */
  readonly repeats: string[] = [];
  /** Most requests under way at the same time, and so the most connections. */
  maxAtOnce = 0;
  readonly #connections: Connection[] = [];
  #client!: KubeClient;
  readonly #asked = new Set<Promise<void>>();
  readonly #timer: NodeJS.Timeout;
  readonly #began = performance.now();
  readonly #patienceMs: number;

  /** `patienceMs`: after so long a request counts as failed. */
  constructor(options: ConnectionOptions, { everyMs = requestEveryMs, patienceMs = 30_000 } = {}) {
    this.#patienceMs = patienceMs;
    this.use(options);
    this.#timer = setInterval(() => void this.ask(), everyMs);
  }

  /** From now on with these credentials. */
  use(options: ConnectionOptions): void {
    const limits = { requestTimeoutMs: this.#patienceMs, connectTimeoutMs: this.#patienceMs };
    const connection = new Connection({ ...options, ...limits });
    this.#connections.push(connection);
    this.#client = new KubeClient(connection);
  }

  /** Sends one request now; resolves when its answer has been recorded. */
  ask(): Promise<void> {
    const asking = this.#ask().finally(() => this.#asked.delete(asking));
    this.#asked.add(asking);
    this.maxAtOnce = Math.max(this.maxAtOnce, this.#asked.size);
    return asking;
  }

  async #ask(): Promise<void> {
    const since = performance.now();
    let error: string | undefined;
    try {
      await this.#get();
    } catch (last) {
      error = (last as Error).message;
    }
    this.answers.push({ at: since - this.#began, tookMs: performance.now() - since, error });
  }

  async #get(): Promise<unknown> {
    for (let repeats = 0; ; repeats++) {
      try {
        return await this.#client.raw('GET', '/api/v1/namespaces/default');
      } catch (error) {
        const waitMs = repeatAfterMs(error as Error);
        if (waitMs === undefined || repeats >= this.maxAtOnce) throw error;
        this.repeats.push((error as Error).message);
        await delay(waitMs);
      }
    }
  }

  /** Until it has been answered so often, from now on. */
  async answered(count: number): Promise<void> {
    const wanted = this.answers.length + count;
    while (this.answers.length < wanted) await Promise.race([...this.#asked, nextTurn()]);
  }

  /** Until it has been answered well so often in a row, from now on. */
  async served(count: number): Promise<void> {
    const since = this.answers.length;
    const isServed = (): boolean => {
      const answers = this.answers.slice(since);
      return answers.length >= count && answers.slice(-count).every(({ error }) => error === undefined);
    };
    while (!isServed()) await Promise.race([...this.#asked, nextTurn()]);
  }

  /** Milliseconds since it began. */
  get elapsedMs(): number {
    return performance.now() - this.#began;
  }

  get failures(): SteadyAnswer[] {
    return this.answers.filter(({ error }) => error !== undefined);
  }

  /** What became of it, in one line that begins with `what`. */
  describe(what: string): string {
    const { answers, failures, repeats } = this;
    const span = failures.length === 0 ? 0 : (failures.at(-1)?.at ?? 0) - (failures[0]?.at ?? 0);
    const slowest = Math.max(...answers.map(({ tookMs }) => tookMs));
    const kinds = [...new Set([...failures.map(({ error }) => error), ...repeats])].join('; ');
    return `${what}: ${failures.length} of ${answers.length} requests failed, within ${Math.round(span)} ms; ${repeats.length} asked again; slowest ${Math.round(slowest)} ms. ${kinds}`.trim();
  }

  /** Ends it when all is answered. */
  async close(): Promise<void> {
    clearInterval(this.#timer);
    await Promise.all(this.#asked);
    for (const connection of this.#connections) await connection.close();
  }
}

/** How long to wait before the one repeat; undefined: the error is no reason for one. */
export function repeatAfterMs(error: Error): number | undefined {
  if (error instanceof ConnectionError && closed.has(error.code)) return 0;
  return error instanceof ApiError && error.code === 503 ? error.retryAfterMs : undefined;
}

function nextTurn(): Promise<void> {
  return new Promise((resolve) => setTimeout(resolve, requestEveryMs));
}
