import { describe, expect, it } from 'vitest';
import { type KubeObject, resources } from '../../kube/index.ts';
import { FakeClock, startFakeCluster } from '../../kube/testing/index.ts';
import { EventRecorder } from './event-recorder.ts';

const { signal } = new AbortController();
const pod: KubeObject = { metadata: { name: 'web', namespace: 'shop', uid: 't1', resourceVersion: '5' } };
const notice = { type: 'Warning', reason: 'SyncRefused', message: 'no room' } as const;

describe('notices', () => {
  it('are events that kubectl describe finds', async () => {
    await using cluster = await startFakeCluster();
    const clock = new FakeClock();
    await new EventRecorder(cluster.client, () => clock.now()).record(resources.pods, pod, notice, signal);
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
    const notices = new EventRecorder(cluster.client, () => clock.now());
    for (let round = 0; round < 30; round++) {
      await notices.record(resources.pods, pod, notice, signal);
      await clock.advance(1_000);
    }
    const events = cluster.server.list(resources.events);
    expect(events).toHaveLength(1);
    // Times that it was said, up to the last that was written.
    expect(events[0]?.['count']).toBe(21);
    expect(cluster.server.requests).toHaveLength(3);
    expect(events[0]?.['lastTimestamp']).not.toBe(events[0]?.['firstTimestamp']);
  });

  it('of ever different words for one reason end up in one event', async () => {
    await using cluster = await startFakeCluster();
    const clock = new FakeClock();
    const notices = new EventRecorder(cluster.client, () => clock.now());
    const say = (message: string) => notices.record(resources.pods, pod, { ...notice, message }, signal);
    for (let round = 0; round < 1_000; round++) await say(`no room ${round}`);
    expect(cluster.server.list(resources.events)).toHaveLength(11);
    await clock.advance(10_000);
    await say('no room at last');
    const combined = cluster.server.list(resources.events).find(({ count }) => Number(count) > 1);
    expect(combined).toMatchObject({
      count: 991,
      message: '(combined from similar events) no room at last',
      involvedObject: { uid: 't1' },
    });
    await say('no room 3');
    await notices.record(resources.pods, pod, { ...notice, reason: 'Another' }, signal);
    expect(cluster.server.list(resources.events)).toHaveLength(12);
    await clock.advance(10 * 60_000);
    await say('words of their own again');
    expect(cluster.server.list(resources.events)).toHaveLength(13);
  });

  it('are written anew when the tenant has forgotten them', async () => {
    await using cluster = await startFakeCluster();
    const clock = new FakeClock();
    const notices = new EventRecorder(cluster.client, () => clock.now());
    await notices.record(resources.pods, pod, notice, signal);
    const [event] = cluster.server.list(resources.events);
    cluster.server.remove(resources.events, { namespace: 'shop', name: event?.metadata.name ?? '' });
    await clock.advance(3_600_000);
    await notices.record(resources.pods, pod, notice, signal);
    expect(cluster.server.list(resources.events)).toMatchObject([{ count: 2 }]);
  });

  it('go on counting after a restart', async () => {
    await using cluster = await startFakeCluster();
    const clock = new FakeClock();
    for (let life = 0; life < 3; life++) {
      await new EventRecorder(cluster.client, () => clock.now()).record(resources.pods, pod, notice, signal);
    }
    expect(cluster.server.list(resources.events).map((event) => event['count'])).toEqual([3]);
  });

  it('of cluster-scoped objects are in the namespace default', async () => {
    await using cluster = await startFakeCluster();
    const node: KubeObject = { metadata: { name: 'n1', uid: 't2' } };
    await new EventRecorder(cluster.client, () => 0).record(resources.nodes, node, notice, signal);
    const [event] = cluster.server.list(resources.events);
    expect(event?.metadata.namespace).toBe('default');
    expect(event?.['involvedObject']).not.toHaveProperty('namespace');
  });

  it('that could not be written are tried again the next time', async () => {
    await using cluster = await startFakeCluster();
    const notices = new EventRecorder(cluster.client, () => 0);
    cluster.server.inject({ verb: 'create', fault: { kind: 'status', code: 500 } });
    await expect(notices.record(resources.pods, pod, notice, signal)).rejects.toThrow();
    await notices.record(resources.pods, pod, notice, signal);
    expect(cluster.server.list(resources.events)).toHaveLength(1);
  });
});
