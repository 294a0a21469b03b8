import { afterAll, beforeAll, describe, expect, inject, it } from 'vitest';
import { resources } from '../kube/index.ts';
import { claimsOf } from './harness/checker/kinds/tokens.ts';
import { deployment, namespace, pod, service } from './harness/manifests.ts';
import { patiently } from './harness/poll.ts';
import { type Tenant, World } from './harness/world.ts';

describe('names', () => {
  let world: World;
  let short: Tenant;
  let long: Tenant;

  beforeAll(async () => {
    world = new World(inject('stack'));
    [short, long] = await world.sharedTenants('b-c');
    await long.apply(namespace('c'));
  });

  afterAll(() => world?.close());

  const superNamespaces = async (tenant: Tenant, name: string): Promise<(string | undefined)[]> => {
    const labelSelector = `skerry.dev/tenant=${tenant.uid},skerry.dev/namespace=${name}`;
    const { items } = await world.superCluster.client.list(resources.namespaces, { labelSelector });
    return items.map(({ metadata }) => metadata.name);
  };

  it('namespace b-c of tenant a and namespace c of tenant a-b never meet', async () => {
    expect(long.name).toBe(`${short.name}-b`);
    await Promise.all([
      short.apply(deployment('b-c', 'same', 2), service('b-c', 'same')),
      long.apply(pod('c', 'same'), service('c', 'same')),
    ]);
    await short.kubectl('-n', 'b-c', 'rollout', 'status', 'deployment/same', patiently);
    await long.kubectl('-n', 'c', 'wait', 'pod/same', '--for=condition=Ready', patiently);
    await world.expectAgreement();
    const [first] = await superNamespaces(short, 'b-c');
    const [second] = await superNamespaces(long, 'c');
    expect(first?.slice(0, -16)).toBe(second?.slice(0, -16));
    expect(first).not.toBe(second);
  });

  it('a namespace may have 63 characters, and so may the one that differs in the last of them', async () => {
    const names = ['x', 'y'].map((last) => `n${'1234567890'.repeat(6)}1${last}`);
    for (const name of names) {
      expect(name).toHaveLength(63);
      await long.apply(namespace(name), deployment(name, 'web', 1), service(name, 'web'));
    }
    for (const name of names) {
      await long.kubectl('-n', name, 'rollout', 'status', 'deployment/web', patiently);
    }
    await world.expectAgreement();
    const found = (await Promise.all(names.map((name) => superNamespaces(long, name)))).flat();
    expect(new Set(found).size).toBe(2);
  });

  it('a namespace that is deleted and made again at once works, with its pods in the new one', async () => {
    const before = await short.client.get(resources.namespaces, { name: 'b-c' });
    const [earlier] = await superNamespaces(short, 'b-c');
    const [untouched] = await superNamespaces(long, 'c');
    await short.kubectl('delete', 'namespace', 'b-c', patiently);
    await short.apply(namespace('b-c'), deployment('b-c', 'same', 2), service('b-c', 'same'));
    await short.kubectl('-n', 'b-c', 'rollout', 'status', 'deployment/same', patiently);
    await world.expectAgreement();
    const after = await short.client.get(resources.namespaces, { name: 'b-c' });
    expect(after.metadata.uid).not.toBe(before.metadata.uid);
    expect(await superNamespaces(short, 'b-c')).toEqual([earlier]);
    const counterpart = await world.superCluster.client.get(resources.namespaces, { name: earlier ?? '' });
    expect(counterpart.metadata.annotations?.['skerry.dev/uid']).toBe(after.metadata.uid);
    expect(await superNamespaces(long, 'c')).toEqual([untouched]);
  });

  it('a pod that is made again 50 times under one name ends as the last one, with one token', async () => {
    await short.apply(namespace('flap'), {
      apiVersion: 'v1',
      kind: 'ServiceAccount',
      metadata: { namespace: 'flap', name: 'robot' },
    });
    const ref = { namespace: 'flap', name: 'flapper' };
    const flapper = pod('flap', 'flapper', { serviceAccountName: 'robot' });
    let last = await short.client.create(resources.pods, flapper);
    for (let round = 1; round < 50; round++) {
      await short.client.delete(resources.pods, ref, { gracePeriodSeconds: 0 });
      last = await short.client.create(resources.pods, flapper);
    }
    await short.kubectl('-n', 'flap', 'wait', 'pod/flapper', '--for=condition=Ready', patiently);
    await world.expectAgreement();
    const [superNamespace = ''] = await superNamespaces(short, 'flap');
    const { items } = await world.superCluster.client.list(resources.pods, { namespace: superNamespace });
    expect(items.map(({ metadata }) => metadata.annotations?.['skerry.dev/uid'])).toEqual([
      last.metadata.uid,
    ]);
    const labelSelector = 'skerry.dev/token';
    const secrets = await world.superCluster.client.list(resources.secrets, {
      namespace: superNamespace,
      labelSelector,
    });
    const tokens = secrets.items.flatMap(({ data }) => Object.values(data as Record<string, string>));
    const claims = tokens.map(
      (token) => claimsOf(Buffer.from(token, 'base64').toString())?.['kubernetes.io'],
    );
    expect(claims).toMatchObject([
      { pod: { name: 'flapper', uid: last.metadata.uid }, serviceaccount: { name: 'robot' } },
    ]);
  });
});
