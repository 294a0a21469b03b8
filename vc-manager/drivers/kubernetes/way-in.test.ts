import { afterEach, beforeEach, describe, expect, it } from 'vitest';
import { resources } from '../../../kube/index.ts';
import { type FakeCluster, startFakeCluster } from '../../../kube/testing/index.ts';
import { KubernetesDriver } from './kubernetes-driver.ts';

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
    expect(await driver.lead(id, '10.112.0.1', { signal })).toBe(true);
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
    await driver.lead(id, '10.112.0.1', { signal });
    const before = wayIn()?.metadata.uid;
    expect(await driver.lead(id, '10.112.4.1', { signal })).toBe(true);
    expect(wayIn()).toMatchObject({ spec: { clusterIP: '10.112.4.1' } });
    expect(wayIn()?.metadata.uid).not.toBe(before);
    const uid = wayIn()?.metadata.uid;
    await driver.lead(id, '10.112.4.1', { signal });
    expect(wayIn()?.metadata.uid).toBe(uid);
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
    expect(await driver.lead(id, '10.112.0.1', { signal })).toBe(false);
  });
});
