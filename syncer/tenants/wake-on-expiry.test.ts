import { describe, expect, it } from 'vitest';
import { annotationKeys, labelKeys } from '../../api/labels.ts';
import type { VirtualCluster, VirtualClusterPhase } from '../../api/virtual-cluster.ts';
import { type KubeObject, type ObjectRef, resources } from '../../kube/index.ts';
import { FakeClock } from '../../kube/testing/index.ts';
import { tokenWatch } from '../controllers/pod-tokens.ts';
import { allKinds } from '../kinds/registry.ts';
import { Caches } from '../reconcile/caches.ts';
import { WakeOnExpiry } from './wake-on-expiry.ts';

const minute = 60_000;
const hour = 60 * minute;
const start = Date.UTC(2030, 0, 1);

interface Token {
  pod?: string;
  phase?: string;
  renewInMs?: number;
  endsInMs?: number | undefined;
}

/** Tenants that are asleep, by name; each has one pod and one token but for what is put there. */
function watched(...names: string[]) {
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

describe('a tenant that is asleep', () => {
  it('is woken in time before the first of its tokens ends, and again when nobody has followed', async () => {
    await using world = watched('a', 'b');
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
    await using world = watched('a', 'b', 'c');
    const { asked, clock, put, run } = world;
    put('a', { endsInMs: 24 * 365 * hour });
    put('b', { endsInMs: hour, phase: 'Succeeded' });
    put('c', {});
    run();
    await clock.advance(24 * hour);
    expect(asked).toEqual([]);
  });

  it('is asked for no more when it is awake, nor when its pod has ended since', async () => {
    await using world = watched('a', 'b');
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
    await using world = watched();
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
    await using world = watched(...names);
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
