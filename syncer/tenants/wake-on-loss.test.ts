import { describe, expect, it } from 'vitest';
import { annotationKeys, labelKeys } from '../../api/labels.ts';
import type { VirtualCluster, VirtualClusterPhase } from '../../api/virtual-cluster.ts';
import { ApiError, type KubeObject, resources } from '../../kube/index.ts';
import { FakeClock } from '../../kube/testing/index.ts';
import { allKinds } from '../kinds/registry.ts';
import { Caches } from '../reconcile/caches.ts';
import { WakeOnLoss } from './wake-on-loss.ts';

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
function watched({ pods, phase = 'Asleep' }: { pods?: number; phase?: VirtualClusterPhase } = {}) {
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

type World = ReturnType<typeof watched>;

describe('a tenant that is asleep', () => {
  it.each([
    ['is deleted', ({ remove }: World) => remove()],
    ['is told to end', ({ put }: World) => put({ isDeleting: true })],
    ['has failed', ({ put }: World) => put({ phase: 'Failed' })],
    ['has finished', ({ put }: World) => put({ phase: 'Succeeded' })],
  ])('is woken when a pod of it %s, once for many, and again until it is awake', async (_, lose) => {
    await using world = watched();
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
    await using world = watched();
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
      await using world = watched({ pods: 2 });
      arrange(world);
      await world.run();
      expect(world.asked).toHaveLength(1);
    },
  );

  it('sleeps on while all that were running run, and more, and what had ended before', async () => {
    await using world = watched({ pods: 2 });
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
    await using world = watched();
    const { asked, clock, put, remove, run } = world;
    put({ tenant: 'b' });
    await run();
    remove({ tenant: 'b' });
    await clock.advance(60_000);
    expect(asked).toEqual([]);
  });

  it('is looked at when this replica comes to serve it, and is not when the cache lets go of it', async () => {
    await using world = watched({ pods: 1 });
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
    await using world = watched({ pods: 1 });
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
    await using world = watched({ pods: 1, phase: 'Ready' });
    const { asked, clock, put, remove, run } = world;
    put();
    await run();
    remove();
    await clock.advance(60_000);
    expect(asked).toEqual([]);
  });
});
