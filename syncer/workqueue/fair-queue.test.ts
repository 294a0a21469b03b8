import { beforeEach, describe, expect, it } from 'vitest';
import { FairQueue } from './fair-queue.ts';
import type { AddOptions, Outcome } from './options.ts';
import { ManualClock } from './testing/manual-clock.ts';
import { type Job, Simulation } from './testing/simulation.ts';

function queueOf(maxConcurrent = 4) {
  const clock = new ManualClock();
  const queue = new FairQueue<{ tenant: string; id: string; form?: number }>({
    keyOf: (item) => item.id,
    tenantOf: (item) => item.tenant,
    clock,
    maxConcurrent,
    random: () => 0,
    backoff: { baseMs: 100, maxMs: 10_000 },
  });
  return { clock, queue };
}

describe('sync rule `one-worker-per-item`', () => {
  it('never hands one item to two workers', () => {
    const { queue } = queueOf();
    queue.add({ tenant: 'a', id: 'x' });
    expect(queue.take()).toBeDefined();
    queue.add({ tenant: 'a', id: 'x' });
    expect(queue.take()).toBeUndefined();
  });

  it('runs an item exactly once more, in its newest form, however often it was added while in process', () => {
    const { queue } = queueOf();
    const item = { tenant: 'a', id: 'x', form: 0 };
    queue.add(item);
    queue.take();
    for (let form = 1; form <= 5; form += 1) queue.add({ ...item, form });
    queue.done(item);
    expect(queue.take()).toEqual({ ...item, form: 5 });
    queue.done(item);
    expect(queue.take()).toBeUndefined();
    expect(queue.depth()).toBe(0);
  });

  it('keeps the newest of what is added in back-off', () => {
    const { clock, queue } = queueOf();
    const item = { tenant: 'a', id: 'x', form: 0 };
    queue.add(item);
    queue.take();
    queue.done(item, { action: 'backoff' });
    queue.add({ ...item, form: 1 }, { priority: 'background' });
    queue.add({ ...item, form: 2 }, { priority: 'background' });
    expect(queue.take()).toBeUndefined();
    clock.advance(100);
    expect(queue.take()).toEqual({ ...item, form: 2 });
    queue.done(item);
    expect(queue.depth()).toBe(0);
  });
});

it('knows whether a live item waits for nothing but a free worker', () => {
  const { queue } = queueOf(4);
  queue.setWeight('b', 3);
  queue.add({ tenant: 'a', id: 'x' }, { priority: 'background' });
  expect(queue.hasLiveWaiting()).toBe(false);
  queue.add({ tenant: 'a', id: 'y' });
  queue.add({ tenant: 'a', id: 'z' });
  expect(queue.hasLiveWaiting()).toBe(true);
  queue.take();
  queue.take();
  while (queue.take() !== undefined);
  queue.add({ tenant: 'a', id: 'x2' });
  queue.add({ tenant: 'a', id: 'x3' });
  queue.add({ tenant: 'a', id: 'x4' });
  while (queue.take() !== undefined);
  // What is left is beyond the tenant's limit.
  const [{ live, processing, limit }] = queue.depths().filter(({ tenant }) => tenant === 'a') as never as [
    { live: number; processing: number; limit: number },
  ];
  expect(processing).toBe(limit);
  expect(live).toBeGreaterThan(0);
  expect(queue.hasLiveWaiting()).toBe(false);
});

it('has live items waiting while all workers are held, also where each tenant is at its limit', () => {
  const { queue } = queueOf(2);
  for (const tenant of ['a', 'b']) for (const id of ['x', 'y']) queue.add({ tenant, id });
  const taken = [queue.take(), queue.take()];
  expect(taken.map((item) => item?.tenant).sort()).toEqual(['a', 'b']);
  expect(queue.hasLiveWaiting()).toBe(true);
  for (const item of taken) if (item !== undefined) queue.done(item);
  for (let item = queue.take(); item !== undefined; item = queue.take()) queue.done(item);
  expect(queue.hasLiveWaiting()).toBe(false);
});

describe('sync rule `fair-turns`', () => {
  it('serves a newcomer within the next two free slots, although another tenant waits with 1,000 items', () => {
    for (const maxConcurrent of [1, 2, 8]) {
      const simulation = new Simulation({ maxConcurrent });
      simulation.addMany('a', 1_000, 5);
      simulation.runFor(100);
      const before = simulation.started.length;
      simulation.addMany('b', 1, 5);
      simulation.runFor(50);
      const next = simulation.started.slice(before, before + 2).map((run) => run.job.tenant);
      expect(next).toContain('b');
    }
  });

  it('does so when items turn out far cheaper than those before them', () => {
    const simulation = new Simulation({ maxConcurrent: 4, shareOf: () => 100 });
    simulation.addMany('a', 20, 500, 'dear');
    simulation.addMany('a', 1_000, 1, 'cheap');
    simulation.runFor(2_502);
    const before = simulation.started.length;
    simulation.addMany('b', 1, 1);
    simulation.runFor(50);
    expect(simulation.started.slice(before, before + 2).map((run) => run.job.tenant)).toContain('b');
  });
});

describe('sync rule `weights`', () => {
  const weights = { a: 1, b: 2, c: 3, d: 4 };

  it.each([1, 10, 40])('divides 1,000 equal items by weight among %i workers', (maxConcurrent) => {
    const simulation = new Simulation({ maxConcurrent });
    for (const [tenant, weight] of Object.entries(weights)) simulation.queue.setWeight(tenant, weight);
    for (const tenant of Object.keys(weights)) simulation.addMany(tenant, 1_000, 1);
    simulation.runFor(1_000 / maxConcurrent);
    expect(simulation.finished).toHaveLength(1_000);
    for (const [tenant, weight] of Object.entries(weights)) {
      const served = simulation.finished.filter((run) => run.job.tenant === tenant).length;
      expect(Math.abs(served - 100 * weight)).toBeLessThanOrEqual(10);
    }
  });

  it('lets the others share after two have left', () => {
    const simulation = new Simulation({ maxConcurrent: 1 });
    for (const [tenant, weight] of Object.entries(weights)) simulation.queue.setWeight(tenant, weight);
    for (const tenant of Object.keys(weights)) simulation.addMany(tenant, 2_000, 1);
    simulation.runFor(500);
    simulation.queue.removeTenant('b');
    simulation.queue.removeTenant('d');
    const before = simulation.started.length;
    simulation.runFor(1_000);
    const after = simulation.started.slice(before);
    const served = (tenant: string) => after.filter((run) => run.job.tenant === tenant).length;
    expect(served('b') + served('d')).toBe(0);
    expect(Math.abs(served('a') - 250)).toBeLessThanOrEqual(10);
    expect(Math.abs(served('c') - 750)).toBeLessThanOrEqual(10);
  });

  it('applies a weight that changes while items wait', () => {
    const simulation = new Simulation({ maxConcurrent: 1 });
    simulation.addMany('a', 2_000, 1);
    simulation.addMany('b', 2_000, 1);
    simulation.runFor(200);
    simulation.queue.setWeight('b', 3);
    const before = simulation.started.length;
    simulation.runFor(400);
    const b = simulation.started.slice(before).filter((run) => run.job.tenant === 'b').length;
    expect(Math.abs(b - 300)).toBeLessThanOrEqual(5);
  });
});

describe('sync rule `idle-credit`', () => {
  it.each([1, 6])(
    'gives a tenant back from idle no credit and no penalty, with %i workers',
    (maxConcurrent) => {
      const simulation = new Simulation({ maxConcurrent });
      for (const tenant of ['a', 'b', 'c']) simulation.addMany(tenant, 50, 2, 'first');
      simulation.addMany('a', 100_000, 2);
      simulation.addMany('b', 100_000, 2);
      simulation.runFor(10_000);
      const back = simulation.clock.monotonic();
      simulation.addMany('c', 100_000, 2);
      simulation.runFor(600);
      const third = (600 * maxConcurrent) / 3;
      for (const tenant of ['a', 'b', 'c']) {
        expect(Math.abs(simulation.serviceMs(tenant, back) - third)).toBeLessThanOrEqual(4 * maxConcurrent);
      }
    },
  );

  it('gives no credit for the time in which calls of others were under way', () => {
    const simulation = new Simulation({ maxConcurrent: 2, shareOf: () => 2 });
    simulation.addMany('a', 2, 1_000, 'long');
    simulation.addMany('a', 1_000, 10);
    simulation.runFor(900);
    simulation.addMany('c', 10_000, 1);
    simulation.runFor(100);
    const since = simulation.clock.monotonic();
    simulation.runFor(1_000);
    expect(simulation.serviceMs('a', since)).toBeGreaterThanOrEqual(800);
  });

  it('does not hold the use of an idle system against anyone', () => {
    const simulation = new Simulation({ maxConcurrent: 1 });
    simulation.addMany('a', 1, 3_000, 'alone');
    simulation.runFor(10_000);
    const start = simulation.clock.monotonic();
    simulation.addMany('b', 200, 1);
    simulation.addMany('a', 200, 1);
    simulation.runFor(100);
    expect(Math.abs(simulation.serviceMs('a', start) - 50)).toBeLessThanOrEqual(2);
  });

  it('forgets all but a bounded debt, so that calls that hung do not lock a tenant out', () => {
    const simulation = new Simulation({ maxConcurrent: 4, memoryMs: 1_000, shareOf: () => 100 });
    simulation.addMany('a', 3, 30_000, 'hangs');
    simulation.runFor(0);
    simulation.addMany('b', 100_000, 1);
    simulation.runFor(30_000);
    const back = simulation.clock.monotonic();
    simulation.addMany('a', 10_000, 1);
    simulation.runFor(2_000);
    expect(simulation.serviceMs('a', back)).toBeGreaterThanOrEqual(3_000);
  });
});

describe('sync rule `forgotten-tenant`', () => {
  it('delivers what is added again after its tenant was forgotten in the middle of a run, and not before that run ends', () => {
    const { queue } = queueOf();
    const item = { tenant: 'a', id: 'x' };
    queue.add(item);
    queue.add({ tenant: 'a', id: 'y' });
    queue.take();
    queue.removeTenant('a');
    queue.add(item);
    expect(queue.take()).toBeUndefined();
    queue.done(item, { action: 'backoff' });
    expect(queue.take()).toEqual(item);
    queue.done(item);
    expect(queue.depths()).toMatchObject([{ tenant: 'a', live: 0, delayed: 0, processing: 0 }]);
  });

  it('delivers what is added to a tenant that has been idle', () => {
    const simulation = new Simulation({ maxConcurrent: 2 });
    simulation.addMany('a', 1, 5);
    simulation.runFor(100_000);
    simulation.addMany('a', 1, 5);
    simulation.runFor(10);
    expect(simulation.finished).toHaveLength(2);
  });

  it('does not bring back an item of a removed tenant because its last run failed', () => {
    const { clock, queue } = queueOf();
    const item = { tenant: 'a', id: 'x' };
    queue.add(item);
    queue.take();
    queue.removeTenant('a');
    queue.done(item, { action: 'backoff' });
    clock.advance(100_000);
    expect(queue.take()).toBeUndefined();
    expect(queue.depths()).toEqual([]);
  });
});

/** Whether the second was under way when the first began. */
function overlaps(run: { startedAt: number }, other: { startedAt: number; endsAt: number }): boolean {
  return other.startedAt <= run.startedAt && run.startedAt < other.endsAt;
}

describe('sync rule `hanging-tenant`', () => {
  const hang = 1_000_000;

  it('lets a tenant that hangs hold its share of the workers and no more', () => {
    const simulation = new Simulation({ maxConcurrent: 16 });
    for (const tenant of ['hung', 'b', 'c', 'd']) simulation.queue.setWeight(tenant, 1);
    simulation.addMany('hung', 1_000, hang);
    simulation.runFor(5_000);
    expect(simulation.running).toHaveLength(4);
  });

  it('weighs the share, and gives everyone at least one worker', () => {
    const simulation = new Simulation({ maxConcurrent: 8 });
    simulation.queue.setWeight('large', 10);
    simulation.queue.setWeight('middle', 5);
    simulation.queue.setWeight('small', 0.1);
    for (const tenant of ['large', 'middle', 'small']) simulation.addMany(tenant, 100, hang);
    simulation.runFor(1);
    const held = (tenant: string) => simulation.running.filter((run) => run.job.tenant === tenant).length;
    expect([held('large'), held('middle'), held('small')]).toEqual([5, 2, 1]);
  });

  it('leaves the others at their normal latency', () => {
    const longestWait = (withHung: boolean) => {
      let longest = 0;
      const simulation = new Simulation({
        maxConcurrent: 8,
        observer: {
          taken: (job, waitMs) => (longest = job.tenant === 'hung' ? longest : Math.max(longest, waitMs)),
        },
      });
      for (const tenant of ['hung', 'b', 'c', 'd']) simulation.queue.setWeight(tenant, 1);
      if (withHung) simulation.addMany('hung', 500, hang);
      for (let turn = 0; turn < 200; turn += 1) {
        for (const tenant of ['b', 'c', 'd']) simulation.addMany(tenant, 3, 4, `turn-${turn}`);
        simulation.runFor(10);
      }
      return longest;
    };
    expect(longestWait(true)).toBeLessThanOrEqual(longestWait(false));
  });

  it('leaves a free worker for a tenant that joins while the only other one hangs', () => {
    const simulation = new Simulation({ maxConcurrent: 8 });
    simulation.addMany('hung', 100, hang);
    simulation.runFor(100);
    simulation.addMany('b', 1, 1);
    simulation.runFor(1);
    expect(simulation.finished.map((run) => run.job.tenant)).toEqual(['b']);
  });

  it('lets a share grow when another tenant is removed, even if all held workers hang', () => {
    const simulation = new Simulation({ maxConcurrent: 8 });
    simulation.queue.setWeight('b', 1);
    simulation.addMany('a', 100, hang);
    simulation.runFor(1);
    expect(simulation.running).toHaveLength(4);
    simulation.queue.removeTenant('b');
    simulation.runFor(1);
    expect(simulation.running).toHaveLength(6);
  });

  it('gives its workers back to the others as soon as its calls take long, also those that it had earned', () => {
    const simulation = new Simulation({ maxConcurrent: 4 });
    for (const tenant of ['hung', 'b', 'c', 'd']) simulation.queue.setWeight(tenant, 1);
    simulation.addMany('hung', 20, 1, 'quick');
    simulation.addMany('hung', 100, hang);
    simulation.runFor(100);
    const held = (tenant: string) => simulation.running.filter((run) => run.job.tenant === tenant).length;
    // The attack: three of four workers, as long as the others are idle.
    expect(held('hung')).toBe(3);
    for (const tenant of ['b', 'c', 'd']) simulation.addMany(tenant, 1_000, 100);
    simulation.runFor(500);
    expect(held('b') + held('c') + held('d')).toBe(1);
    simulation.runFor(600);
    expect([held('b'), held('c'), held('d'), held('hung')]).toEqual([1, 1, 1, 3]);
  });

  it('gets no more than its share from then on, until its calls have ended', () => {
    const simulation = new Simulation({ maxConcurrent: 8 });
    for (const tenant of ['hung', 'b', 'c', 'd']) simulation.queue.setWeight(tenant, 1);
    simulation.addMany('hung', 20, 1, 'quick');
    simulation.addMany('hung', 1_000, 30_000);
    simulation.runFor(120_000);
    const most = simulation.started
      .filter(({ startedAt }) => startedAt > 31_000)
      .map(
        (run) =>
          simulation.started.filter((other) => other.job.tenant === 'hung' && overlaps(run, other)).length,
      );
    expect(Math.max(...most)).toBe(2);
  });

  it('takes no worker from others, however many tenants hang', () => {
    const simulation = new Simulation({ maxConcurrent: 4 });
    simulation.queue.setWeight('well', 1);
    for (let i = 0; i < 50; i += 1) simulation.addMany(`hung-${i}`, 10, hang);
    simulation.runFor(20_000);
    // Each with one call, and none with a second.
    expect(simulation.running).toHaveLength(50);
    expect(new Set(simulation.running.map((run) => run.job.tenant)).size).toBe(50);
    simulation.addMany('well', 100, 10);
    simulation.runFor(1_000);
    expect(simulation.finished.filter((run) => run.job.tenant === 'well')).toHaveLength(100);
  });

  it('leaves what hangs where it is: it is not handed out twice, and ends like any other', () => {
    const { clock, queue } = queueOf(1);
    const item = { tenant: 'a', id: 'x' };
    queue.add(item);
    expect(queue.take()).toEqual(item);
    queue.add({ tenant: 'b', id: 'y' });
    expect(queue.take()).toBeUndefined();
    expect(queue.nextDueAt()).toBe(clock.monotonic() + 1_000);
    clock.advance(1_000);
    queue.add(item);
    expect(queue.take()).toEqual({ tenant: 'b', id: 'y' });
    expect(queue.take()).toBeUndefined();
    queue.done(item);
    queue.done({ tenant: 'b', id: 'y' });
    expect(queue.take()).toEqual(item);
    queue.done(item);
    expect(queue.depth()).toBe(0);
  });

  it('lets a share shrink as soon as another tenant turns up', () => {
    const { queue } = queueOf(8);
    for (let i = 0; i < 10; i += 1) queue.add({ tenant: 'a', id: `item-${i}` });
    for (let i = 0; i < 4; i += 1) expect(queue.take()?.tenant).toBe('a');
    queue.add({ tenant: 'b', id: 'x' });
    expect(queue.take()?.tenant).toBe('b');
    expect(queue.take()).toBeUndefined();
  });
});

describe('sync rule `equal-service-time`', () => {
  it.each([1, 2, 5, 16])(
    'gives equal service time to steady tenants of which one is 10 times as costly, with %i workers',
    (maxConcurrent) => {
      let next = 0;
      const simulation = new Simulation({ maxConcurrent }, (job: Job) => {
        next += 1;
        simulation.queue.add({ ...job, id: `steady-${next}` });
      });
      simulation.addMany('dear', 40, 10);
      simulation.addMany('cheap', 40, 1);
      simulation.runFor(5_000);
      const dear = simulation.serviceMs('dear');
      const cheap = simulation.serviceMs('cheap');
      expect(Math.abs(dear - cheap) / (dear + cheap)).toBeLessThanOrEqual(0.025);
    },
  );

  it('does so without any cap on a tenant, and with caps above the fair share', () => {
    for (const cap of [8, 6, 5]) {
      let next = 0;
      const simulation = new Simulation({ maxConcurrent: 8, shareOf: () => cap }, (job: Job) => {
        next += 1;
        simulation.queue.add({ ...job, id: `steady-${next}` });
      });
      simulation.addMany('dear', 40, 10);
      simulation.addMany('cheap', 40, 1);
      simulation.runFor(5_000);
      const dear = simulation.serviceMs('dear');
      const cheap = simulation.serviceMs('cheap');
      expect(Math.abs(dear - cheap) / (dear + cheap)).toBeLessThanOrEqual(0.025);
    }
  });

  it('charges calls while they are still under way, before anything is known of their cost', () => {
    const simulation = new Simulation({ maxConcurrent: 8, shareOf: () => 8 });
    simulation.addMany('slow', 100, 1_000);
    simulation.addMany('quick', 4_000, 1);
    simulation.runFor(900);
    expect(simulation.running.filter((run) => run.job.tenant === 'slow').length).toBeLessThanOrEqual(6);
  });
});

describe('delay', () => {
  const item = { tenant: 'a', id: 'x' };
  let clock: ManualClock;
  let queue: FairQueue<typeof item>;
  let start: number;

  beforeEach(() => {
    clock = new ManualClock();
    start = clock.monotonic();
    queue = new FairQueue({
      keyOf: (one) => one.id,
      tenantOf: (one) => one.tenant,
      clock,
      maxConcurrent: 2,
      random: () => 0,
      backoff: { baseMs: 5_000, maxMs: 60_000 },
    });
  });

  function runOnce(outcome: Outcome) {
    expect(queue.take()).toEqual(item);
    queue.done(item, outcome);
  }

  function dueInMs() {
    const dueAt = queue.nextDueAt();
    return dueAt === undefined ? undefined : dueAt - clock.monotonic();
  }

  describe('a delayed item', () => {
    it('is not taken before its time', () => {
      queue.add(item, { afterMs: 50 });
      clock.advance(49);
      expect(queue.take()).toBeUndefined();
      clock.advance(1);
      expect(queue.take()).toEqual(item);
    });

    it('keeps the earlier of two times', () => {
      queue.add(item, { afterMs: 50 });
      queue.add(item, { afterMs: 80 });
      expect(dueInMs()).toBe(50);
      queue.add(item, { afterMs: 20 });
      expect(dueInMs()).toBe(20);
      queue.add(item);
      expect(dueInMs()).toBeUndefined();
      expect(queue.take()).toEqual(item);
    });

    it('runs once for an add now and an add for later', () => {
      queue.add(item);
      queue.add(item, { afterMs: 50 });
      runOnce({ action: 'done' });
      clock.advance(100);
      expect(queue.take()).toBeUndefined();
    });

    it('runs later when its run says so, or sooner when something was added meanwhile', () => {
      queue.add(item);
      runOnce({ action: 'later', afterMs: 200 });
      expect(dueInMs()).toBe(200);
      clock.advance(200);
      queue.take();
      queue.add(item, { afterMs: 30, priority: 'background' });
      queue.done(item, { action: 'later', afterMs: 200 });
      expect(dueInMs()).toBe(30);
    });
  });

  describe('an item in back-off', () => {
    function fail(add: AddOptions = {}) {
      queue.add(item, add);
      runOnce({ action: 'backoff' });
    }

    it('waits longer after each failure, and as at first after a success', () => {
      const delays: unknown[] = [];
      fail();
      for (let i = 0; i < 3; i += 1) {
        delays.push(dueInMs());
        clock.advance(dueInMs() as number);
        runOnce({ action: 'backoff' });
      }
      expect(delays).toEqual([5_000, 10_000, 20_000]);
      clock.advance(40_000);
      runOnce({ action: 'done' });
      fail();
      expect(dueInMs()).toBe(5_000);
    });

    it('runs at once when a live add comes', () => {
      fail();
      queue.add(item);
      expect(queue.take()).toEqual(item);
    });

    it('does not count failures anew because a live add came', () => {
      fail();
      fail();
      expect(dueInMs()).toBe(10_000);
    });

    it('is not hurried by a background add', () => {
      fail();
      queue.add(item, { priority: 'background' });
      expect(dueInMs()).toBe(5_000);
    });

    it('runs at once when a live add came during the run that failed', () => {
      queue.add(item);
      queue.take();
      queue.add(item);
      queue.done(item, { action: 'backoff' });
      expect(queue.take()).toEqual(item);
    });

    it('ends when the tenant is reported back', () => {
      fail();
      queue.retryNow('a');
      expect(queue.take()).toEqual(item);
    });

    it('goes with its tenant', () => {
      fail();
      queue.removeTenant('a');
      expect(dueInMs()).toBeUndefined();
      expect(queue.depth()).toBe(0);
    });
  });

  describe('an item that was refused', () => {
    function refuse(version: string) {
      runOnce({ action: 'backoff', refusedVersion: version });
    }

    it('is not released by an add with the same version, or with none', () => {
      queue.add(item, { version: '7' });
      refuse('7');
      queue.add(item, { version: '7' });
      queue.add(item);
      queue.retryNow('a');
      expect(dueInMs()).toBe(5_000);
    });

    it('is released at once by another version', () => {
      queue.add(item, { version: '7' });
      refuse('7');
      queue.add(item, { version: '8' });
      expect(queue.take()).toEqual(item);
    });

    it('is released at once by an add that goes first, whatever its version', () => {
      queue.add(item, { version: '7' });
      refuse('7');
      queue.add(item, { first: true });
      expect(queue.take()).toEqual(item);
      queue.add(item, { first: true });
      queue.done(item, { action: 'backoff', refusedVersion: '7' });
      expect(dueInMs()).toBe(1_000);
    });

    it('is released at most once a second, however many versions come', () => {
      queue.add(item, { version: '0' });
      const runs: number[] = [];
      let version = 0;
      for (let step = 0; step < 300; step += 1) {
        if (queue.take() !== undefined) {
          runs.push(clock.monotonic() - start);
          queue.done(item, { action: 'backoff', refusedVersion: String(version) });
        }
        clock.advance(10);
        version += 1;
        queue.add(item, { version: String(version) });
        queue.add(item);
      }
      expect(runs).toEqual([0, 10, 1_010, 2_010]);
    });

    it('is released by another version that came during the run', () => {
      queue.add(item, { version: '7' });
      queue.take();
      queue.add(item, { version: '8' });
      queue.add(item);
      queue.done(item, { action: 'backoff', refusedVersion: '7' });
      expect(queue.take()).toEqual(item);
    });

    it('stays refused when only its own echo came during the run', () => {
      queue.add(item, { version: '7' });
      queue.take();
      queue.add(item);
      queue.done(item, { action: 'backoff', refusedVersion: '7' });
      expect(dueInMs()).toBe(5_000);
    });

    it('runs when its back-off is over', () => {
      queue.add(item, { version: '7' });
      refuse('7');
      clock.advance(5_000);
      expect(queue.take()).toEqual(item);
    });
  });

  it('an item is known while it is ready, in process or delayed, and not after that', () => {
    expect(queue.has(item)).toBe(false);
    queue.add(item);
    expect(queue.has(item)).toBe(true);
    queue.take();
    expect(queue.has(item)).toBe(true);
    queue.done(item, { action: 'later', afterMs: 1_000 });
    expect(queue.has(item)).toBe(true);
    clock.advance(1_000);
    queue.take();
    queue.done(item);
    expect(queue.has(item)).toBe(false);
  });
});

describe('the delay after a failure', () => {
  const item = { tenant: 'a', id: 'x' };
  const delays = (failures: number, random: number, backoff = { baseMs: 100, maxMs: 1_000 }): number[] => {
    const clock = new ManualClock();
    const queue = new FairQueue<typeof item>({
      keyOf: ({ id }) => id,
      tenantOf: ({ tenant }) => tenant,
      ...{ clock, maxConcurrent: 1, random: () => random, backoff },
    });
    queue.add(item);
    return Array.from({ length: failures }, () => {
      queue.take();
      queue.done(item, { action: 'backoff' });
      const delay = (queue.nextDueAt() ?? Number.NaN) - clock.monotonic();
      clock.advance(delay);
      return delay;
    });
  };

  it('doubles with each one, up to the maximum', () => {
    const [first, second, third, fourth, ...others] = delays(2_000, 0);
    expect([first, second, third, fourth]).toEqual([100, 200, 400, 800]);
    expect(new Set(others)).toEqual(new Set([1_000]));
  });

  it('is spread over the second half', () => {
    expect(delays(2, 0.5)).toEqual([75, 150]);
  });

  it('is refused where it makes no sense, and named', () => {
    expect(() => delays(0, 0, { baseMs: 0, maxMs: 10 })).toThrow('backoff.baseMs');
    expect(() => delays(0, 0, { baseMs: 20, maxMs: 10 })).toThrow('below');
  });
});
