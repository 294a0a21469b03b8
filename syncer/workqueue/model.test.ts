import fc from 'fast-check';
import { describe, expect, it } from 'vitest';
import { FairQueue } from './fair-queue.ts';
import type { AddOptions, Outcome } from './options.ts';
import { ManualClock } from './testing/manual-clock.ts';
import { ReferenceQueue } from './testing/reference-queue.ts';

interface Item {
  tenant: string;
  id: string;
  form: number;
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
  readonly held: Item[] = [];
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
        expect(held || this.held.length >= this.#maxConcurrent || mayNot).toBe(true);
      }
      return false;
    }
    const name = `${item.tenant}/${item.id}`;
    expect(this.model.running()).not.toContain(name);
    expect(takeable.get(name)).toBe(item.form);
    expect(this.held.length).toBeLessThan(this.#maxConcurrent);
    this.model.take(name, now);
    this.held.push(item);
    return true;
  }

  done(pick: number, outcome: Outcome) {
    const [item] = this.held.splice(pick % Math.max(1, this.held.length), 1);
    if (item === undefined) return;
    this.queue.done(item, outcome);
    this.model.done(`${item.tenant}/${item.id}`, item.form, outcome, this.clock.monotonic());
  }

  remove(tenant: string) {
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
    return this.held.length >= this.#maxConcurrent - kept && processing > 0;
  }

  #tooMuchInBackground() {
    const waiting = this.queue.depths().reduce((total, depth) => total + depth.background, 0);
    return waiting > 0 && this.held.length >= Math.ceil(this.#maxConcurrent * 0.75);
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
            else both.queue.setWeight(step.tenant, step.weight);
            both.check();
          }
          both.drain();
        },
      ),
      { numRuns: 500, examples: [comesBack] },
    );
  });
});
