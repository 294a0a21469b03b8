import { describe, expect, it, vi } from 'vitest';
import { Connection, KubeClient, Reflector, resources, Store } from '../kube/index.ts';
import { FakeClock, startFakeCluster } from '../kube/testing/index.ts';
import { type ReadTime, SharedReadTime } from './read-time.ts';

const signal = new AbortController().signal;

/** Reads as fast as it may, in pieces of some milliseconds, until so much time has passed. Returns how long it worked. */
async function readFor(
  clock: FakeClock,
  time: ReadTime,
  { pieceMs, untilMs }: { pieceMs: number; untilMs: number },
): Promise<number> {
  let workedMs = 0;
  while (clock.monotonic() < untilMs) {
    await time.turn(signal);
    await clock.advance(pieceMs);
    time.worked(pieceMs);
    workedMs += pieceMs;
  }
  return workedMs;
}

describe('reading from a tenant', () => {
  it('takes half of the thread, however long it goes on', async () => {
    const clock = new FakeClock({ autoAdvance: true });
    const workedMs = await readFor(clock, new SharedReadTime(clock).tenant().lists, {
      pieceMs: 5,
      untilMs: 20_000,
    });
    expect(workedMs / 20_000).toBeGreaterThan(0.45);
    expect(workedMs / 20_000).toBeLessThan(0.6);
  });

  it('goes on at once after a burst such as honest ones are', async () => {
    const clock = new FakeClock();
    const time = new SharedReadTime(clock).tenant().lists;
    for (let event = 0; event < 2_000; event++) {
      expect(time.turn(signal)).toBeUndefined();
      time.worked(0.04);
    }
    await clock.advance(1_000);
    for (let event = 0; event < 2_000; event++) {
      expect(time.turn(signal)).toBeUndefined();
      time.worked(0.04);
    }
  });

  it('takes half of the thread for all tenants together', async () => {
    const clock = new FakeClock({ autoAdvance: true });
    const shared = new SharedReadTime(clock);
    const worked = await Promise.all(
      Array.from({ length: 5 }, () => readFor(clock, shared.tenant().lists, { pieceMs: 5, untilMs: 60_000 })),
    );
    const total = worked.reduce((sum, ms) => sum + ms, 0);
    expect(total / 60_000).toBeGreaterThan(0.4);
    expect(total / 60_000).toBeLessThan(0.6);
    expect(Math.max(...worked) / Math.min(...worked)).toBeLessThan(1.5);
  });

  it('counts a tenant once, of whose lists and other answers both take more than what is free', async () => {
    const clock = new FakeClock();
    const shared = new SharedReadTime(clock);
    const [one, other] = [shared.tenant(), shared.tenant()];
    for (const time of [one.lists, one.answers]) {
      time.worked(1_000);
      void time.turn(signal);
    }
    await clock.advance(0);
    other.lists.worked(200);
    let isDone = false;
    void other.lists.turn(signal)?.then(() => (isDone = true));
    await clock.advance(290);
    expect(isDone).toBe(false);
    await clock.advance(10);
    expect(isDone).toBe(true);
  });

  it('is still owed when the one that rested is aborted', async () => {
    const clock = new FakeClock();
    const { lists } = new SharedReadTime(clock).tenant();
    lists.worked(1_000);
    const cut = new AbortController();
    const first = lists.turn(cut.signal);
    await clock.advance(100);
    cut.abort(new Error('cut'));
    await expect(first).rejects.toThrow('cut');
    let isDone = false;
    void lists.turn(signal)?.then(() => (isDone = true));
    await clock.advance(400);
    expect(isDone).toBe(false);
    await clock.advance(1_000);
    expect(isDone).toBe(true);
  });

  it('is no longer than the longest rest altogether where it is cut short', async () => {
    const clock = new FakeClock();
    const { lists } = new SharedReadTime(clock).tenant();
    lists.worked(60_000);
    const cut = new AbortController();
    const first = lists.turn(cut.signal);
    await clock.advance(4_000);
    cut.abort(new Error('cut'));
    await expect(first).rejects.toThrow('cut');
    let isDone = false;
    void lists.turn(signal)?.then(() => (isDone = true));
    await clock.advance(5_999);
    expect(isDone).toBe(false);
    await clock.advance(1);
    expect(isDone).toBe(true);
  });

  it('is done for one watch after the other, each after the rest that the one before has earned', async () => {
    const clock = new FakeClock();
    const time = new SharedReadTime(clock).tenant().lists;
    time.worked(2_000);
    const done: string[] = [];
    for (const name of ['pods', 'nodes'])
      void time.turn(signal)?.then(() => {
        done.push(name);
        time.worked(1_000);
      });
    await clock.advance(1_800);
    expect(done).toEqual([]);
    await clock.advance(200);
    expect(done).toEqual(['pods']);
    await clock.advance(800);
    expect(done).toEqual(['pods']);
    await clock.advance(200);
    expect(done).toEqual(['pods', 'nodes']);
  });

  it('ends its rest when the watch ends', async () => {
    const clock = new FakeClock();
    const time = new SharedReadTime(clock).tenant().lists;
    time.worked(2_000);
    const ending = new AbortController();
    const turn = time.turn(ending.signal);
    ending.abort(new Error('ended'));
    await expect(turn).rejects.toThrow('ended');
  });
});

it('ends at once for a watch that waits behind the turns of others', async () => {
  const clock = new FakeClock();
  const time = new SharedReadTime(clock).tenant().lists;
  time.worked(2_000);
  const first = time.turn(signal);
  const ending = new AbortController();
  const second = time.turn(ending.signal);
  ending.abort(new Error('ended'));
  await expect(second).rejects.toThrow('ended');
  await clock.advance(10_000);
  await first;
});

it('waits for its turn before each piece and each event of a watch, and counts what the event costs', async () => {
  await using cluster = await startFakeCluster();
  const turns: (() => void)[] = [];
  let isOver = false;
  let workedMs = 0;
  const connection = new Connection({
    server: cluster.server.url,
    meter: {
      worked: (ms) => {
        workedMs += ms;
      },
      turn: () => (isOver ? new Promise((resolve) => turns.push(resolve)) : undefined),
    },
  });
  const store = new Store();
  const reflector = new Reflector({
    client: new KubeClient(connection),
    resource: resources.configMaps,
    store,
    streamedStart: true,
    onProblem: () => undefined,
  });
  const ending = new AbortController();
  const running = reflector.run(ending.signal);
  await reflector.synced();
  expect(workedMs).toBeGreaterThan(0);
  isOver = true;
  const before = workedMs;
  const oneTurn = async (): Promise<void> => {
    await expect.poll(() => turns.length).toBe(1);
    expect(store.size).toBe(shown);
    turns.shift()?.();
  };
  let shown = 0;
  for (const name of ['a', 'b']) {
    cluster.server.put(resources.configMaps, { metadata: { name, namespace: 'ns' } });
    await oneTurn();
    await oneTurn();
    shown += 1;
    await expect.poll(() => store.size).toBe(shown);
  }
  expect(workedMs).toBeGreaterThan(before);
  ending.abort();
  await running;
  await connection.close();
});

it('puts a list into the store in slices of time', async () => {
  await using cluster = await startFakeCluster();
  const names = Array.from({ length: 200 }, (_, n) => `c${n}`);
  for (const name of names) cluster.server.put(resources.configMaps, { metadata: { name, namespace: 'ns' } });
  const connection = new Connection({
    server: cluster.server.url,
    meter: { worked: () => undefined, turn: () => undefined },
  });
  const store = new Store();
  /** Turns of the event loop in which something was put into the store. */
  let turns = 0;
  let isCounted = false;
  let nowMs = 0;
  using _now = vi.spyOn(performance, 'now').mockImplementation(() => nowMs);
  store.subscribe(() => {
    if (!isCounted) {
      turns += 1;
      setImmediate(() => {
        isCounted = false;
      });
    }
    isCounted = true;
    nowMs += 0.5;
  });
  const reflector = new Reflector({
    client: new KubeClient(connection),
    resource: resources.configMaps,
    store,
    onProblem: () => undefined,
  });
  const ending = new AbortController();
  const running = reflector.run(ending.signal);
  await reflector.synced();
  expect(store.size).toBe(200);
  // The time is looked at after each 32 objects.
  expect(turns).toBe(Math.ceil(200 / 32));
  ending.abort();
  await running;
  await connection.close();
});
