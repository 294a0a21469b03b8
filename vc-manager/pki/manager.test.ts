import { X509Certificate } from 'node:crypto';
import { afterEach, beforeEach, describe, expect, it } from 'vitest';
import { resources } from '../../kube/index.ts';
import { type FakeCluster, startFakeCluster } from '../../kube/testing/index.ts';
import { ensureManagerPkiSecret, type ManagerPkiSecretOptions } from './manager.ts';

const now = new Date('2026-06-01T12:00:00Z');
const dayMs = 24 * 60 * 60_000;
const namespace = 'skerry-system';

describe('ensureManagerPkiSecret', () => {
  let cluster: FakeCluster;
  beforeEach(async () => {
    cluster = await startFakeCluster();
  });
  afterEach(() => cluster[Symbol.asyncDispose]());

  const options = (more: Partial<ManagerPkiSecretOptions> = {}): ManagerPkiSecretOptions => ({
    client: cluster.client,
    namespace,
    name: 'pki',
    etcdName: 'etcd',
    labels: { 'app.kubernetes.io/managed-by': 'skerry' },
    etcdHosts: ['etcd.skerry-system.svc'],
    signal: new AbortController().signal,
    now,
    ...more,
  });
  const keysOf = (name: string): string[] =>
    Object.keys(
      (cluster.server.get(resources.secrets, { namespace, name })?.['data'] as object | undefined) ?? {},
    ).sort();

  it('makes both Secrets, and gives the datastore no authority that signs', async () => {
    const pki = await ensureManagerPkiSecret(options());
    expect(keysOf('pki')).toContain('etcd-ca.key');
    expect(keysOf('etcd')).toEqual(['ca.crt', 'tls.crt', 'tls.key']);
    const served = new X509Certificate(pki.etcdServer.certPem);
    expect(served.checkHost('etcd.skerry-system.svc')).toBe('etcd.skerry-system.svc');
  });

  it('writes nothing the second time', async () => {
    const first = await ensureManagerPkiSecret(options());
    const { resourceVersion } = cluster.server;
    const second = await ensureManagerPkiSecret(options());
    expect(second.etcdCa.certPem).toBe(first.etcdCa.certPem);
    expect(second.etcdRootPassword).toBe(first.etcdRootPassword);
    expect(cluster.server.resourceVersion).toBe(resourceVersion);
  });

  it('of several managers that make it at once all have the same', async () => {
    const all = await Promise.all(Array.from({ length: 4 }, () => ensureManagerPkiSecret(options())));
    expect(new Set(all.map(({ etcdCa }) => etcdCa.certPem)).size).toBe(1);
    expect(new Set(all.map(({ etcdServer }) => etcdServer.certPem)).size).toBe(1);
  });

  it('renews what is due, keeps the authorities, and hands the new certificate to the datastore', async () => {
    const first = await ensureManagerPkiSecret(options());
    const later = await ensureManagerPkiSecret(options({ now: new Date(now.getTime() + 300 * dayMs) }));
    expect(later.etcdCa.certPem).toBe(first.etcdCa.certPem);
    expect(later.etcdServer.certPem).not.toBe(first.etcdServer.certPem);
    const etcd = cluster.server.get(resources.secrets, { namespace, name: 'etcd' });
    const data = (etcd?.['data'] ?? {}) as Record<string, string>;
    expect(Buffer.from(data['tls.crt'] ?? '', 'base64').toString()).toBe(later.etcdServer.certPem);
  });

  it('makes no second authority for a datastore that has one', async () => {
    await ensureManagerPkiSecret(options());
    await cluster.client.delete(resources.secrets, { namespace, name: 'pki' });
    await expect(ensureManagerPkiSecret(options())).rejects.toThrow('Restore its certificate and key');
    expect(cluster.server.get(resources.secrets, { namespace, name: 'pki' })).toBeUndefined();
  });
});
