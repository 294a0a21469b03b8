import { describe, expect, it } from 'vitest';
import { annotationKeys, labelKeys } from '../../api/labels.ts';
import type { VirtualCluster, VirtualClusterPhase } from '../../api/virtual-cluster.ts';
import { ApiError, type KubeObject, type ObjectRef, resources } from '../../kube/index.ts';
import { FakeClock } from '../../kube/testing/index.ts';
import { tokenWatch } from '../controllers/pod-tokens.ts';
import { allKinds } from '../kinds/registry.ts';
import { Caches } from '../reconcile/caches.ts';
import { WakeOnExpiry, WakeOnLoss } from './sleeping-tenants.ts';

const start = Date.UTC(2030, 0, 1);
const at = (ms: number): string => new Date(start + ms).toISOString();

interface PodState {
  name?: string;
  phase?: string;
  tenant?: string;
  startedMs?: number;
  isDeleting?: boolean;
}

const podOf = ({
  name = 'web',
  phase = 'Running',
  tenant = 'a',
  startedMs = -60_000,
  isDeleting,
}: PodState): KubeObject => ({
  metadata: {
    ...{ namespace: tenant, name, uid: `${tenant}-${name}`, labels: { [labelKeys.tenant]: `uid-${tenant}` } },
    ...(isDeleting === true && { deletionTimestamp: at(0) }),
  },
  status: { phase, startTime: at(startedMs) },
});

/** The tenant `a`, which fell asleep at the start with so many pods that were running. */
function withPods({ pods, phase = 'Asleep' }: { pods?: number; phase?: VirtualClusterPhase } = {}) {
  const clock = new FakeClock({ now: start });
  const superCaches = new Caches(allKinds, 'super');
  const store = superCaches.store(resources.pods);
  const asked: { name: string | undefined; at: string | undefined }[] = [];
  const errors: unknown[] = [];
  const state = { phase, since: at(0), isServed: true, isRefusing: false };
  const sleepers = (): VirtualCluster[] => {
    if (state.phase !== 'Asleep' || !state.isServed) return [];
    const sleep = { since: state.since, ...(pods !== undefined && { pods }) };
    return [
      { metadata: { name: 'a', uid: 'uid-a' }, status: { phase, id: 'abcdefgh', sleep } } as VirtualCluster,
    ];
  };
  const wakes = new WakeOnLoss({
    superClient: {
      patch: async (_resource, { name }) => {
        if (state.isRefusing) throw new ApiError(503, undefined, 'busy');
        throw new ApiError(404, undefined, `no lease ${name}`);
      },
      create: async (_resource, object) => {
        const { name, annotations } = object.metadata;
        expect(annotations?.[annotationKeys.wakeReason]).toBe('PodLost');
        asked.push({ name, at: annotations?.[annotationKeys.wakeRequested] });
        return object;
      },
    },
    systemNamespace: 'skerry-system',
    superCaches,
    sleepers,
    isSleeper: (uid) => sleepers().some(({ metadata }) => metadata.uid === uid),
    clock,
    onError: (_, error) => errors.push(error),
  });
  const stop = new AbortController();
  const running = { ended: Promise.resolve() };
  return {
    ...{ asked, clock, errors, state, wakes },
    put: (pod: PodState = {}) => store.apply('MODIFIED', podOf(pod)),
    remove: (pod: PodState = {}) => store.apply('DELETED', podOf(pod)),
    run: async () => {
      running.ended = wakes.run(stop.signal);
      await clock.advance(0);
    },
    async [Symbol.asyncDispose]() {
      stop.abort(new Error('test is over'));
      await running.ended;
    },
  };
}

type World = ReturnType<typeof withPods>;

describe('a tenant that is asleep, by its pods', () => {
  it.each([
    ['is deleted', ({ remove }: World) => remove()],
    ['is told to end', ({ put }: World) => put({ isDeleting: true })],
    ['has failed', ({ put }: World) => put({ phase: 'Failed' })],
    ['has finished', ({ put }: World) => put({ phase: 'Succeeded' })],
  ])('is woken when a pod of it %s, once for many, and again until it is awake', async (_, lose) => {
    await using world = withPods();
    const { asked, clock, put, remove, run, state } = world;
    put();
    put({ name: 'other' });
    await run();
    expect(asked).toEqual([]);
    lose(world);
    remove({ name: 'other' });
    await clock.advance(0);
    expect(asked).toEqual([{ name: 'tenant-abcdefgh-activity', at: at(0) }]);
    await clock.advance(10_000);
    expect(asked).toHaveLength(2);
    state.phase = 'Ready';
    await clock.advance(60_000);
    expect(asked).toHaveLength(2);
  });

  it('is asked for again when the super cluster has refused the first time', async () => {
    await using world = withPods();
    const { asked, clock, errors, put, remove, run, state } = world;
    put();
    await run();
    state.isRefusing = true;
    remove();
    await clock.advance(0);
    expect(errors).toHaveLength(1);
    state.isRefusing = false;
    await clock.advance(10_000);
    expect(asked).toHaveLength(1);
  });

  it.each([
    ['is gone', ({ put }: World) => put({ name: 'other' })],
    [
      'has ended',
      ({ put }: World) => {
        put({ name: 'other' });
        put({ phase: 'Failed' });
      },
    ],
    [
      'has another one in its place',
      ({ put }: World) => {
        put({ name: 'other' });
        put({ startedMs: 60_000 });
      },
    ],
  ])(
    'is woken when a pod of it %s that was running as it fell asleep, unseen by any syncer',
    async (_, arrange) => {
      await using world = withPods({ pods: 2 });
      arrange(world);
      await world.run();
      expect(world.asked).toHaveLength(1);
    },
  );

  it('sleeps on while all that were running run, and more, and what had ended before', async () => {
    await using world = withPods({ pods: 2 });
    const { asked, clock, put, run } = world;
    put();
    put({ name: 'other', phase: 'Pending' });
    put({ name: 'late', startedMs: 60_000 });
    put({ name: 'done', phase: 'Succeeded' });
    put({ name: 'failed', phase: 'Failed' });
    await run();
    put({ name: 'other' });
    put({ name: 'failed', phase: 'Failed', isDeleting: true });
    await clock.advance(60 * 60_000);
    expect(asked).toEqual([]);
  });

  it('sleeps on when pods of others go, and when it is not known how many it had', async () => {
    await using world = withPods();
    const { asked, clock, put, remove, run } = world;
    put({ tenant: 'b' });
    await run();
    remove({ tenant: 'b' });
    await clock.advance(60_000);
    expect(asked).toEqual([]);
  });

  it('is looked at when this replica comes to serve it, and is not when the cache lets go of it', async () => {
    await using world = withPods({ pods: 1 });
    const { asked, clock, put, remove, run, state, wakes } = world;
    put();
    await run();
    state.isServed = false;
    wakes.gateChanged();
    remove();
    await clock.advance(60_000);
    expect(asked).toEqual([]);
    state.isServed = true;
    wakes.gateChanged();
    await clock.advance(0);
    expect(asked).toHaveLength(1);
  });

  it('is looked at anew each time that it falls asleep', async () => {
    await using world = withPods({ pods: 1 });
    const { asked, clock, put, run, state, wakes } = world;
    await run();
    expect(asked).toHaveLength(1);
    put({ startedMs: 1_000 });
    state.since = at(5_000);
    wakes.sleepersChanged();
    await clock.advance(60_000);
    expect(asked).toHaveLength(1);
  });

  it('is not asked for when it is awake', async () => {
    await using world = withPods({ pods: 1, phase: 'Ready' });
    const { asked, clock, put, remove, run } = world;
    put();
    await run();
    remove();
    await clock.advance(60_000);
    expect(asked).toEqual([]);
  });
});

const minute = 60_000;
const hour = 60 * minute;

interface Token {
  pod?: string;
  phase?: string;
  renewInMs?: number;
  endsInMs?: number | undefined;
}

/** Tenants that are asleep, by name; each has one pod and one token but for what is put there. */
function withTokens(...names: string[]) {
  const clock = new FakeClock({ now: start });
  const superCaches = new Caches(allKinds, 'super', [tokenWatch]);
  const asked: string[] = [];
  const phases = new Map<string, VirtualClusterPhase>(names.map((name) => [name, 'Asleep']));
  const take = async (_resource: unknown, { name }: ObjectRef, change: unknown): Promise<KubeObject> => {
    const { metadata } = change as KubeObject;
    expect(metadata.annotations?.[annotationKeys.wakeRequested]).toBe(new Date(clock.now()).toISOString());
    expect(metadata.annotations?.[annotationKeys.wakeReason]).toBe('TokenExpiring');
    asked.push(name);
    return metadata as KubeObject;
  };
  const wakes = new WakeOnExpiry({
    superClient: { patch: take as never, create: () => expect.fail() },
    systemNamespace: 'skerry-system',
    superCaches,
    sleepers: () =>
      [...phases]
        .filter(([, phase]) => phase === 'Asleep')
        .map(
          ([name]) => ({ metadata: { name, uid: `uid-${name}` }, status: { id: name } }) as VirtualCluster,
        ),
    clock,
    onError: (_, error) => expect.fail(String(error)),
  });
  const put = (
    name: string,
    { pod = 'web', phase = 'Running', renewInMs = 48 * minute, endsInMs }: Token,
  ) => {
    const labels = { [labelKeys.tenant]: `uid-${name}` };
    const at = (ms: number): string => new Date(start + ms).toISOString();
    const record = {
      renewAt: at(renewInMs),
      ...(endsInMs === undefined ? {} : { expires: at(endsInMs) }),
    };
    superCaches.store(resources.pods).apply('MODIFIED', {
      metadata: { namespace: name, name: pod, labels, uid: `${name}-${pod}` },
      status: { phase },
    });
    superCaches.watched(tokenWatch.name).apply('MODIFIED', {
      metadata: {
        namespace: name,
        name: `skerry-token-${pod}`,
        uid: `${name}-${pod}`,
        labels,
        annotations: { [annotationKeys.tokens]: JSON.stringify([record]) },
      },
    });
  };
  const end = (name: string) => {
    const metadata = { namespace: name, name: 'web', labels: { [labelKeys.tenant]: `uid-${name}` } };
    superCaches.store(resources.pods).apply('MODIFIED', { metadata, status: { phase: 'Failed' } });
  };
  const stop = new AbortController();
  const running = { ended: Promise.resolve() };
  return {
    ...{ asked, clock, end, phases, put, wakes },
    run: () => {
      running.ended = wakes.run(stop.signal);
    },
    async [Symbol.asyncDispose]() {
      stop.abort(new Error('test is over'));
      await running.ended;
    },
  };
}

describe('a tenant that is asleep, by its tokens', () => {
  it('is woken in time before the first of its tokens ends, and again when nobody has followed', async () => {
    await using world = withTokens('a', 'b');
    const { asked, clock, put, run } = world;
    put('a', { pod: 'later', endsInMs: 3 * hour });
    put('a', { pod: 'first', endsInMs: hour });
    put('b', { endsInMs: 24 * 365 * hour });
    run();
    await clock.advance(48 * minute - 1);
    expect(asked).toEqual([]);
    await clock.advance(8 * minute);
    expect(asked[0]).toBe('tenant-a-activity');
    const count = asked.length;
    await clock.advance(minute);
    expect(asked).toHaveLength(count + 1);
    expect(new Set(asked).size).toBe(1);
  });

  it('is left alone when a token is only to be renewed, is of a pod that has ended, or of which no end is known', async () => {
    await using world = withTokens('a', 'b', 'c');
    const { asked, clock, put, run } = world;
    put('a', { endsInMs: 24 * 365 * hour });
    put('b', { endsInMs: hour, phase: 'Succeeded' });
    put('c', {});
    run();
    await clock.advance(24 * hour);
    expect(asked).toEqual([]);
  });

  it('is asked for no more when it is awake, nor when its pod has ended since', async () => {
    await using world = withTokens('a', 'b');
    const { asked, clock, end, phases, put, run } = world;
    put('a', { endsInMs: hour });
    put('b', { endsInMs: hour });
    run();
    await clock.advance(minute);
    phases.set('a', 'Ready');
    end('b');
    await clock.advance(2 * hour);
    expect(asked).toEqual([]);
  });

  it('counts from when it falls asleep, and by its tokens as they are', async () => {
    await using world = withTokens();
    const { asked, clock, phases, put, wakes, run } = world;
    put('a', { endsInMs: 24 * hour });
    run();
    await clock.advance(minute);
    phases.set('a', 'Asleep');
    wakes.sleepersChanged();
    await clock.advance(minute);
    put('a', { renewInMs: 2 * minute, endsInMs: 3 * minute });
    await clock.advance(0);
    expect(asked).toEqual(['tenant-a-activity']);
  });

  it('is not woken with all others whose tokens were issued in the same moment', async () => {
    const names = Array.from({ length: 50 }, (_, index) => `t${index}`);
    await using world = withTokens(...names);
    const { asked, clock, put, run } = world;
    for (const name of names) put(name, { endsInMs: 72 * hour, renewInMs: hour });
    run();
    const perHour: number[] = [];
    await clock.advance(65 * hour);
    for (let each = 0; each < 7; each++) {
      const before = new Set(asked).size;
      await clock.advance(hour);
      perHour.push(new Set(asked).size - before);
    }
    expect(perHour.reduce((sum, count) => sum + count)).toBe(50);
    expect(Math.max(...perHour)).toBeLessThan(25);
  });
});
