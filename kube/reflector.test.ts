import { describe, expect, it } from 'vitest';
import { KubeClient } from './client.ts';
import { Connection } from './connection.ts';
import { Reflector, type ReflectorOptions, type ReflectorProblem } from './reflector.ts';
import { resources } from './resources.ts';
import { Store, type StoreEvent } from './store.ts';
import { createTestCertificates, FakeClock, type FakeCluster, startFakeCluster } from './testing/index.ts';
import type { KubeObject } from './types.ts';

interface Running extends AsyncDisposable {
  store: Store;
  reflector: Reflector;
  clock: FakeClock;
  events: string[];
  problems: ReflectorProblem[];
  versions: [string, string][];
  /** Ends it, and fails when it had ended before. */
  stop(): Promise<void>;
}

function reflect(cluster: FakeCluster, options: Partial<ReflectorOptions<KubeObject>> = {}): Running {
  const store = new Store();
  const clock = new FakeClock({ autoAdvance: true });
  const events: string[] = [];
  const problems: ReflectorProblem[] = [];
  const versions: [string, string][] = [];
  store.subscribe(({ type, object, watched }: StoreEvent) => {
    events.push(`${type} ${object.metadata.name}${watched ? '' : ' by list'}`);
  });
  const reflector = new Reflector({
    client: cluster.client,
    resource: resources.configMaps,
    store,
    clock,
    random: () => 0,
    onProblem: (problem) => problems.push(problem),
    onResourceVersion: (version, source) => versions.push([source, version]),
    ...options,
  });
  const controller = new AbortController();
  let ended = false;
  const run = reflector.run(controller.signal).finally(() => {
    ended = true;
  });
  const stop = async (): Promise<void> => {
    expect(ended).toBe(false);
    controller.abort();
    await run;
  };
  return {
    store,
    reflector,
    clock,
    events,
    problems,
    versions,
    stop,
    [Symbol.asyncDispose]: async () => (ended ? undefined : stop()),
  };
}

function put({ server }: FakeCluster, name: string): void {
  server.put(resources.configMaps, {
    metadata: { name, namespace: 'ns' },
    data: { at: server.resourceVersion },
  });
}

function remove({ server }: FakeCluster, name: string): void {
  server.remove(resources.configMaps, { namespace: 'ns', name });
}

/** Resolves when the store has what the server has. */
async function settled({ server }: FakeCluster, store: Store): Promise<void> {
  const versions = (objects: Iterable<KubeObject>): string =>
    JSON.stringify([...objects].map(({ metadata }) => `${metadata.uid} ${metadata.resourceVersion}`).sort());
  while (versions(store.list()) !== versions(server.list(resources.configMaps))) {
    await new Promise<void>((resolve) => {
      const stop = store.subscribe(() => {
        stop();
        resolve();
      });
    });
  }
}

async function watching({ server }: FakeCluster): Promise<void> {
  await server.until(() => server.watches().length === 1);
}

function count({ server }: FakeCluster, verb: string): number {
  return server.requests.filter((request) => request.verb === verb).length;
}

describe('Reflector', () => {
  it('lists, then follows the watch', async () => {
    await using cluster = await startFakeCluster();
    put(cluster, 'a');
    await using running = reflect(cluster);
    const { reflector, store, events } = running;
    expect(reflector.hasSynced).toBe(false);
    await reflector.synced();
    expect(reflector.hasSynced).toBe(true);
    expect(store.size).toBe(1);
    put(cluster, 'b');
    remove(cluster, 'a');
    await settled(cluster, store);
    expect(events).toEqual(['added a by list', 'added b', 'deleted a']);
    expect(cluster.server.requests[0]?.query.get('resourceVersion')).toBe('0');
    expect(running.problems).toEqual([]);
  });

  it('asks for pages of the most recent state from the start when told to', async () => {
    await using cluster = await startFakeCluster();
    for (const name of ['a', 'b', 'c']) put(cluster, name);
    await using running = reflect(cluster, { consistentStart: true, pageSize: 2 });
    await running.reflector.synced();
    expect(running.store.size).toBe(3);
    expect(count(cluster, 'list')).toBe(2);
    expect(cluster.server.requests[0]?.query.get('resourceVersion')).toBeNull();
  });

  describe('with a streamed start', () => {
    it('takes the state as the beginning of the watch, and goes on with it', async () => {
      await using cluster = await startFakeCluster();
      put(cluster, 'a');
      put(cluster, 'b');
      const metered: string[][] = [];
      await using running = reflect(cluster, {
        streamedStart: true,
        meterList: () => ({
          page: (objects) => metered.push(objects.map(({ metadata }) => metadata.name ?? '')),
          end: () => metered.push([]),
        }),
      });
      await running.reflector.synced();
      put(cluster, 'c');
      remove(cluster, 'a');
      await settled(cluster, running.store);
      expect(running.events).toEqual(['added a by list', 'added b by list', 'added c', 'deleted a']);
      expect(cluster.server.requests.map(({ verb }) => verb)).toEqual(['watch']);
      expect(running.versions[0]?.[0]).toBe('list');
      expect(metered).toEqual([['a'], ['b'], []]);
      expect(running.problems).toEqual([]);
    });

    it('is content with a list where the server cannot do that', async () => {
      await using cluster = await startFakeCluster();
      put(cluster, 'a');
      cluster.server.inject({ verb: 'watch', fault: { kind: 'status', code: 422, reason: 'Invalid' } });
      await using running = reflect(cluster, { streamedStart: true });
      await running.reflector.synced();
      await watching(cluster);
      expect(running.events).toEqual(['added a by list']);
      expect(running.problems).toEqual([]);
      expect(cluster.server.requests.map(({ verb }) => verb)).toEqual(['watch', 'list', 'watch']);
    });

    it.each([
      ['fails', { kind: 'status', code: 500 }],
      ['ends before the state is complete', { kind: 'end' }],
      ['sends an error', { kind: 'error-event', code: 500, reason: 'InternalError' }],
    ] as const)('says so and asks for a list when it %s', async (_how, fault) => {
      await using cluster = await startFakeCluster();
      put(cluster, 'a');
      cluster.server.inject({ verb: 'watch', fault });
      await using running = reflect(cluster, { streamedStart: true });
      await running.reflector.synced();
      expect(running.store.size).toBe(1);
      expect(running.problems.map(({ phase }) => phase)).toEqual(['list']);
      expect(count(cluster, 'list')).toBe(1);
    });

    it('shows nothing of a state that is refused, or that takes too much memory', async () => {
      await using cluster = await startFakeCluster();
      put(cluster, 'a');
      let refusals = 0;
      let tooLarge = 0;
      await using running = reflect(cluster, {
        streamedStart: true,
        beforeReplace: async () => {
          if (refusals++ === 0) throw new Error('another server');
        },
      });
      await using other = reflect(cluster, {
        streamedStart: true,
        meterList: () => ({
          page: () => {
            if (tooLarge++ === 0) throw new Error('too large');
          },
          end: () => undefined,
        }),
      });
      await Promise.all([running.reflector.synced(), other.reflector.synced()]);
      expect(running.problems.map(({ phase }) => phase)).toEqual(['refused']);
      expect(other.problems.map(({ phase }) => phase)).toEqual(['list']);
      expect(running.events).toEqual(['added a by list']);
      expect(count(cluster, 'list')).toBe(2);
    });

    it('follows another selector that is set meanwhile', async () => {
      await using cluster = await startFakeCluster();
      cluster.server.put(resources.configMaps, {
        metadata: { name: 'a', namespace: 'ns', labels: { of: 'x' } },
      });
      put(cluster, 'b');
      let first = true;
      await using running = reflect(cluster, {
        streamedStart: true,
        labelSelector: 'of=y',
        beforeReplace: async () => {
          if (first) running.reflector.setLabelSelector('of=x');
          first = false;
        },
      });
      await running.reflector.synced();
      expect([...running.store.list()].map(({ metadata }) => metadata.name)).toEqual(['a']);
    });
  });

  it('keeps fields that nobody knows', async () => {
    await using cluster = await startFakeCluster();
    await using running = reflect(cluster);
    await running.reflector.synced();
    const metadata = { name: 'a', namespace: 'ns' };
    cluster.server.put(resources.configMaps, { metadata, fromTheFuture: { deep: [1] } });
    await settled(cluster, running.store);
    expect(running.store.get(metadata)).toMatchObject({ fromTheFuture: { deep: [1] } });
  });

  it('lists again when its version has expired, in an ERROR event or an answer', async () => {
    await using cluster = await startFakeCluster();
    await using running = reflect(cluster);
    await running.reflector.synced();
    await watching(cluster);
    const { server } = cluster;
    server.inject({ verb: 'watch', fault: { kind: 'status', code: 410, reason: 'Expired' } });
    server.watches()[0]?.error(410, 'Expired');
    put(cluster, 'a');
    await server.until(() => count(cluster, 'list') === 3);
    await settled(cluster, running.store);
    await watching(cluster);
    put(cluster, 'b');
    await settled(cluster, running.store);
    expect(running.events).toEqual(['added a by list', 'added b']);
    // At once for the first time, but not in a tight loop.
    expect(running.problems.map(({ retryInMs }) => retryInMs)).toEqual([0, 800]);
  });

  it('resumes where it was after the history it needs was forgotten', async () => {
    await using cluster = await startFakeCluster();
    await using running = reflect(cluster);
    await watching(cluster);
    put(cluster, 'a');
    await settled(cluster, running.store);
    cluster.server.watches()[0]?.silence();
    remove(cluster, 'a');
    put(cluster, 'b');
    cluster.server.bump();
    cluster.server.compact();
    cluster.server.watches()[0]?.end();
    await settled(cluster, running.store);
    expect(running.events).toEqual(['added a', 'deleted a by list', 'added b by list']);
  });

  it('waits as long as a busy server asks, for lists and watches', async () => {
    await using cluster = await startFakeCluster();
    const busy = { kind: 'status', code: 429, reason: 'TooManyRequests', retryAfterSeconds: 20 } as const;
    cluster.server.inject({ verb: 'list', fault: busy });
    cluster.server.inject({ verb: 'watch', fault: busy });
    await using running = reflect(cluster);
    await watching(cluster);
    expect(running.clock.sleeps).toEqual([20_000, 20_000]);
    expect(running.problems.map(({ phase }) => phase)).toEqual(['list', 'watch']);
    // The version was still good: only the check before resuming lists.
    expect(cluster.server.requests.map(({ verb }) => verb)).toEqual([
      'list',
      'list',
      'watch',
      'list',
      'watch',
    ]);
    expect(cluster.server.requests[3]?.query.get('limit')).toBe('1');
  });

  it('does not wait for an hour because a server asks for it', async () => {
    await using cluster = await startFakeCluster();
    const busy = { kind: 'status', code: 503, retryAfterSeconds: 3_600 } as const;
    cluster.server.inject({ verb: 'list', fault: busy });
    await using running = reflect(cluster);
    await running.reflector.synced();
    expect(running.clock.sleeps).toEqual([60_000]);
  });

  it('backs off from a failing server, doubling to 30 s, and comes back', async () => {
    await using cluster = await startFakeCluster();
    const fault = { kind: 'status', code: 500, reason: 'InternalError' } as const;
    cluster.server.inject({ verb: 'list', times: 8, fault });
    await using running = reflect(cluster);
    await running.reflector.synced();
    expect(running.clock.sleeps).toEqual([800, 1_600, 3_200, 6_400, 12_800, 25_600, 30_000, 30_000]);
    expect(running.problems.map(({ failures }) => failures)).toEqual([1, 2, 3, 4, 5, 6, 7, 8]);
  });

  it('goes on after connections that are refused, cut before or within an answer', async () => {
    await using cluster = await startFakeCluster();
    put(cluster, 'a');
    await cluster.server.stop();
    await using running = reflect(cluster);
    while (running.problems.length < 2) await new Promise((resolve) => setImmediate(resolve));
    cluster.server.inject({ verb: 'list', fault: { kind: 'reset' } });
    cluster.server.inject({ verb: 'list', fault: { kind: 'reset-in-body' } });
    cluster.server.inject({ verb: 'list', fault: { kind: 'half-body' } });
    await cluster.server.listen();
    await settled(cluster, running.store);
    expect(running.events).toEqual(['added a by list']);
  });

  it('resumes a watch that was cut, missing and repeating nothing', async () => {
    await using cluster = await startFakeCluster();
    await using running = reflect(cluster);
    await watching(cluster);
    put(cluster, 'a');
    await settled(cluster, running.store);
    for (const cut of ['reset', 'half line, end', 'half line, reset', 'end']) {
      const [stream] = cluster.server.watches();
      stream?.silence();
      put(cluster, `during ${cut}`);
      if (cut === 'reset') stream?.reset();
      else if (cut === 'end') stream?.end();
      else stream?.halfLine(cut.endsWith('end') ? 'end' : 'reset');
      await settled(cluster, running.store);
      await cluster.server.until(() => cluster.server.watches().some((each) => each !== stream));
    }
    expect(running.events).toEqual([
      'added a',
      'added during reset',
      'added during half line, end',
      'added during half line, reset',
      'added during end',
    ]);
    expect(running.reflector.hasSynced).toBe(true);
  });

  it.each([
    ['has more values than are read of one', { data: Array(1_000).fill(0) }],
    ['nests deeper than is read', { data: JSON.parse(`${'['.repeat(600)}${']'.repeat(600)}`) }],
  ])('goes on as soon as an object is gone that %s, though the history shows it', async (_what, content) => {
    await using cluster = await startFakeCluster();
    const connection = new Connection({ server: cluster.server.url, readLimits: { objectValues: 900 } });
    await using running = reflect(cluster, { client: new KubeClient(connection) });
    await watching(cluster);
    cluster.server.put(resources.configMaps, { metadata: { name: 'large', namespace: 'ns' }, ...content });
    put(cluster, 'b');
    await expect.poll(() => running.problems.length).toBeGreaterThan(3);
    expect(running.problems.slice(0, 3).map(({ phase }) => phase)).toEqual(['watch', 'list', 'list']);
    expect(running.clock.sleeps.slice(0, 3)).toEqual([800, 1_600, 3_200]);
    remove(cluster, 'large');
    await settled(cluster, running.store);
    expect(running.events).toEqual(['added b by list']);
    await running.stop();
    await connection.close();
  });

  it('resumes a watch that has gone silent', async () => {
    await using cluster = await startFakeCluster();
    await using running = reflect(cluster, { bodyTimeoutMs: 60 });
    await watching(cluster);
    cluster.server.watches()[0]?.silence();
    put(cluster, 'a');
    await settled(cluster, running.store);
    expect(running.events).toEqual(['added a']);
    expect(running.versions.filter(([source]) => source === 'list')).toHaveLength(1);
  });

  it('resumes from the version of the last bookmark', async () => {
    await using cluster = await startFakeCluster();
    await using running = reflect(cluster);
    await watching(cluster);
    const { server } = cluster;
    for (let i = 0; i < 10; i++) server.bump();
    server.bookmark();
    server.compact();
    const version = server.resourceVersion;
    while (running.versions.at(-1)?.[1] !== version) await new Promise((resolve) => setImmediate(resolve));
    server.watches()[0]?.reset();
    await server.until(() => count(cluster, 'watch') === 2);
    expect(server.requests.at(-1)?.query.get('resourceVersion')).toBe(version);
  });

  it('goes on over a GOAWAY', async () => {
    await using cluster = await startFakeCluster({ certificates: await createTestCertificates() });
    await using running = reflect(cluster);
    await watching(cluster);
    cluster.server.goAway();
    put(cluster, 'a');
    await settled(cluster, running.store);
    cluster.server.watches()[0]?.end();
    await cluster.server.until(() => count(cluster, 'watch') === 2);
    put(cluster, 'b');
    await settled(cluster, running.store);
    expect(running.events).toEqual(['added a', 'added b']);
  });

  it('notices a server that comes back with older data', async () => {
    await using cluster = await startFakeCluster();
    put(cluster, 'old');
    const backup = cluster.server.snapshot();
    await using running = reflect(cluster);
    await watching(cluster);
    put(cluster, 'old');
    put(cluster, 'lost');
    await settled(cluster, running.store);
    const newest = Number(running.versions.at(-1)?.[1]);
    cluster.server.restore(backup);
    await settled(cluster, running.store);
    expect(running.events.slice(3)).toEqual(['deleted lost by list', 'modified old by list']);
    const listed = running.versions.findLast(([source]) => source === 'list');
    expect(Number(listed?.[1])).toBeLessThan(newest);
    put(cluster, 'after');
    await settled(cluster, running.store);
  });

  it('does not trust equal versions of a server that came back with older data', async () => {
    await using cluster = await startFakeCluster();
    put(cluster, 'a');
    const backup = cluster.server.snapshot();
    await using running = reflect(cluster);
    await watching(cluster);
    put(cluster, 'a');
    put(cluster, 'b');
    await settled(cluster, running.store);
    cluster.server.restore(backup);
    const metadata = { name: 'a', namespace: 'ns' };
    const { resourceVersion } = cluster.server.put(resources.configMaps, {
      metadata,
      data: { other: 'history' },
    }).metadata;
    expect(running.store.get(metadata)?.metadata.resourceVersion).toBe(resourceVersion);
    await settled(cluster, running.store);
    expect(running.store.get(metadata)).toMatchObject({ data: { other: 'history' } });
  });

  it('lists without a version when the server says that it is too large', async () => {
    await using cluster = await startFakeCluster();
    const causes = [{ reason: 'ResourceVersionTooLarge' }];
    cluster.server.inject({ verb: 'list', fault: { kind: 'status', code: 504, reason: 'Timeout', causes } });
    await using running = reflect(cluster);
    await running.reflector.synced();
    expect(cluster.server.requests.map(({ query }) => query.get('resourceVersion')).slice(0, 2)).toEqual([
      '0',
      null,
    ]);
  });

  it('lists again when a watch keeps failing with its version', async () => {
    await using cluster = await startFakeCluster();
    cluster.server.inject({
      verb: 'watch',
      times: 3,
      fault: { kind: 'error-event', code: 500, reason: 'InternalError' },
    });
    await using running = reflect(cluster);
    await running.reflector.synced();
    await cluster.server.until(() => count(cluster, 'watch') === 4);
    expect(running.versions.filter(([source]) => source === 'list')).toHaveLength(2);
  });

  it('does not ask in a tight loop when watches end at once', async () => {
    await using cluster = await startFakeCluster();
    cluster.server.inject({ verb: 'watch', times: 4, fault: { kind: 'end' } });
    await using running = reflect(cluster);
    await cluster.server.until(() => count(cluster, 'watch') === 5);
    expect(running.clock.sleeps).toEqual([800, 1_600, 3_200, 6_400]);
  });

  it('resumes at once when the server ends a watch that had changes to tell', async () => {
    await using cluster = await startFakeCluster();
    await using running = reflect(cluster);
    await watching(cluster);
    put(cluster, 'a');
    cluster.server.watches()[0]?.end();
    await cluster.server.until(() => count(cluster, 'watch') === 2);
    await settled(cluster, running.store);
    expect(running.clock.sleeps).toEqual([]);
  });

  it('backs off from a server that ends each watch after one event, until one of them lasts', async () => {
    await using cluster = await startFakeCluster();
    const clock = new FakeClock();
    await using running = reflect(cluster, { clock });
    const sleeps: number[] = [];
    for (const [index, livedMs] of [0, 0, 0, 0, 10_000, 0, 0].entries()) {
      await watching(cluster);
      put(cluster, `object-${index}`);
      await settled(cluster, running.store);
      await clock.advance(livedMs);
      const before = clock.sleeps.length;
      cluster.server.watches()[0]?.end();
      await Promise.race([
        clock.untilSleeping(),
        cluster.server.until(() => count(cluster, 'watch') === index + 2),
      ]);
      const [slept] = clock.sleeps.slice(before);
      sleeps.push(slept ?? 0);
      if (slept !== undefined) await clock.advance(slept);
      await cluster.server.until(() => count(cluster, 'watch') === index + 2);
    }
    expect(sleeps).toEqual([0, 800, 1_600, 3_200, 0, 0, 800]);
  });

  it('does not take a last bookmark for a sign of life', async () => {
    await using cluster = await startFakeCluster();
    await using running = reflect(cluster);
    await watching(cluster);
    cluster.server.bump();
    cluster.server.bookmark();
    cluster.server.watches()[0]?.end();
    await cluster.server.until(() => count(cluster, 'watch') === 2);
    expect(running.clock.sleeps).toEqual([800]);
  });

  it('takes what ends a watch that was in order for a new problem', async () => {
    await using cluster = await startFakeCluster();
    const clock = new FakeClock();
    await using running = reflect(cluster, { clock });
    for (const livedMs of [0, 0, 0, 10_000]) {
      await watching(cluster);
      await clock.advance(livedMs);
      const [stream] = cluster.server.watches();
      stream?.reset();
      await clock.untilSleeping();
      await cluster.server.until(() => cluster.server.watches().length === 0);
      await clock.advance(clock.sleeps.at(-1) ?? 0);
    }
    expect(clock.sleeps).toEqual([800, 1_600, 3_200, 800]);
    expect(running.problems).toHaveLength(4);
  });

  it('leaves the store alone when a list is refused, and asks again', async () => {
    await using cluster = await startFakeCluster();
    put(cluster, 'a');
    const seen: string[] = [];
    await using running = reflect(cluster, {
      beforeReplace: async (objects, version) => {
        seen.push(`${objects.length} at ${version}`);
        if (seen.length === 2 || seen.length === 3) throw new Error('another server');
      },
    });
    await running.reflector.synced();
    remove(cluster, 'a');
    await settled(cluster, running.store);
    put(cluster, 'b');
    await settled(cluster, running.store);
    cluster.server.watches()[0]?.silence();
    remove(cluster, 'b');
    running.reflector.relist();
    await cluster.server.until(() => seen.length === 3);
    expect(running.store.size).toBe(1);
    await settled(cluster, running.store);
    expect(running.problems.map(({ phase }) => phase)).toEqual(['refused', 'refused']);
    expect(seen).toHaveLength(4);
  });

  it('lists afresh when asked: what the cache has wrong shows as unwatched, what is under way as watched', async () => {
    await using cluster = await startFakeCluster();
    put(cluster, 'a');
    await using running = reflect(cluster);
    await watching(cluster);
    cluster.server.watches()[0]?.silence();
    remove(cluster, 'a');
    put(cluster, 'b');
    const [a] = [...running.store.list()] as [KubeObject];
    running.store.apply('DELETED', a);
    running.store.apply('ADDED', { metadata: { ...a.metadata, name: 'never-there', uid: 'x' } });
    running.events.length = 0;
    running.reflector.relist();
    await settled(cluster, running.store);
    expect(running.events).toEqual([
      'deleted never-there by list',
      'added a by list',
      'deleted a',
      'added b',
    ]);
    expect(running.problems).toEqual([]);
  });

  it('lists the latest when asked for a fresh list of a version that the server has forgotten', async () => {
    await using cluster = await startFakeCluster();
    put(cluster, 'a');
    await using running = reflect(cluster);
    await watching(cluster);
    cluster.server.watches()[0]?.silence();
    remove(cluster, 'a');
    cluster.server.compact();
    running.reflector.relist();
    await settled(cluster, running.store);
    expect(running.events.at(-1)).toBe('deleted a by list');
    expect(running.problems).toEqual([]);
  });

  it('ends with its signal alone, and leaves no watch, timer or sleep behind', async () => {
    await using cluster = await startFakeCluster();
    const watchingOne = reflect(cluster);
    await watching(cluster);
    await watchingOne.stop();
    await cluster.server.until(() => cluster.server.watches().length === 0);
    cluster.server.inject({ verb: 'list', times: 1_000, fault: { kind: 'status', code: 500 } });
    const clock = new FakeClock();
    const sleeping = reflect(cluster, { clock });
    await clock.untilSleeping();
    await sleeping.stop();
    expect(clock.sleeping).toBe(0);
    cluster.server.clearFaults();
    cluster.server.inject({ verb: 'list', fault: { kind: 'hang' } });
    const requests = cluster.server.requests.length;
    const listing = reflect(cluster);
    await cluster.server.until(() => cluster.server.requests.length > requests);
    await listing.stop();
  });

  it('rejects who waits for the first list when they give up', async () => {
    await using cluster = await startFakeCluster();
    cluster.server.inject({ verb: 'list', times: 1_000, fault: { kind: 'status', code: 500 } });
    await using running = reflect(cluster, { clock: new FakeClock() });
    const reason = new Error('enough');
    await expect(running.reflector.synced(AbortSignal.abort(reason))).rejects.toBe(reason);
    const controller = new AbortController();
    const waiting = running.reflector.synced(controller.signal);
    controller.abort(reason);
    await expect(waiting).rejects.toBe(reason);
  });

  it('survives hooks that throw', async () => {
    await using cluster = await startFakeCluster();
    put(cluster, 'a');
    const thrown = { onProblem: 0, onResourceVersion: 0 };
    const boom = (hook: keyof typeof thrown): never => {
      thrown[hook] += 1;
      throw new Error('boom');
    };
    await using running = reflect(cluster, {
      onProblem: () => boom('onProblem'),
      onResourceVersion: () => {
        if (thrown.onResourceVersion < 3) boom('onResourceVersion');
      },
    });
    await settled(cluster, running.store);
    await running.reflector.synced();
    expect(thrown.onResourceVersion).toBe(3);
    expect(thrown.onProblem).toBeGreaterThan(0);
  });

  it('runs once at a time', async () => {
    await using cluster = await startFakeCluster();
    await using running = reflect(cluster);
    await expect(running.reflector.run(new AbortController().signal)).rejects.toThrow('running already');
  });

  it('serves a namespace or a selection', async () => {
    await using cluster = await startFakeCluster();
    for (const namespace of ['one', 'two']) {
      for (const name of ['a', 'b']) {
        cluster.server.put(resources.configMaps, { metadata: { name, namespace, labels: { name } } });
      }
    }
    await using running = reflect(cluster, { namespace: 'one', labelSelector: 'name=b' });
    await running.reflector.synced();
    expect(running.events).toEqual(['added b by list']);
    expect(running.store.get({ namespace: 'one', name: 'b' })).toBeDefined();
  });
});

describe('a reflector that is to follow other objects than before', () => {
  const labelled = ({ server }: FakeCluster, name: string, bucket: string): void => {
    server.put(resources.configMaps, { metadata: { name, namespace: 'ns', labels: { bucket } } });
  };

  /** Resolves when the store holds these and no others. */
  const holding = (store: Store, names: readonly string[]): Promise<void> =>
    new Promise((resolve) => {
      const look = (): void => {
        if ([...store.list()].map(({ metadata }) => metadata.name).join() === names.join()) resolve();
      };
      store.subscribe(look);
      look();
    });

  it('lists them, lets go of the others, and goes on without a gap', async () => {
    await using cluster = await startFakeCluster();
    labelled(cluster, 'a', '1');
    labelled(cluster, 'b', '2');
    await using running = reflect(cluster, { labelSelector: 'bucket in (1)' });
    await running.reflector.synced();
    expect([...running.store.list()].map(({ metadata }) => metadata.name)).toEqual(['a']);
    running.reflector.setLabelSelector('bucket in (2)');
    expect(running.reflector.hasSynced).toBe(false);
    labelled(cluster, 'c', '2');
    await running.reflector.synced();
    await holding(running.store, ['b', 'c']);
    expect(running.events).toContain('deleted a by list');
    labelled(cluster, 'd', '2');
    labelled(cluster, 'e', '1');
    await holding(running.store, ['b', 'c', 'd']);
    expect(running.events.at(-1)).toBe('added d');
  });

  it('is not done before a list that was under way is followed by another one', async () => {
    await using cluster = await startFakeCluster();
    labelled(cluster, 'a', '1');
    labelled(cluster, 'b', '2');
    const held = Promise.withResolvers<void>();
    const reached = Promise.withResolvers<void>();
    await using running = reflect(cluster, {
      labelSelector: 'bucket in (1)',
      beforeReplace: async () => {
        reached.resolve();
        await held.promise;
      },
    });
    await reached.promise;
    running.reflector.setLabelSelector('bucket in (2)');
    held.resolve();
    await running.reflector.synced();
    expect([...running.store.list()].map(({ metadata }) => metadata.name)).toEqual(['b']);
    // What was chosen before never got into the store.
    expect(running.events).toEqual(['added b by list']);
  });
});
