import { describe, expect, it } from 'vitest';
import { type KubeObject, resource, resources } from '../../kube/index.ts';
import { FakeClock, type FakeCluster, startFakeCluster } from '../../kube/testing/index.ts';
import { keepRegistered, type RegistrationOptions } from './metrics-registration.ts';

const apiServices = resource('apiregistration.k8s.io', 'v1', 'apiservices', 'APIService', false);
const name = 'v1beta1.metrics.k8s.io';
const service = { namespace: 'kube-system', name: 'skerry-metrics' };
const base64 = (text: string): string => Buffer.from(text).toString('base64');

/** Runs until so many rounds are over. */
async function rounds(
  cluster: FakeCluster,
  count: number,
  options: Partial<RegistrationOptions> = {},
): Promise<unknown[]> {
  const stop = new AbortController();
  const problems: unknown[] = [];
  let round = 0;
  const clock = new FakeClock({ autoAdvance: true });
  const sleep = clock.sleep.bind(clock);
  clock.sleep = (ms, signal) => {
    round += 1;
    if (round === count) stop.abort(new Error('enough'));
    return sleep(ms, signal);
  };
  await keepRegistered(
    {
      client: cluster.client,
      clock,
      endpoint: { address: '192.0.2.11', port: 10450 },
      ca: () => 'CA',
      hasSource: async () => true,
      onProblem: (error) => problems.push(error),
      ...options,
    },
    stop.signal,
  );
  return problems;
}

describe('the metrics API in a tenant', () => {
  it('is registered with a way to us that does not go down', async () => {
    await using cluster = await startFakeCluster();
    await rounds(cluster, 1);
    expect(cluster.server.get(apiServices, { name })).toMatchObject({
      spec: {
        group: 'metrics.k8s.io',
        version: 'v1beta1',
        service: { ...service, port: 443 },
        caBundle: base64('CA'),
      },
    });
    expect(cluster.server.get(resources.services, service)).toMatchObject({
      metadata: { labels: { 'skerry.dev/sync': 'false' } },
      spec: { clusterIP: 'None', ports: [{ name: 'https', port: 443 }] },
    });
    expect(cluster.server.get(resources.endpointSlices, service)).toMatchObject({
      metadata: { labels: { 'skerry.dev/sync': 'false', 'kubernetes.io/service-name': 'skerry-metrics' } },
      addressType: 'IPv4',
      endpoints: [{ addresses: ['192.0.2.11'] }],
      ports: [{ name: 'https', port: 10450 }],
    });
  });

  it('is written once, and put back where the tenant has changed it', async () => {
    await using cluster = await startFakeCluster();
    await rounds(cluster, 1);
    const { resourceVersion } = cluster.server;
    await rounds(cluster, 2);
    expect(cluster.server.resourceVersion).toBe(resourceVersion);
    const slice = cluster.server.get(resources.endpointSlices, service) as KubeObject;
    cluster.server.put(resources.endpointSlices, { ...slice, endpoints: [{ addresses: ['198.51.100.66'] }] });
    cluster.server.remove(resources.services, service);
    expect(await rounds(cluster, 1, { ca: () => 'NEW CA' })).toEqual([]);
    expect(cluster.server.get(resources.endpointSlices, service)).toMatchObject({
      endpoints: [{ addresses: ['192.0.2.11'] }],
    });
    expect(cluster.server.get(resources.services, service)).toBeDefined();
    expect(cluster.server.get(apiServices, { name })).toMatchObject({ spec: { caBundle: base64('NEW CA') } });
  });

  it('is left alone where the tenant has one of its own', async () => {
    await using cluster = await startFakeCluster();
    const own = {
      service: { namespace: 'kube-system', name: 'metrics-server', port: 443 },
      caBundle: 'theirs',
    };
    cluster.server.put(apiServices, { metadata: { name }, spec: own });
    await rounds(cluster, 2);
    expect(cluster.server.get(apiServices, { name })).toMatchObject({ spec: own });
    expect(cluster.server.get(resources.services, service)).toBeUndefined();
  });

  it('is not registered while there is nothing to serve', async () => {
    await using cluster = await startFakeCluster();
    await rounds(cluster, 2, { hasSource: async () => false });
    expect(cluster.server.list(apiServices)).toEqual([]);
  });

  it('is tried again when the API server is not there', async () => {
    await using cluster = await startFakeCluster();
    let asked = 0;
    const hasSource = async (): Promise<boolean> => {
      asked += 1;
      if (asked === 1) throw new Error('not yet');
      return true;
    };
    const problems = await rounds(cluster, 2, { hasSource });
    expect(problems.map(String)).toEqual(['Error: not yet']);
    expect(cluster.server.get(apiServices, { name })).toBeDefined();
  });
});
