import { expect, it } from 'vitest';
import { resources } from '../../kube/index.ts';
import { startFakeCluster } from '../../kube/testing/index.ts';
import { SuperClusterVersionRecord } from './super-cluster-version-record.ts';

const { signal } = new AbortController();

it('asks the super cluster once for both: whether it is behind, and what to write down', async () => {
  await using tenant = await startFakeCluster();
  await using superCluster = await startFakeCluster();
  superCluster.server.put(resources.namespaces, { metadata: { name: 'kube-system', uid: 'super' } });
  const identity = { expectedUid: 'super', distrusted: undefined };
  const past = new SuperClusterVersionRecord(tenant.client, superCluster.client, identity);
  const first = await past.look(signal);
  await past.record(first.now, signal);
  superCluster.server.put(resources.namespaces, { metadata: { name: 'shop' } });
  const second = await past.look(signal);
  await past.record(second.now, signal);
  expect(superCluster.server.requests.map(({ verb, plural }) => `${verb} ${plural}`)).toEqual([
    'list namespaces',
    'list namespaces',
  ]);
  expect(Number(second.now)).toBeGreaterThan(Number(first.now));
  // What is written down tells the restored server from the one that it was.
  await using restored = await startFakeCluster();
  restored.server.put(resources.namespaces, { metadata: { name: 'kube-system', uid: 'super' } });
  const behind = await new SuperClusterVersionRecord(tenant.client, restored.client, identity).look(signal);
  expect(behind.shown).toBe(second.now);
});
