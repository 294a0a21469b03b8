import { afterAll, beforeAll, describe, expect, inject, it } from 'vitest';
import type { VirtualCluster } from '../api/virtual-cluster.ts';
import { isNotFound, type KubeObject, resources } from '../kube/index.ts';
import { signedUser } from './harness/certificates.ts';
import { at } from './harness/checker/view.ts';
import { deployment, namespace, pod } from './harness/manifests.ts';
import { poll } from './harness/poll.ts';
import { type Tenant, World } from './harness/world.ts';

describe('the quota of a tenant', () => {
  let world: World;
  let tenant: Tenant;

  beforeAll(async () => {
    world = new World(inject('stack'));
    tenant = await world.createTenant('quota-a');
    await tenant.apply(namespace('shop'), namespace('lab'));
  });

  afterAll(() => world?.close());

  it('is never exceeded by twenty Deployments in two namespaces that race, and all run in turn', async () => {
    const limit = 12;
    const isLeft = ({ status }: KubeObject): boolean => {
      const phase = at(status, 'phase');
      return phase !== 'Succeeded' && phase !== 'Failed';
    };
    const labelSelector = `skerry.dev/tenant=${tenant.uid}`;
    const before = (await world.superCluster.client.list(resources.pods, { labelSelector })).items.length;
    const quota = { pods: String(before + limit) };
    await world.superCluster.client.patch(
      resources.virtualClusters,
      tenant.ref,
      { spec: { quota } },
      { type: 'merge' },
    );
    await world.superCluster.until(
      { resource: resources.virtualClusters, ...tenant.ref, what: 'the quota to be decided on' },
      ([vc]) => at(vc, 'status', 'policy', 'quota', 'pods') === quota.pods,
    );
    let most = 0;
    const untilPods = (what: string, count: number): Promise<unknown> =>
      world.superCluster.until({ resource: resources.pods, labelSelector, what }, (pods) => {
        const there = pods.filter(isLeft).length - before;
        most = Math.max(most, there);
        return there === count;
      });
    const names = Array.from({ length: 20 }, (_, i) => `web-${i}`);
    const full = untilPods('the quota to be used up', limit);
    await tenant.apply(...names.map((name, i) => deployment(i % 2 === 0 ? 'shop' : 'lab', name, 2)));
    await full;
    await tenant.until({ resource: resources.events, what: 'an event that says so' }, (events) =>
      events.some(({ reason }) => reason === 'QuotaExceeded'),
    );
    const raised = untilPods('all pods to be let in', 40);
    expect(most).toBe(limit);
    const more = { pods: String(before + 40) };
    await world.superCluster.client.patch(
      resources.virtualClusters,
      tenant.ref,
      { spec: { quota: more } },
      { type: 'merge' },
    );
    await raised;
    expect(most).toBe(40);
  });

  it('stops it from filling the datastore of all, not from deleting, and lets it go on then', async () => {
    const { client } = tenant;
    const ask = (quota: Record<string, string>): Promise<unknown> =>
      world.superCluster.client.patch(
        resources.virtualClusters,
        tenant.ref,
        { spec: { quota } },
        { type: 'merge' },
      );
    const untilDatastore = (reason: string): Promise<unknown> =>
      world.superCluster.until<true, VirtualCluster>(
        { resource: resources.virtualClusters, ...tenant.ref, what: `its datastore usage to be ${reason}` },
        ([vc]) =>
          vc?.status?.conditions?.some(
            (each) => each.type === 'DatastoreWithinQuota' && each.reason === reason,
          ),
      );
    const create = (index: number, stuffing = '', options?: { dryRun: boolean }): Promise<unknown> =>
      client.create(
        resources.configMaps,
        { metadata: { namespace: 'stuffed', name: `stuffing-${index}` }, data: { stuffing } },
        options,
      );
    /** Its API server is restarted with each decision. */
    const untilCreate = (what: string, isWanted: (error: unknown) => boolean): Promise<unknown> =>
      poll(what, async () =>
        isWanted(
          await create(9_999, '', { dryRun: true }).then(
            () => undefined,
            (error) => error,
          ),
        ),
      );
    const refusal = /datastore quota of this control plane is exceeded/;

    await ask({ pods: '5000' });
    // The name under which the controllers' program itself may write on.
    const controllers = 'system:kube-controller-manager';
    const impostor = await signedUser(tenant, controllers);
    await tenant.kubectl(
      'create',
      'clusterrolebinding',
      'x',
      '--clusterrole=cluster-admin',
      `--user=${controllers}`,
    );
    await tenant.apply(namespace('stuffed'), pod('stuffed', 'held'));
    await tenant.until(
      { resource: resources.pods, namespace: 'stuffed', what: 'the pod to run' },
      ([held]) => at(held, 'status', 'phase') === 'Running',
    );
    // Few and large ones, and as many that they are noticed at once.
    const stuffing = 'x'.repeat(800 * 1024);
    for (let index = 0; index < 8; index++) await create(index, stuffing);
    for (let from = 8; from < 168; from += 20)
      await Promise.all(Array.from({ length: 20 }, (_, index) => create(from + index)));
    await ask({ 'datastore.bytes': '6Mi' });
    await untilDatastore('WritesStopped');
    await untilCreate('writes to be refused', (error) => refusal.test(String(error)));
    const patch = { metadata: { labels: { more: 'bytes' } } };
    const ref = { namespace: 'stuffed', name: 'stuffing-1' };
    // An API server that has just started knows no roles yet.
    const isRead = (): Promise<boolean> =>
      client.get(resources.configMaps, ref).then(
        () => true,
        () => false,
      );
    await poll('reads to go on', isRead);
    await expect(client.patch(resources.configMaps, ref, patch, { type: 'merge' })).rejects.toThrow(refusal);
    await expect(
      impostor.create(resources.configMaps, { metadata: { namespace: 'default', name: 'impostor' } }),
    ).rejects.toThrow(refusal);
    expect(await impostor.get(resources.configMaps, ref)).toMatchObject({ metadata: { name: ref.name } });
    await impostor.connection.close();
    // Nobody is asked what a member of this group may.
    await expect(
      tenant.kubectl('create', 'namespace', 'more', '--as=x', '--as-group=system:masters'),
    ).rejects.toThrow(/datastore quota of this control plane is exceeded|cannot impersonate/);
    expect((await tenant.kubectl('auth', 'can-i', 'delete', 'configmaps')).trim()).toBe('yes');

    await client.delete(resources.namespaces, { name: 'stuffed' });
    await tenant.until({ resource: resources.namespaces, what: 'the namespace to be gone' }, (namespaces) =>
      namespaces.every(({ metadata }) => metadata.name !== 'stuffed'),
    );
    await untilDatastore('Enough');
    // Nothing but the namespace is missing.
    await untilCreate('writes to be let through', isNotFound);
  });
});
