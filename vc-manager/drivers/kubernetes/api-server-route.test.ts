import { afterEach, beforeEach, describe, expect, it } from 'vitest';
import { resources } from '../../../kube/index.ts';
import { type FakeCluster, startFakeCluster } from '../../../kube/testing/index.ts';
import { KubernetesDriver } from './kubernetes-driver.ts';
import { examplePlan } from './testing/example-plan.ts';
import { FakeWorkloads } from './testing/fake-workloads.ts';

describe('locating', () => {
  const id = 'abc123';
  const namespace = `skerry-tenant-${id}`;
  const server = 'kube-apiserver';
  const { signal } = new AbortController();

  describe('locate', () => {
    let cluster: FakeCluster;
    let workloads: FakeWorkloads;
    let driver: KubernetesDriver;
    let withStorage: KubernetesDriver;

    beforeEach(async () => {
      cluster = await startFakeCluster({
        statusResources: ['pods', 'services', 'namespaces', 'statefulsets'],
      });
      workloads = new FakeWorkloads(cluster.server);
      driver = new KubernetesDriver({ client: cluster.client });
      withStorage = new KubernetesDriver({ client: cluster.client, storage: { size: '1Gi' } });
    });

    afterEach(async () => {
      await workloads[Symbol.asyncDispose]();
      await cluster[Symbol.asyncDispose]();
    });

    const withAddress = (name: string, clusterIP: string): void => {
      const service = cluster.server.get(resources.services, { namespace, name });
      const spec = { ...(service?.['spec'] as object), clusterIP };
      if (service !== undefined) cluster.server.put(resources.services, { ...service, spec });
    };

    it('answers the address of a Service, which it makes once', async () => {
      await driver.locate(id, { signal, withDatastore: true });
      withAddress(server, '10.96.0.7');
      withAddress('etcd', '10.96.0.8');
      const location = await driver.locate(id, { signal, withDatastore: true });
      expect(location).toMatchObject({
        host: '10.96.0.7',
        port: 443,
        names: [`${server}.${namespace}`, `${server}.${namespace}.svc`],
        bindAddress: '0.0.0.0',
        bindPort: 6443,
        datastore: { host: '10.96.0.8', port: 2379 },
      });
      await driver.ensure(examplePlan(), { signal });
      expect(await driver.locate(id, { signal })).toMatchObject({ host: '10.96.0.7' });
    });

    const areKept = (): Promise<(boolean | undefined)[]> =>
      Promise.all(
        [driver, withStorage].map(
          async (each) => (await each.locate(id, { signal, withDatastore: true })).datastore?.isKept,
        ),
      );

    it('says of an etcd to come whether this driver would let it keep its data', async () => {
      expect(await areKept()).toEqual([false, true]);
    });

    it.each([false, true])('says of an etcd that is there what is so: on a volume %s', async (isKept) => {
      const plan = examplePlan({ template: 'v1-36-own-etcd' });
      await (isKept ? withStorage : driver).ensure(plan, { signal });
      cluster.server.requests.length = 0;
      expect(await areKept()).toEqual([isKept, isKept]);
      // For which the chart gives the manager no right.
      const asked = cluster.server.requests.filter(({ plural }) => plural === 'statefulsets');
      expect(new Set(asked.map(({ verb }) => verb))).toEqual(new Set(['list']));
    });
  });
});

describe('way in', () => {
  const id = 'abc123';
  const namespace = `skerry-tenant-${id}`;
  const { signal } = new AbortController();

  let cluster: FakeCluster;
  let driver: KubernetesDriver;

  beforeEach(async () => {
    cluster = await startFakeCluster();
    driver = new KubernetesDriver({ client: cluster.client });
    cluster.server.put(resources.services, {
      metadata: { namespace, name: 'kube-apiserver' },
      spec: { clusterIP: '10.96.0.7' },
    });
  });

  afterEach(async () => {
    await driver.close();
    await cluster[Symbol.asyncDispose]();
  });

  const wayIn = () => cluster.server.get(resources.services, { namespace, name: 'kubernetes' });

  describe('the address at which pods look for their API server', () => {
    it('leads to the pods of the API servers, and not to another address that is translated', async () => {
      expect(await driver.routeAddress(id, '10.112.0.1', { signal })).toBe(true);
      expect(wayIn()).toMatchObject({
        metadata: { labels: { 'skerry.dev/id': id } },
        spec: {
          clusterIP: '10.112.0.1',
          selector: { 'skerry.dev/id': id, 'skerry.dev/component': 'kube-apiserver' },
          ports: [{ port: 443, targetPort: 6443 }],
        },
      });
    });

    it('can be another one, which no Service changes to', async () => {
      await driver.routeAddress(id, '10.112.0.1', { signal });
      const before = wayIn()?.metadata.uid;
      expect(await driver.routeAddress(id, '10.112.4.1', { signal })).toBe(true);
      expect(wayIn()).toMatchObject({ spec: { clusterIP: '10.112.4.1' } });
      expect(wayIn()?.metadata.uid).not.toBe(before);
      const uid = wayIn()?.metadata.uid;
      await driver.routeAddress(id, '10.112.4.1', { signal });
      expect(wayIn()?.metadata.uid).toBe(uid);
    });

    it('is given back, and what is not ours stays', async () => {
      const ref = { namespace, name: 'kubernetes' };
      cluster.server.put(resources.services, { metadata: ref, spec: { clusterIP: '10.112.0.1' } });
      await driver.unrouteAddress(id, { signal });
      expect(wayIn()).toBeDefined();
      await driver.routeAddress(id, '10.112.0.1', { signal });
      for (const _ of ['given back', 'once more']) {
        await driver.unrouteAddress(id, { signal });
        expect(wayIn()).toBeUndefined();
      }
    });

    it('is told when somebody else has it', async () => {
      const message =
        'Invalid value: ["10.112.0.1"]: failed to allocate IP 10.112.0.1: provided IP is already allocated';
      cluster.server.inject({
        verb: 'patch',
        plural: 'services',
        fault: {
          kind: 'status',
          code: 422,
          reason: 'Invalid',
          causes: [{ field: 'spec.clusterIPs', message }],
        },
      });
      expect(await driver.routeAddress(id, '10.112.0.1', { signal })).toBe(false);
    });
  });
});
