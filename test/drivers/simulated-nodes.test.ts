import { afterAll, beforeAll, describe, expect, inject, it } from 'vitest';
import { type KubeObject, resources } from '../../kube/index.ts';
import { itInTestAll } from '../../kube/testing/broad.ts';
import { KubernetesDriver } from '../../vc-manager/drivers/kubernetes/kubernetes-driver.ts';
import { examplePlan } from '../../vc-manager/drivers/kubernetes/testing/example-plan.ts';
import { World } from '../harness/world.ts';

const { signal } = new AbortController();
const server = 'kube-apiserver';
const controllers = 'kube-controller-manager';

/**
 * What only a real API server shows of the kubernetes driver: what it takes and refuses, who owns which field, and what
 * its controllers make of it. Nothing runs in the pods; that is for the suites on real nodes.
 */
describe('the kubernetes driver on a real super cluster', () => {
  const id = 'simulated';
  const namespace = `skerry-tenant-${id}`;
  const plan = (options: Parameters<typeof examplePlan>[0] = {}) => ({ ...examplePlan(options), id });
  let world: World;
  let driver: KubernetesDriver;

  beforeAll(() => {
    world = new World(inject('stack'));
    driver = new KubernetesDriver({ client: world.superCluster.client });
  });

  afterAll(async () => {
    await driver?.remove(id, { signal });
    await driver?.close();
    await world?.close();
  });

  const list = async (
    resource: Parameters<typeof world.superCluster.client.list>[0],
  ): Promise<KubeObject[]> => (await world.superCluster.client.list(resource, { namespace })).items;

  const generations = async (): Promise<Record<string, unknown>> =>
    Object.fromEntries(
      (await list(resources.statefulSets)).map(({ metadata }) => [metadata.name, metadata.generation]),
    );

  it('has its objects accepted, and pods made where only the level restricted is let in', async () => {
    const location = await driver.locate(id, { signal });
    // Of any range: the super cluster takes addresses of Services from that for tenants, too.
    expect(location.host).toMatch(/^10\.\d+\.\d+\.\d+$/);
    await driver.ensure(plan({ replicas: 2 }), { signal });
    const pods = await list(resources.pods);
    expect(pods).toHaveLength(4);
    const refused = {
      metadata: { namespace, name: 'root' },
      spec: { containers: [{ name: 'a', image: 'a' }] },
    };
    await expect(world.superCluster.client.create(resources.pods, refused)).rejects.toThrow(/restricted/);
    expect((await list(resources.networkPolicies)).map(({ metadata }) => metadata.name).sort()).toEqual([
      'default-deny',
      server,
      controllers,
    ]);
    expect(await list(resources.podDisruptionBudgets)).toHaveLength(2);
    expect((await driver.observe(id)).components.map(({ state }) => state)).toEqual(['running', 'running']);
  });

  it('writes the same again without a change', async () => {
    const before = await generations();
    await new KubernetesDriver({ client: world.superCluster.client }).ensure(plan({ replicas: 2 }), {
      signal,
    });
    expect(await generations()).toEqual(before);
  });

  it('takes back what others have changed of it, and leaves what they have added', async () => {
    const ref = { namespace, name: server };
    const edit = { metadata: { labels: { team: 'blue' } }, spec: { replicas: 1 } };
    await world.superCluster.client.patch(resources.statefulSets, ref, edit, { type: 'merge' });
    await driver.ensure(plan({ replicas: 2 }), { signal });
    const set = await world.superCluster.client.get(resources.statefulSets, ref);
    expect(set).toMatchObject({ metadata: { labels: { team: 'blue' } }, spec: { replicas: 2 } });
  });

  itInTestAll('carries another version out one pod after the other, the API server first', async () => {
    const seen: string[] = [];
    await driver.ensure(plan({ replicas: 2, version: '1.36.4' }), {
      signal,
      onReady: (component) => seen.push(component),
    });
    expect(seen).toEqual([server, controllers]);
    const images = (await list(resources.pods)).map(
      ({ spec }) => (spec as { containers: { image: string }[] }).containers[0]?.image,
    );
    expect(new Set(images)).toEqual(
      new Set([`registry.k8s.io/${server}:v1.36.4`, `registry.k8s.io/${controllers}:v1.36.4`]),
    );
  });

  itInTestAll('stops what is named, and starts it again', async () => {
    await driver.stop(id, { signal, components: [controllers] });
    expect(await list(resources.pods)).toHaveLength(2);
    await driver.ensure(plan({ replicas: 2, version: '1.36.4' }), { signal });
    expect(await list(resources.pods)).toHaveLength(4);
  });

  it('gives an etcd of its own a volume, and keeps it whatever storage later drivers are set to', async () => {
    const own = 'simulatedetcd';
    const { client } = world.superCluster;
    const ownPlan = { ...examplePlan({ template: 'v1-36-own-etcd' }), id: own };
    const storing = new KubernetesDriver({ client, storage: { size: '1Gi' } });
    await storing.ensure(ownPlan, { signal });
    const place = { namespace: `skerry-tenant-${own}` };
    const claims = await client.list(resources.persistentVolumeClaims, place);
    expect(claims.items.map(({ metadata }) => metadata.name)).toEqual(['data-etcd-0']);
    await driver.ensure(ownPlan, { signal });
    await storing.stop(own, { signal });
    expect((await client.list(resources.persistentVolumeClaims, place)).items).toHaveLength(1);
    await storing.remove(own, { signal });
    expect(await driver.list()).not.toContain(own);
  });

  it('leaves nothing behind', async () => {
    await driver.remove(id, { signal });
    await world.superCluster.untilGone(resources.namespaces, { name: namespace });
    expect(await driver.list()).not.toContain(id);
    await driver.remove(id, { signal });
  });
});
