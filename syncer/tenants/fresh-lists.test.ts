import { expect, it, vi } from 'vitest';
import { type KubeObject, resources } from '../../kube/index.ts';
import { fastClock } from '../../kube/testing/fast-clock.ts';
import type { FakeCluster } from '../../kube/testing/index.ts';
import { superNamespaceName } from '../mapping/names.ts';
import { DirectoryWorld } from './testing/directory-world.ts';

/** Five minutes are 300 ms. */
const clock = fastClock(1_000);

const settings = (name: string): KubeObject => ({
  metadata: { name, namespace: 'shop', labels: { 'skerry.dev/sync': 'true' } },
  data: { whose: 'the tenant' },
});

/** The lists that a server was asked for while it was watched, in order. */
const freshListRequests = ({ server }: FakeCluster) =>
  server.requests.filter(
    ({ verb, query }) => verb === 'list' && query.get('resourceVersionMatch') === 'Exact',
  );

/** Their plurals. */
const freshLists = (cluster: FakeCluster): string[] => freshListRequests(cluster).map(({ plural }) => plural);

async function served(): Promise<{ world: DirectoryWorld; blue: FakeCluster; shop: string }> {
  const world = await DirectoryWorld.start(undefined, { clock });
  const blue = await world.make('blue');
  blue.server.put(resources.namespaces, { metadata: { name: 'shop' } });
  await world.says('blue', 'Synced', 'True', 'Joined');
  const { info } = world.directory.session(world.vc('blue').metadata.uid ?? '')?.state ?? {};
  if (info === undefined) throw new Error('not served');
  return { world, blue, shop: superNamespaceName(info, 'shop') };
}

it('every few minutes one kind is listed afresh, in turns, on both sides (sync rule `resync`)', async () => {
  const { world, blue } = await served();
  await using _ = world;
  await blue.server.until(() => freshLists(blue).length >= 3);
  await world.super.server.until(() => freshLists(world.super).length >= 3);
  for (const cluster of [blue, world.super]) {
    // Secrets of the super cluster are followed twice: copies of Secrets, and of pod tokens by a selector of their own.
    const lists = freshListRequests(cluster)
      .slice(0, 3)
      .map(({ plural, query }) => `${plural} ${query.get('labelSelector') ?? ''}`);
    expect(new Set(lists).size, lists.join()).toBe(3);
  }
  // A page of what a tenant sends is parsed in one turn of this thread.
  expect(new Set(freshListRequests(blue).map(({ query }) => query.get('limit')))).toEqual(new Set(['100']));
});

it('what is remembered of a tenant is bounded also while its server says that it is not ready', async () => {
  const { world, blue } = await served();
  await using _ = world;
  const { state } = world.directory.session(world.vc('blue').metadata.uid ?? '') ?? {};
  if (state === undefined) throw new Error('not served');
  blue.server.inject({ verb: 'other', times: Infinity, fault: { kind: 'status', code: 500 } });
  await world.says('blue', 'Synced', 'False', 'Unreachable');
  const wait = (count: number): void => {
    for (let n = 0; n < count; n += 1)
      state.dependents.add(
        { kind: 'configmaps', namespace: 'shop', name: `gone-${n}` },
        { kind: 'pods', namespace: 'shop', name: 'web' },
      );
  };
  const pruned = vi.spyOn(state, 'prune');
  wait(10_000);
  await expect.poll(() => pruned.mock.calls.length).toBeGreaterThan(1);
  expect(state.dependents.waiting).toBe(10_000);
  wait(10_001);
  await expect.poll(() => state.dependents.waiting).toBe(0);
  expect(state.dependents.size).toBe(0);
});

it('what a cache has lost comes back with a fresh list, and nothing is deleted for it', async () => {
  const { world, blue, shop } = await served();
  await using _ = world;
  blue.server.put(resources.configMaps, settings('x'));
  const inSuper = () => world.super.server.get(resources.configMaps, { namespace: shop, name: 'x' });
  await world.super.server.until(() => inSuper() !== undefined);
  const uid = inSuper()?.metadata.uid;
  const session = world.directory.session(world.vc('blue').metadata.uid ?? '');
  const store = session?.state.caches.store(resources.configMaps);
  store?.replace([]);
  await blue.server.until(() => store?.get({ namespace: 'shop', name: 'x' }) !== undefined);
  expect(inSuper()?.metadata.uid).toBe(uid);
});

it('look-alikes without our marks stand as before after a whole round of fresh lists (sync rule `unmarked-objects`)', async () => {
  const { world, blue, shop } = await served();
  await using _ = world;
  await world.super.server.until(
    () => world.super.server.get(resources.namespaces, { name: shop }) !== undefined,
  );
  const theirs = world.super.server.put(resources.configMaps, {
    metadata: { name: 'x', namespace: shop },
    data: { whose: 'the operator' },
  });
  const extra = world.super.server.put(resources.configMaps, {
    metadata: { name: 'extra', namespace: shop },
  });
  world.super.server.put(resources.nodes, { metadata: { name: 'n1' } });
  const own = blue.server.put(resources.nodes, { metadata: { name: 'n1', labels: { mine: '' } } });
  blue.server.put(resources.configMaps, settings('x'));
  const told = () => blue.server.list(resources.events).map(({ reason }) => reason);
  await blue.server.until(() => told().filter((reason) => reason === 'NameConflict').length >= 2);

  const from = { blue: freshLists(blue).length, super: freshLists(world.super).length };
  const listed = (plurals: string[]) => plurals.includes('configmaps') && plurals.includes('nodes');
  await blue.server.until(() => listed(freshLists(blue).slice(from.blue)));
  await world.super.server.until(() => listed(freshLists(world.super).slice(from.super)));
  const there = (name: string) => world.super.server.get(resources.configMaps, { namespace: shop, name });
  expect(there('x')).toEqual(theirs);
  expect(there('extra')).toEqual(extra);
  expect(blue.server.get(resources.nodes, { name: 'n1' })).toEqual(own);
});
