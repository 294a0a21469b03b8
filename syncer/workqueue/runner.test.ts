import { setImmediate } from 'node:timers/promises';
import { beforeEach, describe, expect, it } from 'vitest';
import { FairQueue } from './fair-queue.ts';
import type { FairQueueOptions, Outcome } from './options.ts';
import { QueueRunner } from './runner.ts';
import { ManualClock } from './testing/manual-clock.ts';

interface Item {
  tenant: string;
  id: string;
}
const x: Item = { tenant: 'a', id: 'x' };
const y: Item = { tenant: 'a', id: 'y' };

let clock: ManualClock;
let queue: FairQueue<Item>;
let stop: AbortController;

beforeEach(() => {
  clock = new ManualClock();
  stop = new AbortController();
  queue = makeQueue();
});

function makeQueue(options: Partial<FairQueueOptions<Item>> = {}): FairQueue<Item> {
  return new FairQueue<Item>({
    keyOf: (item) => item.id,
    tenantOf: (item) => item.tenant,
    clock,
    maxConcurrent: 4,
    random: () => 0,
    ...options,
  });
}

describe('whether an item is in the queue', () => {
  it('depends on when it is due', () => {
    expect(queue.has(x)).toBe(false);
    queue.add(x, { afterMs: 1_000 });
    expect(queue.has(x)).toBe(true);
    expect(queue.has(x, 1_000)).toBe(true);
    expect(queue.has(x, 999)).toBe(false);
    queue.add(x);
    expect(queue.has(x, 0)).toBe(true);
    expect(queue.take()).toBe(x);
    expect(queue.has(x, 0)).toBe(true);
    queue.done(x);
    expect(queue.has(x)).toBe(false);
  });
});

/** A runner whose runs end when the test says so. */
function startRunner() {
  const calls: {
    item: Item;
    signal: AbortSignal;
    end: (outcome: Outcome) => void;
    fail: (e: Error) => void;
  }[] = [];
  const errors: unknown[] = [];
  const runner = new QueueRunner<Item>({
    queue,
    clock,
    process: (item, signal) =>
      new Promise((resolve, reject) => {
        calls.push({ item, signal, end: resolve, fail: reject });
      }),
    onError: (error, item) => errors.push([item.id, error]),
  });
  return { runner, calls, errors, running: runner.run(stop.signal) };
}

/** Lets everything run that does not wait for the clock or the test. */
async function settle() {
  for (let i = 0; i < 5; i += 1) await setImmediate();
}

describe('QueueRunner', () => {
  it('runs what was added before and what is added later, as many at once as the queue allows', async () => {
    queue = makeQueue({ shareOf: () => 4 });
    queue.add(x);
    const { calls, running } = startRunner();
    queue.add(y);
    for (let i = 0; i < 5; i += 1) queue.add({ tenant: 'b', id: `${i}` });
    await settle();
    expect(calls).toHaveLength(4);
    calls[0]?.end({ action: 'done' });
    await settle();
    expect(calls).toHaveLength(5);
    stop.abort();
    for (const call of calls) call.end({ action: 'done' });
    await running;
  });

  it('charges a run with the time it took', async () => {
    const served: number[] = [];
    queue = new FairQueue<Item>({
      keyOf: (item) => item.id,
      tenantOf: (item) => item.tenant,
      clock,
      maxConcurrent: 1,
      observer: { done: (_, serviceMs) => served.push(serviceMs) },
    });
    const { calls, running } = startRunner();
    queue.add(x);
    await settle();
    clock.advance(42);
    calls[0]?.end({ action: 'done' });
    await settle();
    expect(served).toEqual([42]);
    stop.abort();
    await running;
  });

  it('wakes up for delayed items, and again when an earlier one is added', async () => {
    const { calls, running } = startRunner();
    queue.add(x, { afterMs: 1_000 });
    await settle();
    queue.add(y, { afterMs: 100 });
    await settle();
    expect(clock.sleepers).toBe(1);
    clock.advance(100);
    await settle();
    expect(calls.map((call) => call.item.id)).toEqual(['y']);
    clock.advance(900);
    await settle();
    expect(calls.map((call) => call.item.id)).toEqual(['y', 'x']);
    stop.abort();
    for (const call of calls) call.end({ action: 'done' });
    await running;
  });

  it('leaves its alarm when the first item is due later or goes, and wakes up for the later one all the same', async () => {
    let sleeps = 0;
    const { sleep } = clock;
    clock.sleep = (ms, signal) => {
      sleeps += 1;
      return sleep.call(clock, ms, signal);
    };
    const { calls, running } = startRunner();
    queue.add(x, { afterMs: 100 });
    queue.add(y, { afterMs: 1_000 });
    await settle();
    queue.add(x);
    await settle();
    calls[0]?.end({ action: 'done' });
    await settle();
    expect(sleeps).toBe(1);
    clock.advance(100);
    await settle();
    expect([sleeps, clock.sleepers, calls.length]).toEqual([2, 1, 1]);
    clock.advance(900);
    await settle();
    expect(calls.map((call) => call.item.id)).toEqual(['x', 'y']);
    stop.abort();
    for (const call of calls) call.end({ action: 'done' });
    await running;
  });

  it('puts an item whose run is rejected into back-off, and reports the error', async () => {
    const { calls, errors, running } = startRunner();
    queue.add(x);
    await settle();
    const error = new Error('no answer');
    calls[0]?.fail(error);
    await settle();
    expect(errors).toEqual([['x', error]]);
    expect(queue.depths()).toMatchObject([{ delayed: 1, processing: 0 }]);
    clock.advance(100);
    await settle();
    expect(calls).toHaveLength(2);
    stop.abort();
    calls[1]?.end({ action: 'done' });
    await running;
  });

  it('treats a process that throws at once like one that is rejected', async () => {
    const errors: unknown[] = [];
    const runner = new QueueRunner<Item>({
      queue,
      clock,
      process: () => {
        throw new Error('broken');
      },
      onError: (error) => errors.push(error),
    });
    const running = runner.run(stop.signal);
    queue.add(x);
    await settle();
    expect(errors).toHaveLength(1);
    stop.abort();
    await running;
  });

  it('when aborted, takes nothing more, passes the abort on, waits for runs to end and leaves no timer', async () => {
    const { calls, running } = startRunner();
    queue.add(x);
    queue.add(y, { afterMs: 500 });
    await settle();
    stop.abort();
    expect(calls[0]?.signal.aborted).toBe(true);
    queue.add({ tenant: 'b', id: 'late' });
    await settle();
    expect(calls).toHaveLength(1);
    expect(clock.sleepers).toBe(0);
    let ended = false;
    void running.then(() => {
      ended = true;
    });
    await settle();
    expect(ended).toBe(false);
    calls[0]?.end({ action: 'done' });
    await running;
    expect(queue.depths()).toMatchObject([
      { tenant: 'a', delayed: 1, processing: 0 },
      { tenant: 'b', live: 1 },
    ]);
  });

  it('can be run again after it was aborted, but not twice at once', async () => {
    const { runner, calls, running } = startRunner();
    await expect(runner.run(stop.signal)).rejects.toMatchObject({ code: 'AlreadyRunning' });
    stop.abort();
    await running;
    queue.add(x);
    const again = new AbortController();
    const secondRun = runner.run(again.signal);
    await settle();
    expect(calls).toHaveLength(1);
    calls[0]?.end({ action: 'done' });
    again.abort();
    await secondRun;
  });

  it('returns at once when its signal was aborted before', async () => {
    stop.abort();
    const { calls, running } = startRunner();
    queue.add(x);
    await running;
    expect(calls).toHaveLength(0);
  });

  it('lets I/O have its turn while many items need no waiting', async () => {
    let processed = 0;
    const runner = new QueueRunner<Item>({
      queue,
      clock,
      process: async () => {
        processed += 1;
        clock.advance(1);
        return { action: 'done' };
      },
      onError: (error) => {
        throw error;
      },
    });
    for (let i = 0; i < 1_000; i += 1) queue.add({ tenant: 'a', id: `${i}` });
    const running = runner.run(stop.signal);
    await setImmediate();
    await setImmediate();
    expect(processed).toBeGreaterThan(0);
    expect(processed).toBeLessThan(1_000);
    stop.abort();
    await running;
  });
});
