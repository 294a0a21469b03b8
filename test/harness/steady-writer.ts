import { setTimeout as delay } from 'node:timers/promises';
import { resources } from '../../kube/index.ts';
import { poll } from './poll.ts';
import type { Tenant } from './world.ts';

const everyMs = 50;
const namespace = 'default';

export interface WriterFigures {
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
      await delay(everyMs);
    }
  }
}
