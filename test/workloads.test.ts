import { afterAll, beforeAll, describe, expect, inject, it } from 'vitest';
import { type KubeObject, resource, resources } from '../kube/index.ts';
import { at } from './harness/checker/raw.ts';
import { deployment, job, namespace, service, statefulSet } from './harness/manifests.ts';
import { type Tenant, World } from './harness/world.ts';

const replicaSets = resource('apps', 'v1', 'replicasets', 'ReplicaSet', true);
const jobs = resource('batch', 'v1', 'jobs', 'Job', true);

describe('two tenants with the same names for everything', () => {
  let world: World;
  let tenants: Tenant[];

  beforeAll(async () => {
    world = new World(inject('stack'));
    tenants = await world.createTenants('work-a', 'work-b');
    await each((tenant) => tenant.apply(namespace('shop')));
  });

  afterAll(() => world?.close());

  const each = <T>(work: (tenant: Tenant) => Promise<T>): Promise<T[]> => Promise.all(tenants.map((tenant) => work(tenant)));

  /** Pods of a tenant in the super cluster, by what its marks say. */
  const superPods = async (tenant: Tenant, app: string): Promise<KubeObject[]> => {
    const labelSelector = `skerry.dev/tenant=${tenant.uid},app=${app}`;
    return (await world.superCluster.client.list(resources.pods, { labelSelector })).items;
  };

  const rolledOut = (tenant: Tenant, name = 'web'): Promise<string> =>
    tenant.kubectl('-n', 'shop', 'rollout', 'status', `deployment/${name}`, '--timeout=60s');

  it('each run their Deployment of 3, and the super cluster has the pods of both', async () => {
    await each((tenant) => tenant.apply(deployment('shop', 'web', 3), service('shop', 'web')));
    await each((tenant) => rolledOut(tenant));
    await world.expectAgreement();
    const uids = await each(async (tenant) => {
      const own = (await tenant.client.list(resources.pods, { namespace: 'shop' })).items;
      const marks = (await superPods(tenant, 'web')).map(
        ({ metadata }) => metadata.annotations?.['skerry.dev/uid'],
      );
      expect(marks.toSorted()).toEqual(own.map(({ metadata }) => metadata.uid).toSorted());
      return marks;
    });
    expect(new Set(uids.flat()).size).toBe(6);
  });
});
