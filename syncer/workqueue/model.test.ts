import fc from 'fast-check';
import { describe, expect, it } from 'vitest';
import { FairQueue } from './fair-queue.ts';
import { type AddOptions, type Outcome, weightedShare } from './options.ts';
import { quickMs } from './tenant-scheduler.ts';
import { ManualClock } from './testing/manual-clock.ts';
import { ReferenceQueue } from './testing/reference-queue.ts';

interface Item {
  tenant: string;
  id: string;
  form: number;
}

interface Held {
  readonly item: Item;
  readonly sinceMs: number;
}

const times = { baseMs: 100, maxMs: 2_000, releaseEveryMs: 1_000 };
const tenants = fc.constantFrom('a', 'b', 'c');
const ids = fc.constantFrom('x', 'y', 'z');
const afterMs = fc.constantFrom(0, 0, 10, 500, 3_000);
const versions = fc.constantFrom('1', '2', '3');

const addOptions: fc.Arbitrary<AddOptions> = fc.record(
  { priority: fc.constantFrom('live' as const, 'background' as const), afterMs, version: versions },
  { requiredKeys: [] },
);
const outcomes: fc.Arbitrary<Outcome> = fc.oneof(
  fc.constant<Outcome>({ action: 'done' }),
  fc.record({ action: fc.constant('later' as const), afterMs }),
  fc.constant<Outcome>({ action: 'backoff' }),
  fc.record({ action: fc.constant('backoff' as const), refusedVersion: versions }),
);
const steps = fc.oneof(
  {
    weight: 5,
    arbitrary: fc.record({ do: fc.constant('add' as const), tenant: tenants, id: ids, options: addOptions }),
  },
  { weight: 4, arbitrary: fc.record({ do: fc.constant('take' as const) }) },
  {
    weight: 4,
    arbitrary: fc.record({ do: fc.constant('done' as const), pick: fc.nat(10), outcome: outcomes }),
  },
  {
    weight: 2,
    arbitrary: fc.record({ do: fc.constant('wait' as const), ms: fc.constantFrom(1, 10, 100, 1_000) }),
  },
  { weight: 1, arbitrary: fc.record({ do: fc.constant('remove' as const), tenant: tenants }) },
  {
    weight: 2,
    arbitrary: fc.record({
      do: fc.constant('weigh' as const),
      tenant: tenants,
      weight: fc.integer({ min: 1, max: 9 }),
    }),
  },
);

class Comparison {
  readonly clock = new ManualClock();
  readonly model = new ReferenceQueue(times);
  readonly queue: FairQueue<Item>;
  readonly held: Held[] = [];
  /** By tenant that is not removed. */
  readonly weights = new Map<string, number>();
  readonly #maxConcurrent: number;
  #form = 0;

  constructor(maxConcurrent: number) {
    this.#maxConcurrent = maxConcurrent;
    this.queue = new FairQueue<Item>({
      keyOf: (item) => item.id,
      tenantOf: (item) => item.tenant,
      clock: this.clock,
      maxConcurrent,
      backoff: times,
      releaseEveryMs: times.releaseEveryMs,
      random: () => 0,
    });
  }

  add(tenant: string, id: string, options: AddOptions) {
    this.#form += 1;
    if (!this.weights.has(tenant)) this.weights.set(tenant, 1);
    this.queue.add({ tenant, id, form: this.#form }, options);
    this.model.add(`${tenant}/${id}`, this.#form, options, this.clock.monotonic());
  }

  /** Returns whether an item was taken. */
  take(): boolean {
    const item = this.queue.take();
    const now = this.clock.monotonic();
    const takeable = this.model.takeable(now);
    if (item === undefined) {
      // Only limits may keep an item waiting that is ready.
      const limits = new Map(this.queue.depths().map((depth) => [depth.tenant, depth]));
      for (const name of takeable.keys()) {
        const depth = limits.get(name.slice(0, 1));
        const limit = depth?.live === 0 ? Math.max(1, depth.limit - 1) : depth?.limit;
        const held = depth !== undefined && depth.processing >= (limit ?? 0);
        const mayNot = this.#isKept(depth?.processing ?? 0) || this.#tooMuchInBackground();
        expect(held || this.#inTime() >= this.#maxConcurrent || mayNot).toBe(true);
      }
      return false;
    }
    const name = `${item.tenant}/${item.id}`;
    expect(this.model.running()).not.toContain(name);
    expect(takeable.get(name)).toBe(item.form);
    expect(this.#inTime()).toBeLessThan(this.#maxConcurrent);
    this.#checkShare(item.tenant);
    this.model.take(name, now);
    this.held.push({ item, sinceMs: now });
    return true;
  }

  done(pick: number, outcome: Outcome) {
    const [ended] = this.held.splice(pick % Math.max(1, this.held.length), 1);
    if (ended === undefined) return;
    const { item } = ended;
    this.queue.done(item, outcome);
    this.model.done(`${item.tenant}/${item.id}`, item.form, outcome, this.clock.monotonic());
  }

  weigh(tenant: string, weight: number) {
    this.weights.set(tenant, weight);
    this.queue.setWeight(tenant, weight);
  }

  remove(tenant: string) {
    this.weights.delete(tenant);
    this.queue.removeTenant(tenant);
    this.model.removeTenant(tenant);
  }

  check() {
    expect(this.queue.depth()).toBe(this.model.waiting() + this.model.running().length);
    const depths = this.queue.depths();
    const sum = (field: 'live' | 'background' | 'delayed' | 'processing') =>
      depths.reduce((total, depth) => total + depth[field], 0);
    expect(sum('processing')).toBe(this.held.length);
    expect(sum('live') + sum('background') + sum('delayed')).toBe(this.model.waiting());
  }

  /** Whatever has happened before, everything that still waits must come out. */
  drain() {
    for (let round = 0; this.model.waiting() + this.held.length > 0; round += 1) {
      expect(round).toBeLessThan(1_000);
      while (this.held.length > 0) this.done(0, { action: 'done' });
      if (this.take()) continue;
      const dueAt = this.queue.nextDueAt();
      expect(dueAt).toBe(this.model.nextDueAt(this.clock.monotonic()));
      this.clock.advanceTo(dueAt as number);
    }
    expect(this.queue.depth()).toBe(0);
    expect(this.queue.nextDueAt()).toBeUndefined();
  }

  /** The last workers are kept for tenants that are idle now, as far as others hold some. */
  #isKept(processing: number) {
    const idle = this.queue
      .depths()
      .filter(({ live, background, processing: runs }) => live + background + runs === 0);
    const kept = Math.min(Math.floor(this.#maxConcurrent / 4), idle.length);
    return this.#inTime() >= this.#maxConcurrent - kept && processing > 0;
  }

  /** How many hold a worker: not those that take long. */
  #inTime(): number {
    return this.held.filter((held) => !this.#isOverdue(held)).length;
  }

  #isOverdue({ sinceMs }: Held): boolean {
    return this.clock.monotonic() - sinceMs >= quickMs;
  }

  /** A tenant that hangs gets nothing beyond its share among all. */
  #checkShare(tenant: string) {
    const own = this.held.filter(({ item }) => item.tenant === tenant);
    if (!own.some((held) => this.#isOverdue(held))) return;
    const total = [...this.weights.values()].reduce((sum, weight) => sum + weight, 0);
    const share = weightedShare(this.weights.get(tenant) ?? 1, total, this.#maxConcurrent);
    expect(own.length).toBeLessThan(share);
  }

  #tooMuchInBackground() {
    const waiting = this.queue.depths().reduce((total, depth) => total + depth.background, 0);
    return waiting > 0 && this.#inTime() >= Math.ceil(this.#maxConcurrent * 0.75);
  }
}

type Step = typeof steps extends fc.Arbitrary<infer T> ? T : never;

/** A tenant that was removed comes back while a worker still holds an item of it. */
const comesBack: [number, Step[]] = [
  4,
  [
    { do: 'add', tenant: 'b', id: 'y', options: {} },
    { do: 'add', tenant: 'a', id: 'x', options: {} },
    { do: 'add', tenant: 'c', id: 'x', options: {} },
    { do: 'take' },
    { do: 'take' },
    { do: 'remove', tenant: 'a' },
    { do: 'add', tenant: 'b', id: 'x', options: {} },
    { do: 'weigh', tenant: 'b', weight: 9 },
    { do: 'add', tenant: 'a', id: 'x', options: {} },
    { do: 'take' },
    { do: 'take' },
  ],
];

describe('FairQueue against a reference model', () => {
  it('loses nothing, hands nothing out twice or too early, and always in its newest form', () => {
    fc.assert(
      fc.property(
        fc.integer({ min: 1, max: 6 }),
        fc.array(steps, { maxLength: 80, size: 'max' }),
        (maxConcurrent, list) => {
          const both = new Comparison(maxConcurrent);
          for (const step of list) {
            if (step.do === 'add') both.add(step.tenant, step.id, step.options);
            else if (step.do === 'take') both.take();
            else if (step.do === 'done') both.done(step.pick, step.outcome);
            else if (step.do === 'wait') both.clock.advance(step.ms);
            else if (step.do === 'remove') both.remove(step.tenant);
            else both.weigh(step.tenant, step.weight);
            both.check();
          }
          both.drain();
        },
      ),
      { numRuns: 500, examples: [comesBack] },
    );
  });
});
