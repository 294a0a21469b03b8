import { describe, expect, it } from 'vitest';
import { type KubeObject, resources } from '../../kube/index.ts';
import { FakeClock, startFakeCluster } from '../../kube/testing/index.ts';
import { Notices } from './notices.ts';

const { signal } = new AbortController();
const pod: KubeObject = { metadata: { name: 'web', namespace: 'shop', uid: 't1', resourceVersion: '5' } };
const notice = { type: 'Warning', reason: 'SyncRefused', message: 'no room' } as const;

describe('notices', () => {
  it('are events that kubectl describe finds', async () => {
    await using cluster = await startFakeCluster();
    const clock = new FakeClock();
    await new Notices(cluster.client, () => clock.now()).write(resources.pods, pod, notice, signal);
    const [event] = cluster.server.list(resources.events);
    expect(event).toMatchObject({
      metadata: { namespace: 'shop' },
      involvedObject: { apiVersion: 'v1', kind: 'Pod', name: 'web', namespace: 'shop', uid: 't1' },
      type: 'Warning',
      reason: 'SyncRefused',
      message: 'no room',
      count: 1,
    });
  });

  it('count up instead of flooding: the same words at most every ten seconds', async () => {
    await using cluster = await startFakeCluster();
    const clock = new FakeClock();
    const notices = new Notices(cluster.client, () => clock.now());
    for (let round = 0; round < 30; round++) {
      await notices.write(resources.pods, pod, notice, signal);
      await clock.advance(1_000);
    }
    const events = cluster.server.list(resources.events);
    expect(events).toHaveLength(1);
    expect(events[0]?.['count']).toBe(3);
    expect(events[0]?.['lastTimestamp']).not.toBe(events[0]?.['firstTimestamp']);
  });

  it('go on counting after a restart', async () => {
    await using cluster = await startFakeCluster();
    const clock = new FakeClock();
    for (let life = 0; life < 3; life++) {
      await new Notices(cluster.client, () => clock.now()).write(resources.pods, pod, notice, signal);
    }
    expect(cluster.server.list(resources.events).map((event) => event['count'])).toEqual([3]);
  });

  it('of cluster-scoped objects are in the namespace default', async () => {
    await using cluster = await startFakeCluster();
    const node: KubeObject = { metadata: { name: 'n1', uid: 't2' } };
    await new Notices(cluster.client, () => 0).write(resources.nodes, node, notice, signal);
    const [event] = cluster.server.list(resources.events);
    expect(event?.metadata.namespace).toBe('default');
    expect(event?.['involvedObject']).not.toHaveProperty('namespace');
  });

  it('that could not be written are tried again the next time', async () => {
    await using cluster = await startFakeCluster();
    const notices = new Notices(cluster.client, () => 0);
    cluster.server.inject({ verb: 'create', fault: { kind: 'status', code: 500 } });
    await expect(notices.write(resources.pods, pod, notice, signal)).rejects.toThrow();
    await notices.write(resources.pods, pod, notice, signal);
    expect(cluster.server.list(resources.events)).toHaveLength(1);
  });
});
