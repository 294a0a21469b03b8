import { hash } from 'node:crypto';
import { afterAll, beforeAll, describe, expect, inject, it } from 'vitest';
import type { VirtualCluster } from '../api/virtual-cluster.ts';
import { type KubeObject, resources } from '../kube/index.ts';
import { itInTestAll } from '../kube/testing/broad.ts';
import { scriptRunBy } from '../scripts/docs-commands.ts';
import { at } from './harness/checker/view.ts';
import { deployment, namespace, pod } from './harness/manifests.ts';
import { patienceMs, patiently, poll } from './harness/poll.ts';
import { pageOf } from './harness/reader.ts';
import { SecondSyncer } from './harness/second-syncer.ts';
import { type Tenant, World } from './harness/world.ts';

const shardMap = { namespace: 'skerry-system', name: 'vc-syncer-shards' };
const inShardMap = { namespace: shardMap.namespace, fieldSelector: `metadata.name=${shardMap.name}` };

/** Where a tenant is that this suite has not made. */
function bucketOfUid(uid: string): string {
  return String(Number.parseInt(hash('sha256', uid, 'hex').slice(0, 8), 16) % 64);
}

/** Who of two has a bucket. */
function wins(replica: string, other: string, bucket: string): boolean {
  const score = (name: string): string => hash('sha256', `${bucket}/${name}`, 'hex');
  return score(replica) > score(other);
}

describe('several syncers', () => {
  let world: World;
  let tenants: Tenant[];
  /** Of each tenant, as its super objects say. */
  let buckets: Map<Tenant, string>;
  let second: SecondSyncer | undefined;
  let started = 0;

  beforeAll(async () => {
    world = new World(inject('stack'));
    tenants = await world.createTenants('shard-a', 'shard-b', 'shard-c');
    await Promise.all(tenants.map((tenant) => tenant.apply(namespace('shop'), deployment('shop', 'web', 2))));
    for (const each of tenants)
      await each.kubectl('-n', 'shop', 'rollout', 'status', 'deployment/web', patiently);
    // Their pods would be counted, too: those of tenants on their way out, and of all where one may name endpoints.
    await world.superCluster.until<boolean, VirtualCluster>(
      {
        resource: resources.virtualClusters,
        what: 'none of the tenants before',
        timeoutMs: 300_000,
      },
      (all) =>
        all.every(
          ({ metadata, status }) =>
            metadata.deletionTimestamp === undefined && (status?.policy?.endpointCIDRs ?? []).length === 0,
        ),
    );
    await world.expectAgreement();
    buckets = new Map(await Promise.all(tenants.map(async (each) => [each, await bucketOf(each)] as const)));
    for (const [{ uid }, bucket] of buckets) expect(bucket).toBe(bucketOfUid(uid));
  });

  afterAll(async () => {
    await second?.end('SIGKILL');
    await world?.close();
  });

  const bucketOf = (tenant: Tenant): Promise<string> =>
    world.superCluster.until(
      {
        resource: resources.namespaces,
        labelSelector: `skerry.dev/tenant=${tenant.uid}`,
        what: 'a bucket',
      },
      ([first]) => first?.metadata.labels?.['skerry.dev/bucket'],
    );

  /** Waits until the map says so: how many of the tenants the second syncer has, of those it should have. */
  const untilShared = (
    what: string,
    isSo: (its: Tenant[], owners: Set<string>) => boolean,
  ): Promise<Tenant[]> =>
    world.superCluster.until({ resource: resources.configMaps, ...shardMap, what }, ([map]) => {
      const owners = Object.entries((map?.['data'] ?? {}) as Record<string, string>);
      const its = tenants.filter((each) =>
        owners.some(([bucket, owner]) => bucket === buckets.get(each) && owner === second?.replica),
      );
      return owners.length === 64 && isSo(its, new Set(owners.map(([, owner]) => owner))) && its;
    });

  /** Starts one that gets so many of the tenants, leaves some, and gets none of other suites: its name decides. */
  const startSecond = async (size: number): Promise<Tenant[]> => {
    const others = (await world.superCluster.client.list(resources.virtualClusters)).items
      .map(({ metadata }) => metadata.uid ?? '')
      .filter((uid) => tenants.every((each) => each.uid !== uid))
      .map(bucketOfUid);
    const [map] = (await world.superCluster.client.list(resources.configMaps, inShardMap)).items;
    const first = (map?.['data'] as Record<string, string> | undefined)?.['0'] ?? '';
    const share = (name: string): Tenant[] =>
      tenants.filter((each) => wins(name, first, buckets.get(each) ?? ''));
    const isGood = (each: string): boolean =>
      !others.some((bucket) => wins(each, first, bucket)) && share(each).length === size;
    // With each tenant of another suite half of the names are no good any more.
    let name: string | undefined;
    for (let index = 0; name === undefined && index < 1_000_000; index++)
      if (isGood(`second-${started}-${index}`)) name = `second-${started}-${index}`;
    if (name === undefined) throw new Error(`no name is good for a share beside ${others.length} tenants`);
    started += 1;
    const words = { 'vc-syncer-1': name, '0.0.0.0:10250': '127.0.0.1:0', '192.0.2.11': '127.0.0.1' };
    const page = pageOf('docs/operating.md');
    const [, ...options] = scriptRunBy(page, 'test/shards.test.ts', 'vc-syncer --replica', words).split(' ');
    second = new SecondSyncer(world, name, options);
    const wanted = share(name);
    const its = await untilShared('the second syncer to get its share', (_its, owners) => owners.size === 2);
    expect(its.map((each) => each.name)).toEqual(wanted.map((each) => each.name));
    await untilServed(second, its.length);
    return its;
  };

  const untilServed = (syncer: SecondSyncer, count: number): Promise<true> =>
    poll(
      `the second syncer to serve ${count} tenants`,
      async () => (await syncer.metric('skerry_syncer_tenants')) === count,
    );

  const isRunning = (each: KubeObject): boolean => at(each, 'status', 'phase') === 'Running';

  const runs = async (tenant: Tenant, ...names: string[]): Promise<void> => {
    await tenant.until(
      { resource: resources.pods, namespace: 'shop', what: `${names.join(', ')} to run` },
      (pods) => names.every((name) => pods.some((each) => each.metadata.name === name && isRunning(each))),
    );
  };

  const makesPods = async (of: readonly Tenant[], prefix: string, count: number): Promise<string[]> => {
    const names = Array.from({ length: count }, (_, index) => `${prefix}-${index}`);
    await Promise.all(
      of.flatMap((tenant) => names.map((name) => tenant.client.create(resources.pods, pod('shop', name)))),
    );
    return names;
  };

  /** UIDs of the super pods of the Deployments, which nobody touches. */
  const calmPods = async (): Promise<(string | undefined)[]> => {
    const found = await Promise.all(
      tenants.map(({ uid }) =>
        world.superCluster.client.list(resources.pods, { labelSelector: `skerry.dev/tenant=${uid},app=web` }),
      ),
    );
    return found.flatMap(({ items }) => items.map(({ metadata }) => metadata.uid)).toSorted();
  };

  const isServedByBoth = async (its: readonly Tenant[]): Promise<void> => {
    expect(await second?.metric('skerry_syncer_tenants')).toBe(its.length);
    const conditions = await Promise.all(
      tenants.map(async ({ name }) => (await world.virtualCluster(name)).status?.conditions ?? []),
    );
    for (const all of conditions)
      expect(all.find(({ type }) => type === 'Synced')).toMatchObject({ status: 'True', reason: 'Joined' });
  };

  it('share the tenants, and each sees only the objects of its own', async () => {
    const calm = await calmPods();
    const its = await startSecond(2);
    await isServedByBoth(its);
    const names = await makesPods(tenants, 'shared', 3);
    await Promise.all(tenants.map((tenant) => runs(tenant, ...names)));
    await world.expectAgreement(tenants, patienceMs);
    expect(await calmPods()).toEqual(calm);
    expect(await second?.metric('skerry_syncer_objects', { side: 'super', kind: 'pods' })).toBe(
      its.length * 5,
    );
  });

  it('let a tenant go, whoever has it', async () => {
    const [gone] = await untilShared('a share', (theirs) => theirs.length === 2);
    await world.deleteTenant((gone as Tenant).name);
    tenants = tenants.filter((each) => each !== gone);
    await world.expectAgreement(tenants, patienceMs);
  });

  it('hand over what they have when they end', async () => {
    const its = second === undefined ? [] : await untilShared('a share', (theirs) => theirs.length > 0);
    expect(await second?.end('SIGTERM')).toBe(0);
    await untilShared('the first syncer to have everything', (_its, owners) => owners.size === 1);
    const names = await makesPods(its, 'handed-over', 3);
    await Promise.all(its.map((tenant) => runs(tenant, ...names)));
    await world.expectAgreement(tenants, patienceMs);
  });

  it('take over from one that is killed, and what was made meanwhile gets through', async () => {
    const its = await startSecond(1);
    const calm = await calmPods();
    await second?.end('SIGKILL');
    const names = await makesPods(its, 'meanwhile', 3);
    await Promise.all(its.map((tenant) => runs(tenant, ...names)));
    await world.expectAgreement(tenants, patienceMs);
    expect(await calmPods()).toEqual(calm);
  });

  itInTestAll('do no harm when one stands still past its Lease and wakes up', async () => {
    const its = await startSecond(1);
    const calm = await calmPods();
    const early = await makesPods(its, 'early', 5);
    await Promise.all(its.map((tenant) => runs(tenant, ...early)));
    // It stands still in the middle of its work, with writes of which nobody knows how far they got.
    const [late] = await Promise.all([
      makesPods(its, 'late', 20),
      ...its.flatMap((tenant) =>
        early.slice(0, 3).map((name) => tenant.client.delete(resources.pods, { namespace: 'shop', name })),
      ),
    ]);
    second?.send('SIGSTOP');
    const asleep = second;
    await untilShared('the first syncer to have everything', (_its, owners) => owners.size === 1);
    await Promise.all(its.map((tenant) => runs(tenant, ...late)));
    await Promise.all(
      its.flatMap((tenant) => [
        ...late.slice(0, 10).map((name) => tenant.client.delete(resources.pods, { namespace: 'shop', name })),
        tenant.client.delete(resources.pods, { namespace: 'shop', name: 'early-3' }),
      ]),
    );
    for (const tenant of its) {
      await tenant.untilGone(resources.pods, { namespace: 'shop', name: 'early-3' });
      // Of the same name, and another one.
      await tenant.client.create(resources.pods, pod('shop', 'early-3'));
      await runs(tenant, 'early-3');
    }
    await world.expectAgreement(tenants, patienceMs);
    asleep?.send('SIGCONT');
    await untilShared('it to get its share again', (theirs) => theirs.length === its.length);
    await untilServed(asleep as SecondSyncer, its.length);
    const names = await makesPods(tenants, 'awake', 2);
    await Promise.all(tenants.map((tenant) => runs(tenant, ...names)));
    await Promise.all(its.map((tenant) => runs(tenant, ...late.slice(10))));
    await world.expectAgreement(tenants, patienceMs);
    expect(await calmPods()).toEqual(calm);
    await isServedByBoth(its);
  });
});
