import {
  Connection,
  ConnectionError,
  type ConnectionOptions,
  connectionFromSecret,
  KubeClient,
} from '../../kube/index.ts';

export interface SteadyAnswer {
  /** Milliseconds since it began. */
  at: number;
  tookMs: number;
  /** The connection was closed in the moment in which the question was sent, and it was asked again on another one. */
  repeated?: boolean;
  /** Absent: it was answered well. */
  error?: string;
}

const everyMs = 50;
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
    }, everyMs);
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
  return new Promise((resolve) => setTimeout(resolve, everyMs));
}
