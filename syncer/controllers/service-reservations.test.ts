import { describe, expect, it } from 'vitest';
import { labelKeys } from '../../api/labels.ts';
import { resources } from '../../kube/index.ts';
import { type FakeCluster, startFakeCluster } from '../../kube/testing/index.ts';
import { testTenant } from '../kinds/testing.ts';
import { releaseReservation } from './service-reservations.ts';

const { signal } = new AbortController();
const tenant = testTenant({ serviceCidrs: ['10.112.4.0/22'] });
const service = (clusterIP?: string): { spec: { clusterIP?: string } } => ({
  spec: clusterIP === undefined ? {} : { clusterIP },
});

function reserve(cluster: FakeCluster, name: string, labels: Record<string, string>): void {
  cluster.server.put(resources.ipAddresses, { metadata: { name, labels } });
}

const ours = { [labelKeys.tenant]: tenant.uid, 'skerry.dev/reserved': 'dns' };

describe('the reservation of an address', () => {
  it('makes room for the Service that it was made for', async () => {
    await using cluster = await startFakeCluster();
    reserve(cluster, '10.112.4.10', ours);
    await releaseReservation(cluster.client, tenant, service('10.112.4.10'), signal);
    expect(cluster.server.list(resources.ipAddresses)).toEqual([]);
  });

  it('costs nothing for any other address, and for none', async () => {
    await using cluster = await startFakeCluster();
    for (const address of ['10.112.4.11', '10.112.5.1', 'None', 'fd00::a', undefined]) {
      await releaseReservation(cluster.client, tenant, service(address), signal);
    }
    expect(cluster.server.requests).toEqual([]);
  });

  it('is left alone if it is another tenant’s or no reservation', async () => {
    await using cluster = await startFakeCluster();
    reserve(cluster, '10.112.4.1', { ...ours, [labelKeys.tenant]: 'another' });
    reserve(cluster, '10.112.4.10', { [labelKeys.tenant]: tenant.uid });
    await releaseReservation(cluster.client, tenant, service('10.112.4.1'), signal);
    await releaseReservation(cluster.client, tenant, service('10.112.4.10'), signal);
    expect(cluster.server.list(resources.ipAddresses)).toHaveLength(2);
  });

  it('may be gone already', async () => {
    await using cluster = await startFakeCluster();
    await releaseReservation(cluster.client, tenant, service('10.112.4.1'), signal);
    cluster.server.inject({ verb: 'get', fault: { kind: 'status', code: 500 } });
    await expect(releaseReservation(cluster.client, tenant, service('10.112.4.1'), signal)).rejects.toThrow();
  });
});
