import { setTimeout as delay } from 'node:timers/promises';
import { expect } from 'vitest';
import {
  Connection,
  type ConnectionOptions,
  connectionFromSecret,
  isAlreadyExists,
  KubeClient,
  resources,
} from '../../kube/index.ts';
import { repeatAfterMs, SteadyClient } from '../../scripts/bench/steady-client.ts';
import { patientRequests, poll } from './poll.ts';

/**
 * No request failed, and none was repeated, but for one per connection to each of the servers that ended meanwhile.
 */
export function expectAllServed(
  client: Pick<SteadyClient, 'failures' | 'repeats' | 'maxAtOnce'>,
  endedServers = 0,
): void {
  expect(client.failures).toEqual([]);
  if (endedServers === 0) expect(client.repeats).toEqual([]);
  else expect(client.repeats.length).toBeLessThanOrEqual(endedServers * client.maxAtOnce);
}

/** Has a client ask the API server of this kubeconfig from before the work until after it; prints what became of it. */
export async function whileAsked(
  kubeconfig: string,
  what: string,
  work: (client: SteadyClient) => Promise<void>,
  { patienceMs = patientRequests.requestTimeoutMs }: { patienceMs?: number } = {},
): Promise<SteadyClient> {
  const client = new SteadyClient(connectionFromSecret(kubeconfig), { patienceMs });
  try {
    await client.answered(20);
    await work(client);
  } finally {
    await client.close();
    console.log(client.describe(what));
  }
  return client;
}

const writeEveryMs = 50;
const namespace = 'default';

interface WriterFigures {
  succeeded: number;
  /** What the failed ones were told. */
  failures: string[];
  /** Sent once more, as those of a `SteadyClient` are; each time one connection had ended. */
  repeated: number;
  longestGapMs: number;
  /** Objects whose making was acknowledged and that are not there: never any. */
  lost: string[];
}

/** As `expectAllServed`, for one writer: it has one request under way at a time. */
export function expectAllWritten({ failures, repeated, lost }: WriterFigures, endedServers = 0): void {
  expect({ failures, lost }).toEqual({ failures: [], lost: [] });
  expect(repeated).toBeLessThanOrEqual(endedServers);
}

/** Makes an object twenty times a second, whatever comes of it, and remembers how that went. */
export class SteadyWriter {
  readonly #client: KubeClient;
  readonly #prefix: string;
  readonly #working: Promise<void>;
  readonly #made: string[] = [];
  #isOver = false;
  readonly #failures: string[] = [];
  #repeated = 0;
  #longestGapMs = 0;
  #isWell = false;

  /**
   * `prefix`: of the names of what it makes, no other of this tenant has it. `patienceMs`: after so long a write counts as
   * failed.
   */
  constructor(
    options: ConnectionOptions,
    {
      prefix = 'write',
      patienceMs = patientRequests.requestTimeoutMs,
    }: { prefix?: string; patienceMs?: number } = {},
  ) {
    const limits = { requestTimeoutMs: patienceMs, connectTimeoutMs: patienceMs };
    this.#client = new KubeClient(new Connection({ ...options, ...limits }));
    this.#prefix = prefix;
    this.#working = this.#work();
  }

  /** Until it has been well once more, from now on. */
  async stop(): Promise<WriterFigures> {
    const before = this.#made.length;
    try {
      await poll('the client to succeed again', () => this.#isWell && this.#made.length > before);
      this.#isOver = true;
      await this.#working;
      const { items } = await this.#client.list(resources.configMaps, { namespace });
      const there = new Set(items.map(({ metadata }) => metadata.name));
      return {
        succeeded: this.#made.length,
        failures: this.#failures,
        repeated: this.#repeated,
        longestGapMs: Math.round(this.#longestGapMs),
        lost: this.#made.filter((name) => !there.has(name)),
      };
    } finally {
      await this.close();
    }
  }

  /** Ends it, whatever it is at. */
  async close(): Promise<void> {
    this.#isOver = true;
    await this.#working;
    await this.#client.connection.close();
  }

  async #work(): Promise<void> {
    let last = performance.now();
    for (let count = 0; !this.#isOver; count++) {
      const name = `${this.#prefix}-${count}`;
      try {
        await this.#create(name);
        this.#made.push(name);
        this.#isWell = true;
        this.#longestGapMs = Math.max(this.#longestGapMs, performance.now() - last);
        last = performance.now();
      } catch (error) {
        this.#failures.push((error as Error).message);
        this.#isWell = false;
      }
      await delay(writeEveryMs);
    }
  }

  async #create(name: string): Promise<void> {
    const create = () => this.#client.create(resources.configMaps, { metadata: { namespace, name } });
    try {
      await create();
    } catch (first) {
      const waitMs = repeatAfterMs(first as Error);
      if (waitMs === undefined) throw first;
      this.#repeated += 1;
      await delay(waitMs);
      // It may have been carried out, and only the answer been lost: nobody else makes one of this name.
      await create().catch((error: unknown) => {
        if (!isAlreadyExists(error)) throw error;
      });
    }
  }
}
