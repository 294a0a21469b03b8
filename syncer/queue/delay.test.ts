import { beforeEach, describe, expect, it } from 'vitest';
import { FairQueue } from './fair-queue.ts';
import type { AddOptions, Outcome } from './options.ts';
import { ManualClock } from './testing/manual-clock.ts';

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

  it('ends when the tenant is told to be back', () => {
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
