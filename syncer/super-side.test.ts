import { describe, expect, it } from 'vitest';
import { labelKeys } from '../api/labels.ts';
import { type Resource, resources } from '../kube/index.ts';
import { fastClock } from '../kube/testing/fast-clock.ts';
import { type FakeCluster, startFakeCluster } from '../kube/testing/index.ts';
import { allKinds } from './kinds/registry.ts';
import { SuperSide } from './super-side.ts';

interface Followed extends AsyncDisposable {
  readonly cluster: FakeCluster;
  readonly side: SuperSide;
  /** Messages of lists that were refused. */
  readonly refused: string[];
}

async function followed(): Promise<Followed> {
  const cluster = await startFakeCluster();
  cluster.server.put(resources.namespaces, { metadata: { name: 'kube-system', uid: 'super' } });
  const refused: string[] = [];
  const side = new SuperSide({
    client: cluster.client,
    kinds: allKinds,
    clock: fastClock(50),
    onProblem: (_kind, { phase, error }) => phase === 'refused' && refused.push(String(error)),
  });
  const stop = new AbortController();
  const running = side.run(stop.signal);
  await side.synced(stop.signal);
  return {
    cluster,
    side,
    refused,
    async [Symbol.asyncDispose]() {
      stop.abort(new Error('test is over'));
      await running;
      await cluster[Symbol.asyncDispose]();
    },
  };
}

/** Resolves when a cache holds this many objects. */
function holds(side: SuperSide, resource: Resource, count: number): Promise<void> {
  const store = side.caches.store(resource);
  return new Promise((resolve) => {
    const look = (): void => {
      if (store.size === count) resolve();
    };
    store.subscribe(look);
    look();
  });
}

describe('the caches of the super cluster', () => {
  it('hold what carries our label, and all of what tenants get copies of', async () => {
    await using world = await followed();
    const { cluster, side } = world;
    cluster.server.put(resources.configMaps, { metadata: { name: 'theirs', namespace: 'n' } });
    cluster.server.put(resources.configMaps, {
      metadata: { name: 'ours', namespace: 'n', labels: { [labelKeys.tenant]: 'v1' } },
    });
    cluster.server.put(resources.nodes, { metadata: { name: 'n1' } });
    await holds(side, resources.configMaps, 1);
    await holds(side, resources.nodes, 1);
    expect(side.hasSynced).toBe(true);
    expect(side.identity.expectedUid).toBe('super');
  });

  it('do not take over the lists of another cluster', async () => {
    await using world = await followed();
    const { cluster, side, refused } = world;
    cluster.server.put(resources.nodes, { metadata: { name: 'n1' } });
    await holds(side, resources.nodes, 1);
    await cluster.server.stop();
    cluster.server.remove(resources.namespaces, { name: 'kube-system' });
    cluster.server.put(resources.namespaces, { metadata: { name: 'kube-system', uid: 'another' } });
    cluster.server.remove(resources.nodes, { name: 'n1' });
    cluster.server.compact();
    await cluster.server.listen();
    await cluster.server.until(() =>
      refused.some((text) => text.includes('not the one that this syncer started with')),
    );
    expect(side.caches.store(resources.nodes).size).toBe(1);
  });

  it('do not believe a cluster that shows its own past', async () => {
    await using world = await followed();
    const { cluster, side } = world;
    const backup = cluster.server.snapshot();
    cluster.server.put(resources.nodes, { metadata: { name: 'n1' } });
    await holds(side, resources.nodes, 1);
    cluster.server.restore(backup);
    await cluster.server.until(() => side.identity.distrusted !== undefined);
    expect(side.identity.distrusted).toContain('nodes that are older');
    expect(await side.identity.verify()).toBe(false);
    expect(side.caches.store(resources.nodes).size).toBe(1);
  });

  it('of some buckets hold their objects and no others, but all Namespaces', async () => {
    await using world = await followed();
    const { cluster, side } = world;
    const labels = (bucket: number) => ({
      [labelKeys.tenant]: `v${bucket}`,
      [labelKeys.bucket]: String(bucket),
    });
    for (const bucket of [1, 2, 3]) {
      cluster.server.put(resources.namespaces, { metadata: { name: `n${bucket}`, labels: labels(bucket) } });
      cluster.server.put(resources.pods, {
        metadata: { name: 'p', namespace: `n${bucket}`, labels: labels(bucket) },
      });
    }
    await holds(side, resources.pods, 3);
    const signal = new AbortController().signal;
    const pods = (): string[] =>
      [...side.caches.store(resources.pods).list()].map((pod) => pod.metadata.namespace ?? '');
    await side.cover(new Set([1, 3]), signal);
    expect(pods()).toEqual(['n1', 'n3']);
    expect(side.caches.store(resources.namespaces).size).toBe(3);
    await side.cover(new Set([2]), signal);
    expect(pods()).toEqual(['n2']);
    await side.cover(new Set(), signal);
    expect(pods()).toEqual([]);
    expect(side.hasSynced).toBe(true);
    await side.cover('all', signal);
    expect(pods().toSorted()).toEqual(['n1', 'n2', 'n3']);
  });
});
