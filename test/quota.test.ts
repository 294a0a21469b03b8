import { afterAll, beforeAll, describe, expect, inject, it } from 'vitest';
import { type KubeObject, resources } from '../kube/index.ts';
import { at } from './harness/checker/view.ts';
import { deployment, namespace } from './harness/manifests.ts';
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
});
