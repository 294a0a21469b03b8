import { describe, expect, it } from 'vitest';
import { annotationKeys, labelKeys } from '../../api/labels.ts';
import type { VirtualCluster, VirtualClusterPhase } from '../../api/virtual-cluster.ts';
import { ApiError, type KubeObject } from '../../kube/index.ts';
import { FakeClock } from '../../kube/testing/index.ts';
import { WakeOnLoss } from './wake-on-loss.ts';

const pod = (phase: string, more: Partial<KubeObject['metadata']> = {}): KubeObject => ({
  metadata: { namespace: 'x', name: 'web', labels: { [labelKeys.tenant]: 'uid-a' }, ...more },
  status: { phase },
});

function watched(phase: VirtualClusterPhase = 'Asleep') {
  const asked: { name: string; at: string | undefined }[] = [];
  const clock = new FakeClock();
  const note = (name: string | undefined, { metadata }: KubeObject) =>
    asked.push({ name: name ?? '', at: metadata.annotations?.[annotationKeys.wakeRequested] });
  const wakes = new WakeOnLoss({
    superClient: {
      patch: async (_resource, { name }) => {
        throw new ApiError(404, undefined, `no lease ${name}`);
      },
      create: async (_resource, object) => {
        note(object.metadata.name, object);
        return object;
      },
    },
    systemNamespace: 'skerry-system',
    tenant: (uid) =>
      uid === 'uid-a'
        ? ({ metadata: { name: 'a' }, status: { phase, id: 'abcdefgh' } } as VirtualCluster)
        : undefined,
    clock,
    onError: () => expect.fail(),
  });
  return { asked, clock, wakes, settled: () => new Promise(setImmediate) };
}

describe('a tenant that is asleep', () => {
  it.each([
    ['is deleted', { type: 'deleted', object: pod('Running') }],
    [
      'is told to end',
      { type: 'modified', previous: pod('Running'), object: pod('Running', { deletionTimestamp: 'now' }) },
    ],
    ['has failed', { type: 'modified', previous: pod('Running'), object: pod('Failed') }],
    ['has finished', { type: 'modified', previous: pod('Running'), object: pod('Succeeded') }],
  ] as const)('is woken when a pod of it %s, once for many', async (_, event) => {
    const { asked, clock, wakes, settled } = watched();
    wakes.see({ ...event, watched: true });
    wakes.see({ ...event, watched: true });
    await settled();
    expect(asked).toEqual([{ name: 'tenant-abcdefgh-activity', at: new Date(clock.now()).toISOString() }]);
    await clock.advance(10_000);
    wakes.see({ ...event, watched: true });
    await settled();
    expect(asked).toHaveLength(2);
  });

  it('sleeps on when a pod only starts or changes, or one that has ended goes on changing', async () => {
    const { asked, wakes, settled } = watched();
    wakes.see({ type: 'added', object: pod('Running'), watched: true });
    wakes.see({ type: 'modified', previous: pod('Pending'), object: pod('Running'), watched: true });
    wakes.see({ type: 'modified', previous: pod('Failed'), object: pod('Failed'), watched: true });
    const other = { [labelKeys.tenant]: 'uid-b' };
    wakes.see({ type: 'deleted', object: pod('Running', { labels: other }), watched: true });
    await settled();
    expect(asked).toEqual([]);
  });

  it('is not asked for when it is awake', async () => {
    const { asked, wakes, settled } = watched('Ready');
    wakes.see({ type: 'deleted', object: pod('Running'), watched: true });
    await settled();
    expect(asked).toEqual([]);
  });
});
