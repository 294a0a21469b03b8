import fc from 'fast-check';
import { describe, expect, it } from 'vitest';
import { SchedulingWindow } from './scheduling-window.ts';
import { ReferenceWindow } from './testing/reference-window.ts';

const maxRefused = 3;
const tenants = fc.constantFrom('a', 'b', 'c', 'd');
const ids = fc.constantFrom('1', '2', '3', '4', '5', '6', '7');

const steps = fc.oneof(
  { weight: 8, arbitrary: fc.record({ do: fc.constant('ask' as const), tenant: tenants, id: ids }) },
  { weight: 3, arbitrary: fc.record({ do: fc.constant('place' as const), pick: fc.nat(20) }) },
  { weight: 2, arbitrary: fc.record({ do: fc.constant('refuse' as const), pick: fc.nat(20) }) },
  { weight: 2, arbitrary: fc.record({ do: fc.constant('remove' as const), pick: fc.nat(20) }) },
  { weight: 2, arbitrary: fc.record({ do: fc.constant('fail' as const), pick: fc.nat(20) }) },
  {
    weight: 2,
    arbitrary: fc.record({ do: fc.constant('wait' as const), ms: fc.integer({ min: 0, max: 1_500 }) }),
  },
  { weight: 1, arbitrary: fc.record({ do: fc.constant('forget' as const), pick: fc.nat(20) }) },
  { weight: 1, arbitrary: fc.record({ do: fc.constant('found' as const), tenant: tenants, id: ids }) },
  { weight: 1, arbitrary: fc.record({ do: fc.constant('leave' as const), tenant: tenants }) },
  {
    weight: 1,
    arbitrary: fc.record({
      do: fc.constant('join' as const),
      tenant: tenants,
      weight: fc.integer({ min: 1, max: 4 }),
    }),
  },
);

const fixed = (size: number): object => ({ floor: size, ceiling: size, initial: size });

/** The window and its model side by side; every slot that the window gives is one that the model would give. */
class Comparison {
  readonly model: ReferenceWindow;
  readonly window: SchedulingWindow;
  #now = 0;

  constructor(size: number, backlogSize: number) {
    this.model = new ReferenceWindow(maxRefused, backlogSize);
    this.window = new SchedulingWindow({
      size: fixed(size),
      backlogSize: fixed(backlogSize),
      maxRefused,
      wake: (tenant, id) => this.#granted(tenant, id),
    });
    for (const tenant of ['a', 'b', 'c', 'd']) this.join(tenant, 1);
  }

  join(tenant: string, weight: number): void {
    this.model.weights.set(tenant, weight);
    this.window.join(tenant, weight);
  }

  leave(tenant: string): void {
    this.model.leave(tenant);
    this.window.leave(tenant);
  }

  /** One run of a key that wants to create its pod, and does. */
  ask(tenant: string, id: string): void {
    if (!this.model.weights.has(tenant)) {
      expect(this.window.ask(tenant, id, this.#now)).toBe('go');
      return;
    }
    const before = this.model.state(tenant, id);
    const mayGo = this.model.hasRoom(tenant, this.window.size) && this.model.count(tenant, 'parked') === 0;
    const expected = before ?? (mayGo ? 'active' : 'parked');
    if (before === undefined && mayGo) this.model.enter(tenant, id);
    else this.model.set(tenant, id, expected);
    this.window.began(tenant, id);
    const answer = this.window.ask(tenant, id, this.#now);
    expect(answer === 'go').toBe(expected !== 'parked');
    if (answer === 'full') expect(this.model.count(tenant, 'refused')).toBeGreaterThanOrEqual(maxRefused);
    if (expected === 'active') this.model.await(tenant, id);
    this.window.ended(tenant, id, expected !== 'parked', this.#now);
  }

  /** The run ends, and there is no pod. */
  fail(tenant: string, id: string): void {
    this.model.set(tenant, id, undefined);
    this.window.began(tenant, id);
    this.window.ask(tenant, id, this.#now);
    this.window.ended(tenant, id, false, this.#now);
    // One that is with the scheduler already is told of by its own events.
    this.window.observe(tenant, id, undefined, this.#now);
  }

  /** A run that does not ask: the pod is not wanted any more. */
  forget(tenant: string, id: string): void {
    this.model.set(tenant, id, undefined);
    this.window.began(tenant, id);
    this.window.ended(tenant, id, false, this.#now);
  }

  found(tenant: string, id: string): void {
    if (!this.model.weights.has(tenant)) return;
    if (this.model.state(tenant, id) !== 'refused') {
      this.model.set(tenant, id, 'active');
      this.model.await(tenant, id);
    }
    this.window.observe(tenant, id, 'waiting', this.#now);
  }

  told(pick: number, state: 'placed' | 'refused' | undefined): void {
    const pods = [...this.model.of('active'), ...this.model.of('refused')];
    const pod = pods[pick % Math.max(1, pods.length)];
    if (pod === undefined) return;
    // A slot that was granted is only used by its run.
    this.ask(pod.tenant, pod.id);
    if (state !== undefined) this.model.recordLatency(pod.tenant, pod.id);
    this.model.set(pod.tenant, pod.id, state === 'refused' ? 'refused' : undefined);
    this.window.observe(pod.tenant, pod.id, state, this.#now);
  }

  wait(ms: number): void {
    this.#now += ms;
    this.model.now = this.#now;
    this.window.endRests(this.#now);
  }

  check(): void {
    this.wait(1);
    expect(this.model.askers(this.window.size)).toEqual([]);
    for (const { tenant, parked, scheduling, refused } of this.window.counts()) {
      expect([tenant, parked, scheduling, refused]).toEqual([
        tenant,
        this.model.count(tenant, 'parked'),
        this.model.count(tenant, 'active'),
        this.model.count(tenant, 'refused'),
      ]);
    }
    expect(this.window.inUse).toBe(this.model.of('active').length);
  }

  /** Whatever has happened, everybody's turn comes, and nothing is left of what has gone. */
  drain(): void {
    for (let round = 0; round < 1_000; round += 1) {
      const { length } = [
        ...this.model.of('active'),
        ...this.model.of('refused'),
        ...this.model.of('parked'),
      ];
      if (length === 0) break;
      this.told(round, 'placed');
      this.wait(round % 100);
      this.check();
    }
    expect(
      this.window.counts().filter((count) => count.parked + count.scheduling + count.refused > 0),
    ).toEqual([]);
    for (const tenant of ['a', 'b', 'c', 'd']) expect([...this.window.ids(tenant)]).toEqual([]);
  }

  /** First come, first served within the tenant, and no other tenant that could go has less for its weight. */
  #granted(tenant: string, id: string): void {
    const askers = this.model.askers(this.window.size);
    expect(askers).toContain(tenant);
    expect(this.model.firstParked(tenant)).toBe(id);
    const least = Math.min(...askers.map((asker) => this.model.load(asker)));
    expect(this.model.load(tenant)).toBe(least);
    this.model.grant(tenant, id);
  }
}

describe('SchedulingWindow against a reference model', () => {
  it('gives every place to whom it is due, in order, never keeps one back, and loses nothing', () => {
    fc.assert(
      fc.property(
        fc.integer({ min: 1, max: 6 }),
        fc.integer({ min: 1, max: 3 }),
        fc.array(steps, { maxLength: 120, size: 'max' }),
        (size, backlogSize, list) => {
          const both = new Comparison(size, backlogSize);
          const parked = (pick: number) => both.model.of('parked')[pick % both.model.of('parked').length];
          for (const step of list) {
            if (step.do === 'ask') both.ask(step.tenant, step.id);
            else if (step.do === 'wait') both.wait(step.ms);
            else if (step.do === 'place') both.told(step.pick, 'placed');
            else if (step.do === 'refuse') both.told(step.pick, 'refused');
            else if (step.do === 'remove') both.told(step.pick, undefined);
            else if (step.do === 'found') both.found(step.tenant, step.id);
            else if (step.do === 'leave') both.leave(step.tenant);
            else if (step.do === 'join') both.join(step.tenant, step.weight);
            else if (step.do === 'forget') {
              const pod = parked(step.pick);
              if (pod !== undefined) both.forget(pod.tenant, pod.id);
            } else {
              const pod = both.model.of('active')[step.pick % Math.max(1, both.model.of('active').length)];
              if (pod !== undefined) both.fail(pod.tenant, pod.id);
            }
            both.check();
          }
          both.drain();
        },
      ),
      { numRuns: 500 },
    );
  });
});
