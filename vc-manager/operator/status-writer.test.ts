import { afterEach, beforeEach, describe, expect, it } from 'vitest';
import type { VirtualCluster } from '../../api/virtual-cluster.ts';
import { resources } from '../../kube/index.ts';
import { FakeClock, type FakeCluster, startFakeCluster } from '../../kube/testing/index.ts';
import { StatusWriter } from './status-writer.ts';

let cluster: FakeCluster;
let writer: StatusWriter;
const ref = { namespace: 'acme', name: 'blue' };
const stored = () => cluster.server.get(resources.virtualClusters, ref) as VirtualCluster;
const writes = () =>
  cluster.server.requests.filter(({ verb }) => verb === 'update' || verb === 'patch').length;

beforeEach(async () => {
  cluster = await startFakeCluster();
  const current = cluster.server.put(resources.virtualClusters, { metadata: ref }) as VirtualCluster;
  const { signal } = new AbortController();
  writer = new StatusWriter({ client: cluster.client, clock: new FakeClock(), signal, current });
});
afterEach(() => cluster[Symbol.asyncDispose]());

describe('the status of a VirtualCluster', () => {
  it('is written once for many changes, and not at all for none', async () => {
    writer.set({ phase: 'Provisioning' });
    writer.set((status) => ({ ...status, id: 'abc' }));
    writer.condition('Ready', 'False', 'Starting', 'soon');
    await writer.flush();
    expect(stored().status).toMatchObject({
      phase: 'Provisioning',
      id: 'abc',
      conditions: [{ type: 'Ready' }],
    });
    const before = writes();
    writer.set({ phase: 'Provisioning' });
    writer.condition('Ready', 'False', 'Starting', 'soon');
    await writer.flush();
    expect(writes()).toBe(before);
    writer.dropCondition('Ready');
    writer.dropCondition('Ready');
    await writer.flush();
    expect(stored().status?.conditions).toEqual([]);
  });

  it('keeps what others have written meanwhile', async () => {
    const { metadata } = stored();
    cluster.server.put(resources.virtualClusters, { metadata, status: { usage: { pods: 3 } } });
    writer.set({ phase: 'Ready' });
    await writer.flush();
    expect(stored().status).toEqual({ usage: { pods: 3 }, phase: 'Ready' });
  });

  it('is not written to another one of that name, and is not lost when it cannot be written', async () => {
    cluster.server.remove(resources.virtualClusters, ref);
    cluster.server.put(resources.virtualClusters, { metadata: { ...ref, uid: 'another' } });
    writer.set({ phase: 'Ready' });
    await expect(writer.flush()).rejects.toMatchObject({ code: 'ObjectReplaced' });
    expect(stored().status).toBeUndefined();
    writer.adopt(stored());
    await writer.flush();
    expect(stored().status).toEqual({ phase: 'Ready' });
  });

  it('has no message that is longer than its schema takes, or half of a character', async () => {
    writer.condition('Ready', 'False', 'Broken', `${'x'.repeat(3_999)}😀 and more`);
    writer.condition('Placed', 'False', 'Broken', 'half \ud83d');
    await writer.flush();
    const [ready, placed] = stored().status?.conditions ?? [];
    expect(ready?.message).toBe(`${'x'.repeat(3_999)}\ufffd…`);
    expect(placed?.message).toBe('half \ufffd');
    const before = writes();
    writer.condition('Placed', 'False', 'Broken', 'half \ud83d');
    await writer.flush();
    expect(writes()).toBe(before);
  });
});
