import { describe, expect, it } from 'vitest';
import { resources } from '../kube/index.ts';
import { startFakeCluster } from '../kube/testing/index.ts';
import { protectedRanges } from './protected-ranges.ts';

const { signal } = new AbortController();

describe('where the super cluster itself is (rule 22)', () => {
  it('is whom we talk to, what its default/kubernetes leads to, and the ranges of its Services', async () => {
    await using cluster = await startFakeCluster();
    const slice = (name: string, service: string, address: string) => ({
      metadata: { namespace: 'default', name, labels: { 'kubernetes.io/service-name': service } },
      endpoints: [{ addresses: [address] }],
    });
    cluster.server.put(resources.endpointSlices, slice('kubernetes', 'kubernetes', '192.0.2.1'));
    cluster.server.put(resources.endpointSlices, slice('kubernetes-6', 'kubernetes', '2001:db8::1'));
    cluster.server.put(resources.endpointSlices, slice('web', 'web', '192.0.2.99'));
    cluster.server.put(resources.serviceCidrs, {
      metadata: { name: 'kubernetes' },
      spec: { cidrs: ['10.96.0.0/16', 'fd00:96::/112'] },
    });
    const ranges = await protectedRanges(cluster.client, signal);
    expect(ranges.toSorted()).toEqual(
      ['10.96.0.0/16', '127.0.0.1/32', '192.0.2.1/32', '2001:db8::1/128', 'fd00:96::/112'].toSorted(),
    );
  });

  it('is told without ServiceCIDRs where there are none', async () => {
    await using cluster = await startFakeCluster();
    const fault = { kind: 'status', code: 404, reason: 'NotFound' } as const;
    cluster.server.inject({ verb: 'list', plural: 'servicecidrs', fault });
    expect(await protectedRanges(cluster.client, signal)).toEqual(['127.0.0.1/32']);
  });
});
