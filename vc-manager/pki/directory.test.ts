import { X509Certificate } from 'node:crypto';
import { chmod, mkdir, mkdtemp, readdir, readFile, rm, stat, writeFile } from 'node:fs/promises';
import { tmpdir } from 'node:os';
import { dirname, join } from 'node:path';
import { afterEach, beforeEach, describe, expect, it } from 'vitest';
import { ensureManagerPki } from './manager.ts';
import { ensureSuperClusterPki } from './super-cluster.ts';

const now = new Date('2026-06-01T12:00:00Z');
const dayMs = 24 * 60 * 60_000;
let root: string;
let directory: string;

beforeEach(async () => {
  root = await mkdtemp(join(tmpdir(), 'skerry-pki-'));
  directory = join(root, 'state', 'pki');
});

afterEach(async () => {
  await rm(root, { recursive: true, force: true });
});

async function modeOf(path: string): Promise<string> {
  return ((await stat(path)).mode & 0o777).toString(8);
}

function isSignedBy(leaf: { certPem: string }, authority: { certPem: string }): boolean {
  const issuer = new X509Certificate(authority.certPem);
  const certificate = new X509Certificate(leaf.certPem);
  return certificate.checkIssued(issuer) && certificate.verify(issuer.publicKey);
}

describe('ensureManagerPki', () => {
  it('keeps keys and the password to its owner and leaves nothing else behind', async () => {
    await ensureManagerPki(directory, { now });
    expect(await modeOf(directory)).toBe('700');
    const names = await readdir(directory);
    const secret = names.filter((name) => !name.endsWith('.crt'));
    expect(secret.sort()).toEqual([
      'etcd-ca.key',
      'etcd-manager.key',
      'etcd-root.password',
      'etcd-server.key',
      'kubelet-proxy-ca.key',
      'kubelet-proxy.key',
    ]);
    for (const name of secret) expect(await modeOf(join(directory, name))).toBe('600');
    expect(await readdir(dirname(directory))).toEqual(['pki']);
  });

  it('gives etcd a certificate that serves and dials, and a manager that etcd takes for nobody', async () => {
    const pki = await ensureManagerPki(directory, { etcdHosts: ['192.0.2.7'], now });
    const server = new X509Certificate(pki.etcdServer.certPem);
    expect(server.keyUsage).toEqual(['1.3.6.1.5.5.7.3.1', '1.3.6.1.5.5.7.3.2']);
    expect(server.checkIP('192.0.2.7')).toBe('192.0.2.7');
    expect(new X509Certificate(pki.etcdManager.certPem).subject).toBe('O=skerry:manager');
    expect(isSignedBy(pki.etcdServer, pki.etcdCa)).toBe(true);
    expect(isSignedBy(pki.etcdManager, pki.etcdCa)).toBe(true);
    expect(isSignedBy(pki.kubeletProxy, pki.kubeletProxyCa)).toBe(true);
    expect(isSignedBy(pki.kubeletProxy, pki.etcdCa)).toBe(false);
    // As the API servers of tenants call it, when they take it for the server of their metrics API.
    expect(
      new X509Certificate(pki.kubeletProxy.certPem).checkHost('skerry-metrics.kube-system.svc'),
    ).toBeDefined();
    expect(pki.etcdRootPassword.length).toBeGreaterThanOrEqual(32);
  });

  it('finds everything again, and renews leafs in place when they are due', async () => {
    const first = await ensureManagerPki(directory, { now });
    expect(await ensureManagerPki(directory, { now })).toEqual({ ...first, renewals: [] });
    const later = await ensureManagerPki(directory, { now: new Date(now.getTime() + 250 * dayMs) });
    expect(later.renewals.map(({ name, reason }) => `${name} ${reason}`)).toEqual([
      'etcd-server due',
      'etcd-manager due',
      'kubelet-proxy due',
    ]);
    expect(later.etcdCa).toEqual(first.etcdCa);
    expect(later.etcdRootPassword).toBe(first.etcdRootPassword);
    expect(await readFile(join(directory, 'etcd-server.crt'), 'utf8')).toBe(later.etcdServer.certPem);
    expect(later.etcdServer.certPem).not.toBe(first.etcdServer.certPem);
    expect((await readdir(directory)).filter((name) => name.endsWith('.new'))).toEqual([]);
  });

  it('gives all of several processes that start at once the same authorities', async () => {
    const all = await Promise.all(Array.from({ length: 6 }, () => ensureManagerPki(directory, { now })));
    const stored = await readFile(join(directory, 'etcd-ca.crt'), 'utf8');
    expect(all.map(({ etcdCa }) => etcdCa.certPem)).toEqual(all.map(() => stored));
    expect(new Set(all.map(({ etcdRootPassword }) => etcdRootPassword)).size).toBe(1);
    expect(await readdir(dirname(directory))).toEqual(['pki']);
  });

  it('closes a directory that stood open, and mends a leaf that is half gone', async () => {
    await ensureManagerPki(directory, { now });
    await chmod(directory, 0o755);
    await rm(join(directory, 'etcd-server.key'));
    const second = await ensureManagerPki(directory, { now });
    expect(await modeOf(directory)).toBe('700');
    expect(second.renewals).toEqual([{ name: 'etcd-server', reason: 'missing' }]);
  });

  it('stops at an authority that is half gone instead of replacing it', async () => {
    await ensureManagerPki(directory, { now });
    await rm(join(directory, 'etcd-ca.key'));
    await expect(ensureManagerPki(directory, { now })).rejects.toMatchObject({ code: 'DamagedAuthority' });
  });

  it.each([['etcd-ca.key', 'etcd-ca.crt'], ['etcd-root.password']])(
    'makes no other one of what is lost: %s',
    async (...names) => {
      await ensureManagerPki(directory, { now });
      for (const name of names) await rm(join(directory, name));
      await expect(ensureManagerPki(directory, { now })).rejects.toMatchObject({ code: 'DamagedAuthority' });
    },
  );

  it('refuses to use a file as directory', async () => {
    await mkdir(dirname(directory));
    await writeFile(directory, '');
    await expect(ensureManagerPki(directory, { now })).rejects.toMatchObject({ code: 'UnsafeDirectory' });
  });
});

describe('ensureSuperClusterPki', () => {
  it('gives every component a user of its own and the API server its names', async () => {
    const pki = await ensureSuperClusterPki(directory, {
      serviceAddress: '10.96.0.1',
      clusterDomain: 'cluster.local',
      hosts: ['192.0.2.7'],
      now,
    });
    const users = {
      admin: pki.admin,
      scheduler: pki.scheduler,
      manager: pki.controllerManager,
      kwok: pki.kwok,
    };
    const subjects = Object.fromEntries(
      Object.entries(users).map(([name, pair]) => [
        name,
        new X509Certificate(pair.certPem).subject.split('\n').at(-1),
      ]),
    );
    expect(subjects).toEqual({
      admin: 'CN=system:admin',
      scheduler: 'CN=system:kube-scheduler',
      manager: 'CN=system:kube-controller-manager',
      kwok: 'CN=system:kwok',
    });
    for (const pair of Object.values(users)) expect(isSignedBy(pair, pki.clientCa)).toBe(true);
    const server = new X509Certificate(pki.apiserver.certPem);
    for (const address of ['10.96.0.1', '127.0.0.1', '192.0.2.7'])
      expect(server.checkIP(address)).toBe(address);
    expect(server.checkHost('kubernetes.default.svc.cluster.local')).toBeDefined();
    expect(isSignedBy(pki.apiserver, pki.servingCa)).toBe(true);
    expect(isSignedBy(pki.etcdClient, pki.etcdCa)).toBe(true);
    expect(isSignedBy(pki.frontProxyClient, pki.frontProxyCa)).toBe(true);
  });

  it('keeps its token key', async () => {
    const options = { serviceAddress: '10.96.0.1', clusterDomain: 'cluster.local', now };
    const { serviceAccountKey } = await ensureSuperClusterPki(directory, options);
    expect(serviceAccountKey.publicPem).toContain('BEGIN PUBLIC KEY');
    const later = { ...options, now: new Date(now.getTime() + 300 * dayMs) };
    expect((await ensureSuperClusterPki(directory, later)).serviceAccountKey).toEqual(serviceAccountKey);
  });
});
