import { setTimeout as delay } from 'node:timers/promises';
import {
  Connection,
  ConnectionError,
  type ConnectionOptions,
  connectionFromSecret,
  KubeClient,
  resources,
} from '../../kube/index.ts';
import { poll } from './poll.ts';
import type { Tenant } from './world.ts';

interface SteadyAnswer {
  /** Milliseconds since it began. */
  at: number;
  tookMs: number;
  /** The connection was closed in the moment in which the question was sent, and it was asked again on another one. */
  repeated?: boolean;
  /** Absent: it was answered well. */
  error?: string;
}

const requestEveryMs = 50;
const closed = new Set(['UND_ERR_SOCKET', 'ECONNRESET']);

/**
 * Asks an API server for one object twenty times a second, whatever the answers, and remembers them all. A server that
 * leaves closes connections that are idle, and no client of HTTP/1.1 can know that its next question has crossed that:
 * it asks once more, as Go's own client does for a GET.
 */
export class SteadyClient {
  readonly answers: SteadyAnswer[] = [];
  readonly #connection: Connection;
  readonly #asked = new Set<Promise<void>>();
  readonly #timer: NodeJS.Timeout;
  readonly #began = performance.now();

  constructor(options: ConnectionOptions) {
    this.#connection = new Connection({ ...options, requestTimeoutMs: 30_000, connectTimeoutMs: 30_000 });
    const client = new KubeClient(this.#connection);
    const began = this.#began;
    this.#timer = setInterval(() => {
      const since = performance.now();
      let repeated = false;
      const ask = (): Promise<unknown> => client.raw('GET', '/api/v1/namespaces/default');
      const asking = ask()
        .catch((error: unknown) => {
          if (!(error instanceof ConnectionError && closed.has(error.code))) throw error;
          repeated = true;
          return ask();
        })
        .then(
          () => undefined,
          (error: Error) => error.message,
        )
        .then((error) => {
          this.answers.push({
            at: since - began,
            tookMs: performance.now() - since,
            ...(repeated ? { repeated } : {}),
            ...(error === undefined ? {} : { error }),
          });
          this.#asked.delete(asking);
        });
      this.#asked.add(asking);
    }, requestEveryMs);
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
    const { answers, failures } = this;
    const span = failures.length === 0 ? 0 : (failures.at(-1)?.at ?? 0) - (failures[0]?.at ?? 0);
    const slowest = Math.max(...answers.map(({ tookMs }) => tookMs));
    const repeated = answers.filter((answer) => answer.repeated).length;
    const kinds = [...new Set(failures.map(({ error }) => error))].join('; ');
    return `${what}: ${failures.length} of ${answers.length} requests failed, within ${Math.round(span)} ms; ${repeated} asked twice; slowest ${Math.round(slowest)} ms. ${kinds}`.trim();
  }

  /** Ends it when all is answered. */
  async close(): Promise<void> {
    clearInterval(this.#timer);
    await Promise.all(this.#asked);
    await this.#connection.close();
  }
}

/** Has a client ask the API server of this kubeconfig from before the work until after it; prints what became of it. */
export async function whileAsked(
  kubeconfig: string,
  what: string,
  work: (client: SteadyClient) => Promise<void>,
): Promise<SteadyClient> {
  const client = new SteadyClient(connectionFromSecret(kubeconfig));
  try {
    await client.answered(20);
    await work(client);
  } finally {
    await client.close();
    console.log(client.describe(what));
  }
  return client;
}

function nextTurn(): Promise<void> {
  return new Promise((resolve) => setTimeout(resolve, requestEveryMs));
}

const writeEveryMs = 50;
const namespace = 'default';

interface WriterFigures {
  succeeded: number;
  failed: number;
  longestGapMs: number;
  /** Objects whose making was acknowledged and that are not there: never any. */
  lost: string[];
}

/** Makes an object twenty times a second, whatever comes of it, and remembers how that went. */
export class SteadyWriter {
  readonly #tenant: Tenant;
  readonly #working: Promise<void>;
  readonly #made: string[] = [];
  #isOver = false;
  #failed = 0;
  #longestGapMs = 0;
  #isWell = false;

  constructor(tenant: Tenant) {
    this.#tenant = tenant;
    this.#working = this.#work();
  }

  /** Until it has been well once more, from now on. */
  async stop(): Promise<WriterFigures> {
    const before = this.#made.length;
    try {
      await poll('the client to succeed again', () => this.#isWell && this.#made.length > before, {
        timeoutMs: 30_000,
      });
    } finally {
      await this.close();
    }
    const { items } = await this.#tenant.client.list(resources.configMaps, { namespace });
    const there = new Set(items.map(({ metadata }) => metadata.name));
    return {
      succeeded: this.#made.length,
      failed: this.#failed,
      longestGapMs: Math.round(this.#longestGapMs),
      lost: this.#made.filter((name) => !there.has(name)),
    };
  }

  /** Ends it, whatever it is at. */
  async close(): Promise<void> {
    this.#isOver = true;
    await this.#working;
  }

  async #work(): Promise<void> {
    let last = performance.now();
    for (let count = 0; !this.#isOver; count++) {
      const name = `write-${count}`;
      try {
        await this.#tenant.client.create(
          resources.configMaps,
          { metadata: { namespace, name } },
          { timeoutMs: 5_000 },
        );
        this.#made.push(name);
        this.#isWell = true;
        this.#longestGapMs = Math.max(this.#longestGapMs, performance.now() - last);
        last = performance.now();
      } catch {
        this.#failed += 1;
        this.#isWell = false;
      }
      await delay(writeEveryMs);
    }
  }
}
