import { expect, it } from 'vitest';
import { type KubeObject, resources } from '../../kube/index.ts';
import { type FakeCluster, startFakeCluster } from '../../kube/testing/index.ts';
import { type PatchOptions, patchObject } from './guarded-writes.ts';
import type { TenantState } from './tenant-state.ts';

const ref = { namespace: 'shop', name: 'x' };

function stored({ server }: FakeCluster): KubeObject {
  return server.get(resources.configMaps, ref) as KubeObject;
}

/** Patches the object as it was read. */
async function patched({ client }: FakeCluster, seen: KubeObject, options: PatchOptions): Promise<void> {
  const expectVersion = (): void => undefined;
  const tenant = { client: undefined, expectations: { super: { expectVersion } } } as unknown as TenantState;
  const key = { kind: 'configmaps', ...ref };
  const { signal } = new AbortController();
  const target = { client, resource: resources.configMaps, tenant, key, signal, cutManagedFields: true };
  await patchObject(target, seen, options);
}

/** An object that was read, and which somebody else has labelled since. */
function labelledSince({ server }: FakeCluster): KubeObject {
  const seen = server.put(resources.configMaps, { metadata: ref, data: { a: '1', b: '1' } });
  server.put(resources.configMaps, { ...seen, metadata: { ...seen.metadata, labels: { theirs: 'yes' } } });
  return seen;
}

it('a whole object replaces the one that was read, and no later one', async () => {
  await using cluster = await startFakeCluster();
  const options = { patch: { data: { b: null, c: '3' } }, isWhole: true } as const;
  await expect(patched(cluster, labelledSince(cluster), options)).rejects.toMatchObject({ code: 409 });
  expect(stored(cluster)['data']).toEqual({ a: '1', b: '1' });
  await patched(cluster, stored(cluster), options);
  expect(stored(cluster)).toMatchObject({ metadata: { labels: { theirs: 'yes' } } });
  expect(stored(cluster)['data']).toEqual({ a: '1', c: '3' });
  // Nor is it sent back.
  expect(cluster.server.requests.map(({ verb, metadataOnly }) => [verb, metadataOnly])).toEqual([
    ['update', true],
    ['update', true],
  ]);
});

it('a whole object that was written just before is patched: what others have written since stays', async () => {
  await using cluster = await startFakeCluster();
  const options = { patch: { data: { a: '2' } }, isWhole: true, uidOnly: true } as const;
  await patched(cluster, labelledSince(cluster), options);
  expect(stored(cluster)).toMatchObject({ metadata: { labels: { theirs: 'yes' } } });
  expect(stored(cluster)['data']).toEqual({ a: '2', b: '1' });
});

it('without the right to update, a whole object is patched', async () => {
  await using cluster = await startFakeCluster();
  const { server } = cluster;
  server.inject({ verb: 'update', fault: { kind: 'status', code: 403, reason: 'Forbidden' } });
  server.put(resources.configMaps, { metadata: ref, data: { a: '1', gone: '1' } });
  const { metadata } = stored(cluster);
  await patched(cluster, { metadata }, { patch: { data: { a: '2' } }, isWhole: true });
  expect(stored(cluster)['data']).toEqual({ a: '2' });
  // What is to go has to be known.
  expect(server.requests.map(({ verb }) => verb)).toEqual(['update', 'get', 'patch']);
});
