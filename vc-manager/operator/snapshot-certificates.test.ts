import { afterEach, beforeEach, expect, it } from 'vitest';
import { annotationKeys } from '../../api/labels.ts';
import type { VirtualCluster } from '../../api/virtual-cluster.ts';
import { resources } from '../../kube/index.ts';
import { type FakeCluster, startFakeCluster } from '../../kube/testing/index.ts';
import type { Services } from './services.ts';
import { pkiWith, settleCertificates } from './snapshot-certificates.ts';
import type { Tenant } from './tenant.ts';

let cluster: FakeCluster;
beforeEach(async () => {
  cluster = await startFakeCluster();
});
afterEach(() => cluster[Symbol.asyncDispose]());

type State = 'claims' | 'has' | 'runs with';
const claim = pkiWith({ 'client-ca.crt': 'of the snapshot' });
const namespace = 'skerry-system';

function put(name: string, uid: string, state: State): VirtualCluster {
  const data = state === 'claims' ? claim : { ...claim, 'snapshot-certificates': 'settled' };
  const annotations = { [annotationKeys.id]: name, [annotationKeys.tenantName]: `team/${name}` };
  cluster.server.put(resources.secrets, {
    metadata: { namespace, name: `tenant-${name}-pki`, annotations },
    data: Object.fromEntries(
      Object.entries(data).map(([key, value]) => [key, Buffer.from(value).toString('base64')]),
    ),
  } as never);
  return cluster.server.put(resources.virtualClusters, {
    metadata: { namespace: 'team', name, uid, creationTimestamp: '2026-03-01T12:00:00Z' },
    spec: { restoreCertificates: true },
    status: { id: name, ...(state === 'runs with' && { version: '1.36.3' }) },
  } as never) as VirtualCluster;
}

async function settle(vc: VirtualCluster, state: State): Promise<string> {
  const name = vc.metadata.name ?? '';
  const tenant = {
    ...{ vc, id: name, key: `team/${name}`, uid: vc.metadata.uid, labels: {} },
    signal: new AbortController().signal,
  };
  const own = state === 'claims' ? claim : { ...claim, 'snapshot-certificates': 'settled' };
  const services = { client: cluster.client, settings: { namespace } };
  return settleCertificates(tenant as never as Tenant, services as never as Services, own).then(
    () => 'gets them',
    (error: { code?: string }) => error.code ?? String(error),
  );
}

it.each<[State, State, string, string]>([
  ['claims', 'claims', 'CertificatesWanted', 'CertificatesInUse'],
  ['has', 'claims', 'gets them', 'CertificatesInUse'],
  ['claims', 'has', 'CertificatesInUse', 'gets them'],
  ['has', 'has', 'gets them', 'CertificatesInUse'],
  ['claims', 'runs with', 'CertificatesInUse', ''],
  ['has', 'runs with', 'CertificatesInUse', ''],
])(
  'of two tenants, where the older %s the certificates of a snapshot and the other %s them, one gets them',
  async (older, younger, ofOlder, ofYounger) => {
    const secretOf = (name: string) =>
      cluster.server.get(resources.secrets, { namespace, name: `tenant-${name}-pki` });
    const one = put('one', '1', older);
    const other = put('other', '2', younger);
    if (ofYounger !== '') {
      // Each as if it came first.
      expect(await settle(other, younger)).toBe(ofYounger);
      if (ofYounger === 'CertificatesInUse') {
        expect(secretOf('other') === undefined).toBe(younger === 'claims');
        // The older one waits no longer than that.
        if (younger === 'claims') expect(await settle(one, older)).toBe('gets them');
      }
      put('one', '1', older);
      put('other', '2', younger);
    }
    expect(await settle(one, older)).toBe(ofOlder);
    if (ofOlder !== 'CertificatesInUse') return;
    expect(secretOf('one') === undefined).toBe(older === 'claims');
    if (older === 'claims' && ofYounger !== '') expect(await settle(other, younger)).toBe('gets them');
  },
);

it('has one that has lost its status give way to nobody unseen', async () => {
  const { status: _, ...lost } = put('one', '1', 'has');
  const annotations = { [annotationKeys.id]: 'one' };
  cluster.server.put(resources.virtualClusters, { ...lost, metadata: { ...lost.metadata, annotations } });
  expect(await settle(put('other', '2', 'claims'), 'claims')).toBe('CertificatesInUse');
});

it('has its Secret say that a tenant is the only one, before anything is started', async () => {
  const vc = put('one', '1', 'claims');
  expect(await settle(vc, 'claims')).toBe('gets them');
  expect(await settle(put('other', '0', 'claims'), 'claims')).toBe('CertificatesInUse');
});
