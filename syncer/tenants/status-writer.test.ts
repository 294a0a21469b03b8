import { describe, expect, it, vi } from 'vitest';
import { noSyncerReason } from '../../api/conditions.ts';
import { isAsleep } from '../../api/tenant-state.ts';
import { monthlyUsage } from '../../api/usage.ts';
import type { VirtualCluster } from '../../api/virtual-cluster.ts';
import { findCondition, resources } from '../../kube/index.ts';
import { type FakeCluster, startFakeCluster } from '../../kube/testing/index.ts';
import { definitionOf, widgets } from '../controllers/testing/custom-world.ts';
import {
  customResourcesCondition,
  isolationCondition,
  networkPoliciesCondition,
  StatusWriter,
} from './status-writer.ts';
import { DirectoryWorld } from './testing/directory-world.ts';

const ref = { namespace: 'acme', name: 'blue' };
const joined = { type: 'Synced', status: 'True', reason: 'Joined', message: 'all is well' } as const;

async function world(): Promise<{
  cluster: FakeCluster;
  writer: StatusWriter;
  status: () => VirtualCluster['status'];
  writes: () => number;
}> {
  const cluster = await startFakeCluster();
  cluster.server.put(resources.virtualClusters, {
    metadata: { ...ref, uid: 'v1' },
    status: { phase: 'Ready', conditions: [{ type: 'Ready', status: 'True' }] },
  });
  return {
    cluster,
    writer: new StatusWriter(cluster.client, () => Date.UTC(2026, 0, 1)),
    status: () => (cluster.server.get(resources.virtualClusters, ref) as VirtualCluster).status,
    writes: () => cluster.server.requests.filter(({ verb }) => verb === 'update').length,
  };
}

describe('the status writer', () => {
  it('changes its own part and leaves the manager’s', async () => {
    const { cluster, writer, status } = await world();
    await using _ = cluster;
    await writer.condition(ref, 'v1', joined);
    await writer.usage(ref, 'v1', { pods: 3, services: 2, nodes: 1 });
    await writer.identity(ref, 'v1', { superCluster: 's' });
    expect(status()).toMatchObject({ phase: 'Ready', usage: { pods: 3 }, identities: { superCluster: 's' } });
    expect(findCondition(status()?.conditions, 'Ready')?.status).toBe('True');
    expect(findCondition(status()?.conditions, 'Synced')?.reason).toBe('Joined');
  });

  it('writes what is new, once', async () => {
    const { cluster, writer, writes } = await world();
    await using _ = cluster;
    await Promise.all(Array.from({ length: 20 }, () => writer.condition(ref, 'v1', joined)));
    expect(writes()).toBe(1);
    await writer.condition(ref, 'v1', { ...joined, message: 'still well' });
    expect(writes()).toBe(2);
    writer.forget('v1');
    await writer.condition(ref, 'v1', { ...joined, message: 'still well' });
    expect(writes()).toBe(3);
  });

  it('does not ask for what an earlier syncer has said, and is not misled by a cache that is behind', async () => {
    const { cluster, writes } = await world();
    await using _ = cluster;
    const shown = (): VirtualCluster => cluster.server.get(resources.virtualClusters, ref) as VirtualCluster;
    await new StatusWriter(cluster.client, () => 0).condition(ref, 'v1', joined);
    const cached = shown();
    const requests = cluster.server.requests.length;
    const writer = new StatusWriter(
      cluster.client,
      () => 0,
      () => cached,
    );
    await writer.condition(ref, 'v1', joined);
    expect(cluster.server.requests).toHaveLength(requests);
    await writer.condition(ref, 'v1', { ...joined, status: 'False', reason: 'Unreachable' });
    await writer.condition(ref, 'v1', joined);
    expect(writes()).toBe(3);
    expect(findCondition(shown().status?.conditions, 'Synced')?.status).toBe('True');
    await writer.condition(ref, 'v2', joined);
    expect(cluster.server.requests.length).toBeGreaterThan(requests + 4);
  });

  it('writes one after the other: the last word stands, and none is in another’s way', async () => {
    const { cluster, writer, status, writes } = await world();
    await using _ = cluster;
    const words = Array.from({ length: 10 }, (_each, index) => ({ ...joined, message: `word ${index}` }));
    await Promise.all(words.map((word) => writer.condition(ref, 'v1', word)));
    expect(findCondition(status()?.conditions, 'Synced')?.message).toBe('word 9');
    expect(writes()).toBe(10);
  });

  it('says it again when it could not be said, and is not stopped by it', async () => {
    const { cluster, writer, status } = await world();
    await using _ = cluster;
    cluster.server.inject({ verb: 'update', fault: { kind: 'status', code: 500 } });
    const both = await Promise.allSettled([
      writer.condition(ref, 'v1', joined),
      writer.usage(ref, 'v1', { pods: 1, services: 0, nodes: 0 }),
    ]);
    expect(both.map(({ status: each }) => each)).toEqual(['rejected', 'fulfilled']);
    await writer.condition(ref, 'v1', joined);
    expect(findCondition(status()?.conditions, 'Synced')?.status).toBe('True');
  });

  it('leaves what the manager says of the month, be it written meanwhile', async () => {
    const { cluster, writer, status } = await world();
    await using _ = cluster;
    const month = { ...monthlyUsage('2026-03', []), podHours: 7 };
    const usage = { pods: 1, services: 0, nodes: 0 };
    const put = (): void => {
      const now = { ...status(), usage: { ...status()?.usage, month } };
      cluster.server.put(resources.virtualClusters, { metadata: { ...ref, uid: 'v1' }, status: now });
    };
    put();
    await writer.usage(ref, 'v1', usage);
    expect(status()?.usage).toEqual({ ...usage, month });
    await writer.usage(ref, 'v1', { ...usage, pods: 2 });
    expect(status()?.usage).toEqual({ ...usage, pods: 2, month });
  });

  describe('of what a tenant uses that is asleep', () => {
    const before = { pods: 2, services: 1, nodes: 1, cpu: '900m', memory: '1Gi', resources: { pods: '2' } };
    const used = { cpu: '20m', memory: '64Mi' };
    const counted = { pods: '3', 'requests.cpu': '1' };
    const put = (cluster: FakeCluster, status: VirtualCluster['status'], metadata = {}): void => {
      cluster.server.remove(resources.virtualClusters, ref);
      cluster.server.put(resources.virtualClusters, { metadata: { ...ref, uid: 'v1', ...metadata }, status });
    };

    it('counts what there is in the super cluster, leaves what was counted in the tenant, and takes back what nobody knows', async () => {
      const { cluster, writer, status } = await world();
      await using _ = cluster;
      put(cluster, { phase: 'Asleep', usage: before });
      await writer.usageUnjoined(ref, 'v1', { used, counted, isUnjoined: isAsleep });
      expect(status()).toEqual({ phase: 'Asleep', usage: { ...before, ...used, resources: counted } });
      await writer.usageUnjoined(ref, 'v1', { used: undefined, counted, isUnjoined: isAsleep });
      const { cpu: _cpu, memory: _memory, ...said } = before;
      expect(status()).toEqual({ phase: 'Asleep', usage: { ...said, resources: counted } });
    });

    it('writes nothing of one that is awake, another one, or on its way out', async () => {
      const { cluster, writer, status, writes } = await world();
      await using _ = cluster;
      put(cluster, { phase: 'Ready', usage: before });
      await writer.usageUnjoined(ref, 'v1', { used, counted, isUnjoined: isAsleep });
      put(cluster, { phase: 'Asleep', usage: before }, { uid: 'v2' });
      await writer.usageUnjoined(ref, 'v1', { used, counted, isUnjoined: isAsleep });
      put(cluster, { phase: 'Asleep', usage: before }, { deletionTimestamp: '2026-01-01T00:00:00Z' });
      await writer.usageUnjoined(ref, 'v1', { used, counted, isUnjoined: isAsleep });
      expect(status()?.usage).toEqual(before);
      expect(writes()).toBe(0);
    });

    it('is written where no session has come to it', async () => {
      const { cluster, writer, status } = await world();
      await using _ = cluster;
      put(cluster, { phase: 'Asleep' });
      await writer.usageUnjoined(ref, 'v1', { used, counted, isUnjoined: isAsleep });
      expect(status()?.usage).toEqual({ ...used, resources: counted });
    });

    it('writes nothing when it wakes as that is to be written', async () => {
      const { cluster, writer, status } = await world();
      await using _ = cluster;
      const awake = { phase: 'Ready', usage: { ...before, pods: 5 } } as const;
      put(cluster, { phase: 'Asleep', usage: before });
      // The answer to the first read is older than what is there.
      const { client } = cluster;
      const read = vi.spyOn(client, 'get').mockImplementationOnce(async (...args) => {
        read.mockRestore();
        const found = await client.get(...args);
        put(cluster, awake);
        return found;
      });
      await writer.usageUnjoined(ref, 'v1', { used, counted, isUnjoined: isAsleep });
      expect(status()).toEqual(awake);
    });

    it('says after it what a session said before it', async () => {
      const { cluster, writer, status } = await world();
      await using _ = cluster;
      const { resources: _counted, ...usage } = before;
      await writer.usage(ref, 'v1', usage);
      put(cluster, { phase: 'Asleep', usage });
      await writer.usageUnjoined(ref, 'v1', { used, counted, isUnjoined: isAsleep });
      expect(status()?.usage).toEqual({ ...usage, ...used, resources: counted });
      put(cluster, { phase: 'Ready', usage: { ...usage, ...used } });
      await writer.usage(ref, 'v1', usage);
      expect(status()?.usage).toEqual(usage);
    });
  });

  it('takes up nothing that is on its way out, gone, or another one', async () => {
    const { cluster, writer, status, writes } = await world();
    await using _ = cluster;
    const { signal } = new AbortController();
    const put = (phase: string, uid = 'v1'): void => {
      const served = { id: 'a', syncerSecret: { name: 's', key: 'k' }, identities: { tenant: 't' } };
      cluster.server.put(resources.virtualClusters, {
        metadata: { ...ref, uid },
        status: { phase, advertisedAddress: '192.0.2.1', serviceCIDR: '10.112.4.0/22', ...served },
      });
    };
    put('Deleting');
    expect(await writer.markJoining(ref, 'v1', signal)).toBe(false);
    expect(await writer.markJoining({ ...ref, name: 'gone' }, 'v1', signal)).toBe(false);
    put('Ready');
    expect(await writer.markJoining(ref, 'v0', signal)).toBe(false);
    expect(writes()).toBe(0);
    expect(await writer.markJoining(ref, 'v1', signal)).toBe(true);
    expect(findCondition(status()?.conditions, 'Synced')).toMatchObject({
      status: 'False',
      reason: 'Joining',
    });
    // Said already.
    expect(await writer.markJoining(ref, 'v1', signal)).toBe(true);
    expect(writes()).toBe(1);
  });

  it('does not write to another VirtualCluster of that name, nor minds one that is gone', async () => {
    const { cluster, writer, status, writes } = await world();
    await using _ = cluster;
    await writer.condition(ref, 'v0', joined);
    expect(writes()).toBe(0);
    expect(findCondition(status()?.conditions, 'Synced')).toBeUndefined();
    await writer.condition({ namespace: 'acme', name: 'gone' }, 'v1', joined);
  });
});

it('a condition names every custom resource that is asked for and not synced, with the reason', () => {
  const customResources = ['widgets.example.com', 'zones.example.com'];
  expect(customResourcesCondition({ customResources }, [])).toMatchObject({
    status: 'True',
    reason: 'Synced',
  });
  const problems = [
    { name: 'widgets.example.com', reason: 'is not published' },
    { name: 'zones.example.com', reason: 'is not namespaced' },
  ];
  expect(customResourcesCondition({ customResources }, problems)).toEqual({
    type: 'CustomResourcesSynced',
    status: 'False',
    reason: 'NotSynced',
    message: 'widgets.example.com is not published; zones.example.com is not namespaced',
  });
});

it('a VirtualCluster that asks for custom resources at run time gets them, and the condition follows', async () => {
  await using world = await DirectoryWorld.start();
  const cluster = await world.make('blue');
  await world.says('blue', 'Synced', 'True', 'Joined');
  expect(world.condition('blue', 'CustomResourcesSynced')).toBeUndefined();
  world.change('blue', (vc) => ({ ...vc, spec: { sync: { customResources: ['widgets.example.com'] } } }));
  const said = await world.says('blue', 'CustomResourcesSynced', 'False', 'NotSynced');
  expect(said.message).toBe('widgets.example.com is not published');

  world.super.server.put(resources.customResourceDefinitions, definitionOf(widgets));
  const copy = () => cluster.server.get(resources.customResourceDefinitions, { name: 'widgets.example.com' });
  await cluster.server.until(() => copy() !== undefined);
  cluster.server.put(resources.customResourceDefinitions, {
    ...(copy() ?? { metadata: {} }),
    status: { conditions: [{ type: 'Established', status: 'True' }] },
  });
  await world.says('blue', 'CustomResourcesSynced', 'True', 'Synced');
  cluster.server.put(resources.namespaces, { metadata: { name: 'shop' } });
  cluster.server.put(widgets, { metadata: { name: 'one', namespace: 'shop' }, spec: { size: 1 } });
  await world.super.server.until(() => world.objectsOf('blue', widgets).length === 1);
});

it('says again what the manager has taken for not known meanwhile', async () => {
  await using cluster = await startFakeCluster();
  const put = (conditions: object[]) =>
    cluster.server.put(resources.virtualClusters, {
      metadata: { ...ref, uid: 'v1' },
      status: { conditions },
    });
  const current = () => cluster.server.list(resources.virtualClusters)[0] as VirtualCluster;
  put([]);
  const writer = new StatusWriter(cluster.client, () => 0, current);
  await writer.condition(ref, 'v1', joined);
  put([{ ...joined, status: 'Unknown', reason: noSyncerReason }]);
  await writer.condition(ref, 'v1', joined);
  expect(findCondition(current().status?.conditions, 'Synced')).toMatchObject(joined);
});

it('the condition says whether policies act, or why they do not', () => {
  const of = (syncNetworkPolicies: boolean, networkPoliciesEnforced: boolean) => {
    const { status, reason } = networkPoliciesCondition({ syncNetworkPolicies, networkPoliciesEnforced });
    return { status, reason };
  };
  expect(of(true, true)).toEqual({ status: 'True', reason: 'Enforced' });
  expect(of(true, false)).toEqual({ status: 'False', reason: 'NoEngine' });
  expect(of(false, true)).toEqual({ status: 'False', reason: 'NotSynced' });
});

it('the condition says whether tenants are kept apart, or why not', () => {
  const of = (podCIDRs: string[], podAddresses: string[]) => {
    const isolation = { podCIDRs, closedCIDRs: [] };
    const { status, reason } = isolationCondition({ isolation, networkPoliciesEnforced: true }, podAddresses);
    return { status, reason };
  };
  const ranges = ['10.244.0.0/16', 'fd00::/48'];
  expect(of(ranges, ['10.244.3.7', 'fd00::7'])).toEqual({ status: 'True', reason: 'Isolated' });
  expect(of(ranges, ['10.244.3.7', '10.245.0.1'])).toEqual({ status: 'False', reason: 'PodOutsideRanges' });
  expect(of(['10.244.0.0/16'], ['fd00::7'])).toEqual({ status: 'False', reason: 'PodOutsideRanges' });
  expect(of([], [])).toEqual({ status: 'False', reason: 'PodRangesUnknown' });
  const without = { isolation: undefined, networkPoliciesEnforced: true };
  expect(isolationCondition(without, [])).toMatchObject({ status: 'False', reason: 'SwitchedOff' });
  expect(isolationCondition({ ...without, networkPoliciesEnforced: false }, [])).toMatchObject({
    status: 'False',
    reason: 'NoEngine',
  });
  const unknown = { ...without, networkPoliciesEnforced: false, isIsolationUnknown: true } as const;
  const said = { status: 'Unknown', reason: 'SuperClusterUnknown' };
  expect(isolationCondition(unknown, [])).toMatchObject(said);
  expect(networkPoliciesCondition({ ...unknown, syncNetworkPolicies: true })).toMatchObject(said);
});

it('a tenant that is served has the condition', async () => {
  await using world = await DirectoryWorld.start();
  await world.make('blue');
  await world.says('blue', 'NetworkPoliciesEnforced', 'True', 'Enforced');
  await world.says('blue', 'TenantsIsolated', 'False', 'SwitchedOff');
});
