import { afterAll, beforeAll, describe, expect, inject, it } from 'vitest';
import { type KubeObject, resources } from '../kube/index.ts';
import { at } from './harness/checker/view.ts';
import { deployment, image, job, service, statefulSet } from './harness/manifests.ts';
import { patiently } from './harness/poll.ts';
import { type Tenant, World } from './harness/world.ts';

describe('two tenants with the same names for everything', () => {
  let world: World;
  let tenants: Tenant[];

  beforeAll(async () => {
    world = new World(inject('stack'));
    tenants = await world.sharedTenants('work');
  });

  afterAll(() => world?.close());

  const each = <T>(work: (tenant: Tenant) => Promise<T>): Promise<T[]> =>
    Promise.all(tenants.map((tenant) => work(tenant)));

  /** Pods of a tenant in the super cluster, by what its marks say. */
  const superPods = async (tenant: Tenant, app: string): Promise<KubeObject[]> => {
    const labelSelector = `skerry.dev/tenant=${tenant.uid},skerry.dev/namespace=work,app=${app}`;
    return staying((await world.superCluster.client.list(resources.pods, { labelSelector })).items);
  };
  const staying = (pods: KubeObject[]): KubeObject[] =>
    pods.filter(({ metadata }) => metadata.deletionTimestamp === undefined);

  const rolledOut = (tenant: Tenant, what = 'deployment/web'): Promise<string> =>
    tenant.kubectl('-n', 'work', 'rollout', 'status', what, patiently);

  /** The same number of pods of both, each made from another T. */
  const expectPods = async (app: string, count: number): Promise<void> => {
    const uids = await each(async (tenant) => {
      const { items } = await tenant.client.list(resources.pods, {
        namespace: 'work',
        labelSelector: `app=${app}`,
      });
      const own = staying(items);
      const marks = (await superPods(tenant, app)).map(
        ({ metadata }) => metadata.annotations?.['skerry.dev/uid'],
      );
      expect(marks.toSorted()).toEqual(own.map(({ metadata }) => metadata.uid).toSorted());
      return marks;
    });
    expect(new Set(uids.flat()).size).toBe(count * tenants.length);
  };

  const images = async (tenant: Tenant): Promise<unknown[]> =>
    (await superPods(tenant, 'web')).map((pod) => at(pod, 'spec', 'containers', '0', 'image'));

  it('each run their Deployment of 3, and the super cluster has the pods of both', async () => {
    await each((tenant) => tenant.apply(deployment('work', 'web', 3), service('work', 'web')));
    await each((tenant) => rolledOut(tenant));
    await world.expectAgreement();
    await expectPods('web', 3);
  });

  it('scale it, one up and one down', async () => {
    const [first, second] = tenants as [Tenant, Tenant];
    await first.kubectl('-n', 'work', 'scale', 'deployment/web', '--replicas=5');
    await second.kubectl('-n', 'work', 'scale', 'deployment/web', '--replicas=1');
    await each((tenant) => rolledOut(tenant));
    // To be rolled out does not mean that those too many have gone.
    await second.until(
      { resource: resources.pods, namespace: 'work', labelSelector: 'app=web', what: 'one pod' },
      (pods) => staying(pods).length === 1,
    );
    await world.expectAgreement();
    expect(await superPods(first, 'web')).toHaveLength(5);
    expect(await superPods(second, 'web')).toHaveLength(1);
  });

  it('roll it out to another image and undo that', async () => {
    await each((tenant) => tenant.kubectl('-n', 'work', 'scale', 'deployment/web', '--replicas=3'));
    await each((tenant) =>
      tenant.kubectl('-n', 'work', 'set', 'image', 'deployment/web', 'main=example.com/next:2'),
    );
    await each((tenant) => rolledOut(tenant));
    await world.expectAgreement();
    for (const tenant of tenants)
      expect(new Set(await images(tenant))).toEqual(new Set(['example.com/next:2']));

    await each((tenant) => tenant.kubectl('-n', 'work', 'rollout', 'undo', 'deployment/web'));
    await each((tenant) => rolledOut(tenant));
    await world.expectAgreement();
    for (const tenant of tenants) expect(new Set(await images(tenant))).toEqual(new Set([image]));
    await expectPods('web', 3);
  });

  it('complete a Job', async () => {
    await each((tenant) => tenant.apply(job('work', 'count')));
    await each((tenant) =>
      tenant.kubectl('-n', 'work', 'wait', 'job/count', '--for=condition=Complete', patiently),
    );
    await world.expectAgreement();
    for (const tenant of tenants) {
      const { items } = await tenant.client.list(resources.pods, {
        namespace: 'work',
        labelSelector: 'job-name=count',
      });
      expect(items.map((pod) => at(pod, 'status', 'phase'))).toEqual(['Succeeded', 'Succeeded']);
    }
  });

  it('run a StatefulSet with volumes, whose pods come back by name with the volume they had', async () => {
    await each((tenant) =>
      tenant.apply(statefulSet('work', 'db', 2), service('work', 'db', { clusterIP: 'None' })),
    );
    await each((tenant) => rolledOut(tenant, 'statefulset/db'));
    const volumeOf = async (tenant: Tenant): Promise<unknown> =>
      at(
        await tenant.client.get(resources.persistentVolumeClaims, { namespace: 'work', name: 'data-db-1' }),
        'spec',
        'volumeName',
      );
    await each((tenant) => tenant.untilBound('work', 'data-db-1'));
    const volumes = await each(volumeOf);
    expect(new Set(volumes).size).toBe(2);
    const ref = { namespace: 'work', name: 'db-1' };
    const before = await each(async (tenant) => (await tenant.client.get(resources.pods, ref)).metadata.uid);
    await each((tenant) => tenant.kubectl('-n', 'work', 'delete', 'pod', 'db-1', patiently));
    await each((tenant) => tenant.kubectl('-n', 'work', 'wait', '--for=create', 'pod/db-1', patiently));
    await each((tenant) =>
      tenant.kubectl('-n', 'work', 'wait', '--for=condition=Ready', 'pod/db-1', patiently),
    );
    await world.expectAgreement();
    const after = await each(async (tenant) => (await tenant.client.get(resources.pods, ref)).metadata.uid);
    for (const [index, uid] of after.entries()) expect(uid).not.toBe(before[index]);
    expect(await each(volumeOf)).toEqual(volumes);
  });

  it('delete it, and nothing of it is left on either side, while the other keeps its own', async () => {
    const [first, second] = tenants as [Tenant, Tenant];
    await first.kubectl('delete', 'namespace', 'work', patiently);
    await world.expectAgreement();
    for (const app of ['web', 'db']) expect(await superPods(first, app)).toEqual([]);
    const { items } = await first.client.list(resources.persistentVolumes);
    expect(items.filter((volume) => at(volume, 'spec', 'claimRef', 'namespace') === 'work')).toEqual([]);
    expect(await superPods(second, 'web')).toHaveLength(3);
    expect(await superPods(second, 'db')).toHaveLength(2);
  });
});
