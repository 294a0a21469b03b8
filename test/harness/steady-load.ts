import { setTimeout as delay } from 'node:timers/promises';
import { expect } from 'vitest';
import { connectionFromSecret, resources } from '../../kube/index.ts';
import { SteadyClient } from '../../scripts/bench/steady-client.ts';
import { poll } from './poll.ts';
import type { Tenant } from './world.ts';

/**
 * No request failed, and none was repeated, but for one per connection to each of the servers that ended meanwhile.
 */
export function expectAllServed(
  client: Pick<SteadyClient, 'failures' | 'repeats' | 'mostAtOnce'>,
  endedServers = 0,
): void {
  expect(client.failures).toEqual([]);
  if (endedServers === 0) expect(client.repeats).toEqual([]);
  else expect(client.repeats.length).toBeLessThanOrEqual(endedServers * client.mostAtOnce);
}

/** Has a client ask the API server of this kubeconfig from before the work until after it; prints what became of it. */
export async function whileAsked(
  kubeconfig: string,
  what: string,
  work: (client: SteadyClient) => Promise<void>,
  options: { patienceMs?: number } = {},
): Promise<SteadyClient> {
  const client = new SteadyClient(connectionFromSecret(kubeconfig), options);
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
  failed: number;
  longestGapMs: number;
  /** Objects whose making was acknowledged and that are not there: never any. */
  lost: string[];
}

/** Makes an object twenty times a second, whatever comes of it, and remembers how that went. */
export class SteadyWriter {
  readonly #tenant: Tenant;
  readonly #prefix: string;
  readonly #working: Promise<void>;
  readonly #made: string[] = [];
  #isOver = false;
  #failed = 0;
  #longestGapMs = 0;
  #isWell = false;

  /** `prefix`: of the names of what it makes, no other of this tenant has it. */
  constructor(tenant: Tenant, prefix = 'write') {
    this.#tenant = tenant;
    this.#prefix = prefix;
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
      const name = `${this.#prefix}-${count}`;
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
