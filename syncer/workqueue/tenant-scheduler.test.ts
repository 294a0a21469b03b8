import fc from 'fast-check';
import { describe, expect, it } from 'vitest';
import { FairQueue } from './fair-queue.ts';
import { type FairQueueOptions, weightedShare } from './options.ts';
import { ManualClock } from './testing/manual-clock.ts';
import { Simulation } from './testing/simulation.ts';

interface Item {
  tenant: string;
  id: string;
}

function queueOf(options: Partial<FairQueueOptions<Item>> & { maxConcurrent: number }) {
  const clock = new ManualClock();
  const queue = new FairQueue<Item>({
    keyOf: (item) => item.id,
    tenantOf: (item) => item.tenant,
    clock,
    ...options,
  });
  const addMany = (tenant: string, count: number, priority: 'live' | 'background') => {
    for (let i = 0; i < count; i += 1) queue.add({ tenant, id: `${priority}-${i}` }, { priority });
  };
  /** Runs items one after the other, 1 ms each. */
  const drain = (count: number) => {
    const order: string[] = [];
    for (let i = 0; i < count; i += 1) {
      const item = queue.take();
      if (item === undefined) break;
      order.push(`${item.tenant}/${item.id}`);
      clock.advance(1);
      queue.done(item);
    }
    return order;
  };
  return { clock, queue, addMany, drain };
}

describe('priorities', () => {
  it('takes live items before background items, of one tenant and of all', () => {
    const { addMany, drain } = queueOf({ maxConcurrent: 1 });
    addMany('a', 2, 'background');
    addMany('b', 1, 'live');
    addMany('a', 1, 'live');
    expect(drain(10)).toEqual(['b/live-0', 'a/live-0', 'a/background-0', 'a/background-1']);
  });

  it('gives background items one turn in eight while live items keep coming', () => {
    const { addMany, drain } = queueOf({ maxConcurrent: 1 });
    addMany('a', 100, 'background');
    addMany('b', 100, 'live');
    const order = drain(80);
    expect(order.filter((item) => item.startsWith('a/'))).toHaveLength(10);
  });

  it('moves a waiting background item forward when it is added live', () => {
    const { addMany, drain, queue } = queueOf({ maxConcurrent: 1 });
    addMany('a', 3, 'background');
    queue.add({ tenant: 'a', id: 'background-2' });
    expect(drain(10)).toEqual(['a/background-2', 'a/background-0', 'a/background-1']);
  });

  it('does not move a waiting live item back when it is added in the background', () => {
    const { drain, queue } = queueOf({ maxConcurrent: 1 });
    queue.add({ tenant: 'a', id: 'x' });
    queue.add({ tenant: 'a', id: 'x' }, { priority: 'background' });
    queue.add({ tenant: 'b', id: 'y' });
    expect(drain(10)).toEqual(['a/x', 'b/y']);
  });

  it('keeps workers free of background items', () => {
    const { addMany, queue } = queueOf({ maxConcurrent: 8, shareOf: () => 8 });
    addMany('a', 20, 'background');
    const taken = Array.from({ length: 8 }, () => queue.take()).filter((item) => item !== undefined);
    expect(taken).toHaveLength(6);
    addMany('b', 3, 'live');
    expect([queue.take(), queue.take(), queue.take()].map((item) => item?.tenant)).toEqual([
      'b',
      'b',
      undefined,
    ]);
  });

  it('keeps one worker of a tenant free of its background items, if it has several', () => {
    const { addMany, queue } = queueOf({ maxConcurrent: 8, shareOf: () => 3 });
    addMany('a', 5, 'background');
    expect([queue.take(), queue.take(), queue.take()].filter((item) => item !== undefined)).toHaveLength(2);
    addMany('a', 1, 'live');
    expect(queue.take()?.id).toBe('live-0');
    const alone = queueOf({ maxConcurrent: 8, shareOf: () => 1 });
    alone.addMany('a', 2, 'background');
    expect([alone.queue.take(), alone.queue.take()].filter((item) => item !== undefined)).toHaveLength(1);
  });

  it('charges background work to the tenant among background work only', () => {
    const { addMany, drain } = queueOf({ maxConcurrent: 1 });
    addMany('a', 200, 'background');
    drain(100);
    addMany('a', 10, 'live');
    addMany('b', 10, 'live');
    const live = drain(20).filter((item) => item.includes('live'));
    expect(live.slice(0, 8).filter((item) => item.startsWith('a/'))).toHaveLength(4);
  });
});

describe('order within a tenant', () => {
  it('is that in which items became ready, delayed ones at their due time', () => {
    const { clock, drain, queue } = queueOf({ maxConcurrent: 1 });
    queue.add({ tenant: 'a', id: 'late' }, { afterMs: 20 });
    queue.add({ tenant: 'a', id: 'soon' }, { afterMs: 10 });
    clock.advance(30);
    queue.add({ tenant: 'a', id: 'now' });
    expect(drain(10)).toEqual(['a/soon', 'a/late', 'a/now']);
  });
});

describe('shares of the workers', () => {
  const join = (queue: FairQueue<Item>, tenants: number) => {
    for (let i = 0; i < tenants; i += 1) queue.setWeight(`t${i}`, 1);
  };
  const takeAll = (queue: FairQueue<Item>) => {
    const taken: Item[] = [];
    for (let item = queue.take(); item !== undefined; item = queue.take()) taken.push(item);
    return taken;
  };

  it('add up to no more than there is as long as there are as many workers as tenants', () => {
    for (const tenants of [1, 2, 3, 5, 7, 16]) {
      expect(weightedShare(1, tenants, 16) * tenants).toBeLessThanOrEqual(16);
    }
    expect(weightedShare(1, 100, 16)).toBe(1);
    expect(weightedShare(1, 1, 1)).toBe(1);
  });

  it('are among tenants with something to do: 99 idle ones do not hold back one that is served quickly', () => {
    const { clock, queue, addMany } = queueOf({ maxConcurrent: 60 });
    join(queue, 100);
    addMany('t0', 500, 'live');
    const held: number[] = [];
    for (let round = 0; round < 8; round += 1) {
      const taken = takeAll(queue);
      held.push(taken.length);
      clock.advance(10);
      for (const item of taken) queue.done(item);
    }
    // The last quarter is kept for those that come back.
    expect(held).toEqual([1, 2, 4, 8, 16, 32, 45, 45]);
  });

  it('are among all for a tenant whose calls take long: what it gets beyond that, it has to earn', () => {
    const { clock, queue, addMany } = queueOf({ maxConcurrent: 60 });
    join(queue, 100);
    addMany('t0', 500, 'live');
    for (let round = 0; round < 5; round += 1) {
      const taken = takeAll(queue);
      expect(taken).toHaveLength(1);
      clock.advance(5_000);
      for (const item of taken) queue.done(item);
    }
  });

  it('that a tenant has earned are lost when it falls silent', () => {
    const { clock, queue, addMany } = queueOf({ maxConcurrent: 60 });
    join(queue, 100);
    addMany('t0', 31, 'live');
    for (let round = 0; round < 5; round += 1) {
      const taken = takeAll(queue);
      clock.advance(10);
      for (const item of taken) queue.done(item);
    }
    expect(queue.depth()).toBe(0);
    addMany('t0', 31, 'live');
    expect(takeAll(queue)).toHaveLength(1);
  });

  it('leave a worker to a tenant that comes back, one after the other, however much the busy ones hold', () => {
    for (const maxConcurrent of [4, 8, 60]) {
      const { clock, queue, addMany } = queueOf({ maxConcurrent });
      join(queue, 100);
      addMany('t0', 500, 'live');
      addMany('t1', 500, 'live');
      for (let round = 0; round < 8; round += 1) {
        const taken = takeAll(queue);
        clock.advance(10);
        for (const item of taken) queue.done(item);
      }
      // From here on nothing that they hold comes back.
      const hung = takeAll(queue).length;
      expect(hung).toBe(maxConcurrent - Math.floor(maxConcurrent / 4));
      for (let i = 2; i < 100; i += 1) {
        clock.advance(1);
        addMany(`t${i}`, 3, 'live');
        const taken = takeAll(queue);
        expect(taken.map(({ tenant }) => tenant)).toContain(`t${i}`);
        for (const item of taken) queue.done(item);
        while (queue.depth(`t${i}`) > 0) for (const item of takeAll(queue)) queue.done(item);
      }
    }
  });

  it('grow at once when another tenant has nothing left to do', () => {
    const { clock, queue, addMany } = queueOf({ maxConcurrent: 8 });
    join(queue, 2);
    addMany('t0', 200, 'live');
    addMany('t1', 16, 'live');
    for (let round = 0; round < 4; round += 1) {
      const taken = takeAll(queue);
      expect(taken.filter(({ tenant }) => tenant === 't0')).toHaveLength(4);
      clock.advance(10);
      for (const item of taken) queue.done(item);
    }
    expect(takeAll(queue)).toHaveLength(6);
  });

  it('never have more in process than there are workers, with more tenants than workers', () => {
    const { queue, addMany } = queueOf({ maxConcurrent: 16 });
    queue.setWeight('large', 1_000);
    addMany('large', 100, 'live');
    for (let i = 0; i < 40; i += 1) addMany(`t${i}`, 2, 'live');
    const taken = takeAll(queue);
    expect(taken).toHaveLength(16);
    expect(taken.filter(({ tenant }) => tenant === 'large').length).toBeLessThanOrEqual(12);
  });
});

describe('an item that is added first', () => {
  it('goes ahead of what its tenant has waiting, and not ahead of other tenants', () => {
    const { addMany, drain, queue } = queueOf({ maxConcurrent: 1 });
    addMany('b', 1, 'live');
    addMany('a', 3, 'live');
    queue.add({ tenant: 'a', id: 'granted' }, { first: true });
    queue.add({ tenant: 'a', id: 'live-2' }, { first: true });
    expect(drain(10)).toEqual(['b/live-0', 'a/live-2', 'a/granted', 'a/live-0', 'a/live-1']);
  });

  it('does so after the run that it was added in, and only once', () => {
    const { addMany, drain, queue } = queueOf({ maxConcurrent: 1 });
    const item = { tenant: 'a', id: 'x' };
    queue.add(item);
    queue.take();
    addMany('a', 2, 'live');
    queue.add(item, { first: true });
    queue.done(item);
    expect(drain(1)).toEqual(['a/x']);
    queue.add(item);
    expect(drain(3)).toEqual(['a/live-0', 'a/live-1', 'a/x']);
  });
});

describe('FairQueue', () => {
  it('counts what waits, is delayed and is in process, by tenant', () => {
    const { addMany, queue } = queueOf({ maxConcurrent: 4 });
    queue.setWeight('a', 3);
    addMany('a', 3, 'live');
    addMany('a', 2, 'background');
    queue.add({ tenant: 'a', id: 'z' }, { afterMs: 5 });
    addMany('b', 1, 'background');
    queue.take();
    expect(queue.depths()).toEqual([
      { tenant: 'a', weight: 3, limit: 3, live: 2, background: 2, delayed: 1, processing: 1 },
      { tenant: 'b', weight: 1, limit: 1, live: 0, background: 1, delayed: 0, processing: 0 },
    ]);
    expect([queue.depth(), queue.depth('a'), queue.depth('b'), queue.depth('c')]).toEqual([7, 6, 1, 0]);
  });

  it('measures the wait from when an item could have run, and its service', () => {
    const seen: unknown[] = [];
    const { clock, queue } = queueOf({
      maxConcurrent: 1,
      observer: {
        taken: (item, waitMs) => seen.push(['taken', item.id, waitMs]),
        done: (item, serviceMs, outcome) => seen.push(['done', item.id, serviceMs, outcome.action]),
      },
    });
    const item = { tenant: 'a', id: 'x' };
    queue.add(item, { afterMs: 100, priority: 'background' });
    clock.advance(100);
    queue.add({ tenant: 'a', id: 'y' });
    expect(queue.take()?.id).toBe('y');
    clock.advance(7);
    queue.add(item);
    queue.done({ tenant: 'a', id: 'y' }, { action: 'backoff' });
    expect(queue.take()).toEqual(item);
    queue.done(item, { action: 'done' }, 3);
    expect(seen).toEqual([
      ['taken', 'y', 0],
      ['done', 'y', 7, 'backoff'],
      ['taken', 'x', 7],
      ['done', 'x', 3, 'done'],
    ]);
  });

  it('refuses `done` for an item that was not taken', () => {
    const { queue } = queueOf({ maxConcurrent: 1 });
    queue.add({ tenant: 'a', id: 'x' });
    expect(() => queue.done({ tenant: 'a', id: 'x' })).toThrow('a x is not in process');
    expect(() => queue.done({ tenant: 'b', id: 'x' })).toThrow('b x is not in process');
  });

  it('refuses options that make no sense', () => {
    expect(() => queueOf({ maxConcurrent: 0 })).toThrow('maxConcurrent');
    expect(() => queueOf({ maxConcurrent: 1 }).queue.setWeight('a', 0)).toThrow('weight');
  });
});

const tenant = fc.record({
  weight: fc.integer({ min: 1, max: 10 }),
  /** Costs are drawn in turn. */
  costsMs: fc.array(fc.integer({ min: 1, max: 50 }), { minLength: 1, maxLength: 5 }),
});

function addWork(simulation: Simulation, name: string, costsMs: number[], totalMs: number) {
  let sum = 0;
  for (let i = 0; sum < totalMs; i += 1) {
    const costMs = costsMs[i % costsMs.length] as number;
    simulation.queue.add({ tenant: name, id: `item-${i}`, costMs });
    sum += costMs;
  }
}

describe('service over time', () => {
  it('differs between backlogged tenants by a constant, however long they run', () => {
    const runMs = 2_000;
    fc.assert(
      fc.property(
        fc.array(tenant, { minLength: 2, maxLength: 6 }),
        fc.integer({ min: 1, max: 8 }),
        (tenants, workers) => {
          // No tenant is capped here: then order alone must be fair.
          const simulation = new Simulation({ maxConcurrent: workers, shareOf: () => workers });
          tenants.forEach(({ weight, costsMs }, i) => {
            simulation.queue.setWeight(`t${i}`, weight);
            addWork(simulation, `t${i}`, costsMs, runMs * workers);
          });
          simulation.runFor(runMs);
          const normalized = tenants.map(({ weight }, i) => simulation.serviceMs(`t${i}`) / weight);
          const largest = tenants.map(({ weight, costsMs }) => Math.max(...costsMs) / weight);
          tenants.forEach((_, i) => {
            tenants.forEach((__, j) => {
              const bound = (workers + 1) * ((largest[i] as number) + (largest[j] as number));
              expect((normalized[i] as number) - (normalized[j] as number)).toBeLessThanOrEqual(bound);
            });
          });
        },
      ),
      { numRuns: 200 },
    );
  });

  it('leaves no worker idle while anything may run', () => {
    fc.assert(
      fc.property(
        fc.array(tenant, { minLength: 1, maxLength: 5 }),
        fc.integer({ min: 1, max: 6 }),
        (tenants, workers) => {
          const simulation = new Simulation({ maxConcurrent: workers, shareOf: () => workers });
          tenants.forEach(({ costsMs }, i) => {
            addWork(simulation, `t${i}`, costsMs, 1_000 * workers);
          });
          simulation.runFor(500);
          const service = tenants.reduce((sum, _, i) => sum + simulation.serviceMs(`t${i}`), 0);
          expect(service).toBe(500 * workers);
        },
      ),
      { numRuns: 100 },
    );
  });

  it('reaches a newcomer as fast as everyone else, at whatever moment it comes', () => {
    fc.assert(
      fc.property(
        fc.array(tenant, { minLength: 1, maxLength: 4 }),
        fc.integer({ min: 1, max: 6 }),
        fc.integer({ min: 0, max: 1_000 }),
        (tenants, workers, arrivesAfterMs) => {
          const simulation = new Simulation({ maxConcurrent: workers, shareOf: () => workers });
          tenants.forEach(({ costsMs }, i) => {
            addWork(simulation, `t${i}`, costsMs, 4_000 * workers);
          });
          simulation.runFor(arrivesAfterMs);
          const since = simulation.clock.monotonic();
          addWork(simulation, 'new', [5], 4_000 * workers);
          simulation.runFor(2_000);
          const fair = (2_000 * workers) / (tenants.length + 1);
          const largest = Math.max(5, ...tenants.flatMap(({ costsMs }) => costsMs));
          const difference = simulation.serviceMs('new', since) - fair;
          expect(Math.abs(difference)).toBeLessThanOrEqual(2 * (workers + 1) * largest);
        },
      ),
      { numRuns: 100 },
    );
  });
});
