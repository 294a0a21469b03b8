import { X509Certificate } from 'node:crypto';
import { beforeAll, describe, expect, it } from 'vitest';
import { type CertificateAuthority, createAuthority } from './certificates.ts';
import type { PkiData } from './pki-set.ts';
import { ensureTenantPki, type TenantPki } from './tenant.ts';

describe('tenant', () => {
  const start = new Date('2026-06-01T12:00:00Z');
  const dayMs = 24 * 60 * 60_000;

  let etcdCa: CertificateAuthority;

  beforeAll(async () => {
    etcdCa = await createAuthority({ commonName: 'datastore', now: start });
  });

  function onDay(days: number): Date {
    return new Date(start.getTime() + days * dayMs);
  }

  async function ensure(existing?: PkiData, changes: Partial<Parameters<typeof ensureTenantPki>[1]> = {}) {
    return await ensureTenantPki(existing, {
      id: 'k3x9q2m7ab',
      clusterDomain: 'cluster.local',
      serviceAddress: '10.112.4.1',
      hosts: ['192.0.2.7', 'blue.example.com'],
      etcdCa,
      now: start,
      ...changes,
    });
  }

  function parsed(pair: { certPem: string }): X509Certificate {
    return new X509Certificate(pair.certPem);
  }

  function isSignedBy(pair: { certPem: string }, authority: { certPem: string }): boolean {
    return parsed(pair).checkIssued(parsed(authority)) && parsed(pair).verify(parsed(authority).publicKey);
  }

  const lifelong = [
    'client-ca.crt',
    'client-ca.key',
    'serving-ca.crt',
    'serving-ca.key',
    'front-proxy-ca.crt',
    'front-proxy-ca.key',
    'kubelet-client-ca.crt',
    'kubelet-client-ca.key',
    'service-account.key',
    'service-account.pub',
  ];

  function changedEntries(before: PkiData, now: PkiData): string[] {
    return Object.keys(now)
      .filter((name) => before[name] !== now[name])
      .sort();
  }

  describe('a new tenant', () => {
    it('has each leaf signed by the one authority that should know it', async () => {
      const { pki, changed } = await ensure();
      expect(changed).toBe(true);
      const authorities = {
        clientCa: pki.clientCa,
        servingCa: pki.servingCa,
        frontProxyCa: pki.frontProxyCa,
        kubeletClientCa: pki.kubeletClientCa,
        etcdCa,
      };
      const signers = Object.fromEntries(
        Object.entries(pki.leafs).map(([name, leaf]) => [
          name,
          Object.entries(authorities).flatMap(([ca, authority]) => (isSignedBy(leaf, authority) ? [ca] : [])),
        ]),
      );
      expect(signers).toEqual({
        apiserver: ['servingCa'],
        kubeletClient: ['kubeletClientCa'],
        frontProxyClient: ['frontProxyCa'],
        controllerManager: ['clientCa'],
        etcdClient: ['etcdCa'],
        admin: ['clientCa'],
        syncer: ['clientCa'],
        manager: ['clientCa'],
      });
    });

    it('has the users and groups that Kubernetes and etcd are to see', async () => {
      const { pki } = await ensure();
      const subjects = Object.fromEntries(
        Object.entries(pki.leafs).map(([name, leaf]) => [name, parsed(leaf).subject.split('\n')]),
      );
      expect(subjects).toEqual({
        apiserver: ['CN=kube-apiserver'],
        kubeletClient: ['O=skerry:kubelet-clients', 'CN=tenant-k3x9q2m7ab'],
        frontProxyClient: ['CN=front-proxy-client'],
        controllerManager: ['CN=system:kube-controller-manager'],
        etcdClient: ['CN=tenant-k3x9q2m7ab'],
        admin: ['O=skerry:cluster-admins', 'CN=skerry:admin'],
        syncer: ['O=system:masters', 'CN=skerry:syncer'],
        manager: ['O=system:masters', 'CN=skerry:manager'],
      });
    });

    it('has an API server with every name that a pod, the syncer or a person dials, and no other', async () => {
      const { pki } = await ensure();
      const names = parsed(pki.leafs.apiserver).subjectAltName?.split(', ').sort();
      expect(names).toEqual([
        'DNS:blue.example.com',
        'DNS:kubernetes',
        'DNS:kubernetes.default',
        'DNS:kubernetes.default.svc',
        'DNS:kubernetes.default.svc.cluster.local',
        'DNS:localhost',
        'IP Address:10.112.4.1',
        'IP Address:127.0.0.1',
        'IP Address:192.0.2.7',
      ]);
    });

    it('has only the API server as server', async () => {
      const { pki } = await ensure();
      const servers = Object.entries(pki.leafs).filter(([, leaf]) =>
        parsed(leaf).keyUsage.includes('1.3.6.1.5.5.7.3.1'),
      );
      expect(servers.map(([name]) => name)).toEqual(['apiserver']);
    });

    it('shares nothing with another tenant', async () => {
      const one = await ensure();
      const two = await ensure(undefined, { id: 'other' });
      const texts = new Set(Object.values(one.data));
      expect(Object.values(two.data).filter((text) => texts.has(text))).toEqual([]);
    });

    it('has authorities whose names tell the kubelet proxy whose they are', async () => {
      const { pki } = await ensure();
      expect(parsed(pki.kubeletClientCa).subject).toBe('CN=skerry k3x9q2m7ab kubelet-client CA');
      expect(parsed(pki.frontProxyCa).subject).toBe('CN=skerry k3x9q2m7ab front-proxy CA');
    });

    it('is refused an id that could reach into another tenant', async () => {
      await expect(ensure(undefined, { id: 'a/b' })).rejects.toMatchObject({ code: 'InvalidTenantId' });
    });
  });

  describe('a tenant that has a PKI', () => {
    let first: Awaited<ReturnType<typeof ensure>>;
    beforeAll(async () => {
      first = await ensure();
    });

    it('is left alone while nothing is due', async () => {
      const again = await ensure(first.data, { now: onDay(4.6) });
      expect(again.changed).toBe(false);
      expect(again.renewals).toEqual([]);
      expect(again.data).toEqual(first.data);
    });

    it('says when the first leaf is due, and renews it then and not before', async () => {
      const justBefore = await ensure(first.data, { now: new Date(first.renewAt.getTime() - 1000) });
      expect(justBefore.renewals).toEqual([]);
      const then = await ensure(first.data, { now: first.renewAt });
      expect(then.renewals).toEqual([
        { name: 'syncer', reason: 'due' },
        { name: 'manager', reason: 'due' },
      ]);
      expect(then.renewAt.getTime()).toBeGreaterThan(first.renewAt.getTime() + 4 * dayMs);
    });

    it('gives system:masters a week at most and people a year', () => {
      const days = (pair: TenantPki['clientCa']) =>
        Math.ceil((parsed(pair).validToDate.getTime() - start.getTime()) / dayMs);
      expect(days(first.pki.leafs.syncer)).toBe(7);
      expect(days(first.pki.leafs.manager)).toBe(7);
      expect(days(first.pki.leafs.admin)).toBe(365);
    });

    it('gets every leaf anew past two thirds of a year and keeps what it keeps for life', async () => {
      const later = await ensure(first.data, { now: onDay(244) });
      expect(later.renewals.map(({ name }) => name).sort()).toEqual([
        'admin',
        'apiserver',
        'controller-manager',
        'etcd-client',
        'front-proxy-client',
        'kubelet-client',
        'manager',
        'syncer',
      ]);
      for (const name of lifelong) expect(later.data[name]).toBe(first.data[name]);
      expect(isSignedBy(later.pki.leafs.apiserver, first.pki.servingCa)).toBe(true);
      expect(parsed(later.pki.leafs.apiserver).validToDate).toEqual(onDay(244 + 365));
    });

    it('gets a new serving certificate when its names change, and nothing else', async () => {
      const changed = await ensure(first.data, { hosts: ['192.0.2.7', 'green.example.com'] });
      expect(changed.renewals).toEqual([{ name: 'apiserver', reason: 'names-changed' }]);
      expect(changedEntries(first.data, changed.data)).toEqual(['apiserver.crt', 'apiserver.key']);
      expect(parsed(changed.pki.leafs.apiserver).checkHost('green.example.com')).toBe('green.example.com');
      expect(parsed(changed.pki.leafs.apiserver).checkHost('blue.example.com')).toBeUndefined();
    });

    it('does not take the same names in another order or spelling for a change', async () => {
      const v6 = await ensure(undefined, {
        hosts: ['fd00:0:0::0a', 'Blue.example.com', '192.0.2.7', 'kubernetes'],
      });
      const again = await ensure(v6.data, { hosts: ['192.0.2.7', 'fd00::a', 'blue.example.com.'] });
      expect(again.renewals).toEqual([]);
    });

    it('gets a new datastore certificate when the datastore has another authority', async () => {
      const otherCa = await createAuthority({ commonName: 'datastore', now: start });
      const changed = await ensure(first.data, { etcdCa: otherCa });
      expect(changed.renewals).toEqual([{ name: 'etcd-client', reason: 'other-authority' }]);
      expect(isSignedBy(changed.pki.leafs.etcdClient, otherCa)).toBe(true);
    });

    it.each([
      ['missing', ({ 'admin.key': _lost, ...rest }: PkiData) => rest],
      ['unreadable', (data: PkiData) => ({ ...data, 'admin.crt': 'nonsense' })],
      ['key-mismatch', (data: PkiData) => ({ ...data, 'admin.key': data['syncer.key'] ?? '' })],
      ['subject-changed', withSyncerAsAdmin],
    ] as const)('gets a new leaf when the stored one is %s', async (reason, damage) => {
      const data = damage(first.data);
      const mended = await ensure(data);
      expect(mended.renewals).toEqual([{ name: 'admin', reason }]);
      expect(changedEntries(data, mended.data)).toContain('admin.key');
    });

    it('gets leafs that are valid now when the clock was wrong while they were made', async () => {
      const { renewals } = await ensure(first.data, { now: onDay(-30) });
      expect(renewals).toContainEqual({ name: 'admin', reason: 'not-yet-valid' });
    });

    it('gets every leaf anew when somebody asks for it, once for each request', async () => {
      const before = await ensure();
      const asked = await ensure(before.data, { renewal: 'one' });
      expect(asked.renewals.map(({ reason }) => reason)).toEqual(new Array(8).fill('asked'));
      for (const name of lifelong) expect(asked.data[name]).toBe(before.data[name]);
      expect(await ensure(asked.data, { renewal: 'one' })).toMatchObject({ changed: false, renewals: [] });
      expect((await ensure(asked.data)).changed).toBe(false);
      expect((await ensure(asked.data, { renewal: 'two' })).renewals).toHaveLength(8);
    });

    it.each([
      [true, 10],
      [false, 9],
    ])(
      'has a datastore of its own whose data is kept: %s, and gets %d leafs anew on request',
      async (isKept, count) => {
        const ownDatastore = { hosts: ['etcd.example.com'], isKept };
        const before = await ensure(undefined, { ownDatastore });
        const { renewals } = await ensure(before.data, { ownDatastore, renewal: 'one' });
        expect(renewals).toHaveLength(count);
        expect(renewals.some(({ name }) => name === 'etcd-server')).toBe(isKept);
        const due = await ensure(before.data, { ownDatastore, now: onDay(300) });
        expect(due.renewals).toHaveLength(10);
      },
    );

    it('keeps leafs that are due while their renewal is held, and says since when they are', async () => {
      const before = await ensure();
      const held = await ensure(before.data, { isHeld: true, now: onDay(5) });
      expect(held).toMatchObject({ changed: false, renewAt: before.renewAt });
      expect((await ensure(before.data, { now: onDay(5) })).renewals).toHaveLength(2);
      const asked = await ensure(before.data, { isHeld: true, renewal: 'one', now: onDay(5) });
      const all = await ensure(before.data, { renewal: 'one' });
      expect(asked.renewals.map(({ name }) => name)).toEqual(all.renewals.map(({ name }) => name));
    });

    it('keeps entries that it does not know', async () => {
      const { data } = await ensure({ ...first.data, 'note.txt': 'mine' });
      expect(data['note.txt']).toBe('mine');
    });
  });

  function withSyncerAsAdmin(data: PkiData): PkiData {
    return { ...data, 'admin.crt': data['syncer.crt'] ?? '', 'admin.key': data['syncer.key'] ?? '' };
  }
});

describe('tenant losses', () => {
  const now = new Date('2026-06-01T12:00:00Z');
  const lifelong = /^(.*-ca|service-account)\./;

  let etcdCa: CertificateAuthority;
  let first: Awaited<ReturnType<typeof ensure>>;

  beforeAll(async () => {
    etcdCa = await createAuthority({ commonName: 'skerry datastore CA', now });
    first = await ensure();
  });

  function ensure(
    existing?: PkiData,
    changes: { ownDatastore?: { hosts: string[] }; wasStarted?: boolean } = {},
  ) {
    const hosts = ['192.0.2.7'];
    return ensureTenantPki(existing, {
      id: 'k3x9q2m7ab',
      clusterDomain: 'c.local',
      hosts,
      etcdCa,
      now,
      ...changes,
    });
  }

  describe('a tenant whose PKI is only partly there', () => {
    it.each(['client-ca.key', 'client-ca.crt', 'serving-ca.key', 'front-proxy-ca.crt'])(
      'is not given a new authority when only %s is lost',
      async (name) => {
        const { [name]: _lost, ...rest } = first.data;
        await expect(ensure(rest)).rejects.toMatchObject({
          code: 'DamagedAuthority',
          subject: name.replace(/\.(crt|key)$/, ''),
          message: expect.stringContaining('backup'),
        });
      },
    );

    it.each(['client-ca', 'serving-ca', 'front-proxy-ca', 'kubelet-client-ca', 'service-account'])(
      'is not given a second %s when all of it is lost, with what it signed or without',
      async (name) => {
        const parts = [`${name}.crt`, `${name}.key`, `${name}.pub`];
        const rest = Object.fromEntries(Object.entries(first.data).filter(([part]) => !parts.includes(part)));
        const authorities = Object.fromEntries(Object.entries(rest).filter(([part]) => lifelong.test(part)));
        for (const data of [rest, authorities]) {
          await expect(ensure(data)).rejects.toMatchObject({
            code: 'DamagedAuthority',
            subject: name,
            message: expect.stringContaining('backup'),
          });
        }
      },
    );

    it('is given a new authority when somebody has emptied both entries of one, and nothing else is lost', async () => {
      const { data, renewals } = await ensure({ ...first.data, 'client-ca.crt': '', 'client-ca.key': '' });
      expect(data['client-ca.key']).toMatch(/PRIVATE KEY/);
      expect(data['client-ca.key']).not.toBe(first.data['client-ca.key']);
      expect(data['serving-ca.key']).toBe(first.data['serving-ca.key']);
      expect(renewals.map(({ name, reason }) => `${name} ${reason}`).sort()).toEqual([
        'admin other-authority',
        'controller-manager other-authority',
        'manager other-authority',
        'syncer other-authority',
      ]);
      const { 'client-ca.key': _lost, ...half } = first.data;
      await expect(ensure({ ...half, 'client-ca.crt': '' })).rejects.toMatchObject({
        code: 'DamagedAuthority',
      });
    });

    it('is given an authority for an etcd of its own once, and not when that is lost', async () => {
      const ownDatastore = { hosts: ['10.96.0.8'] };
      const { data } = await ensure(first.data, { ownDatastore });
      expect(data['etcd-ca.crt']).toMatch(/CERTIFICATE/);
      const { 'etcd-ca.crt': _crt, 'etcd-ca.key': _key, ...rest } = data;
      await expect(ensure(rest, { ownDatastore })).rejects.toMatchObject({ subject: 'etcd-ca' });
      // Not even when nothing tells any more that there was one.
      await expect(ensure(first.data, { ownDatastore, wasStarted: true })).rejects.toMatchObject({
        subject: 'etcd-ca',
      });
    });

    it('is given nothing in the place of a Secret that has come back empty', async () => {
      await expect(ensure({})).rejects.toMatchObject({ code: 'DamagedAuthority' });
    });

    it('is not given a new token key when the stored one cannot be read or is lost', async () => {
      await expect(ensure({ ...first.data, 'service-account.key': 'nonsense' })).rejects.toMatchObject({
        code: 'DamagedAuthority',
      });
      const { 'service-account.key': _lost, ...rest } = first.data;
      await expect(ensure(rest)).rejects.toMatchObject({ code: 'DamagedAuthority' });
    });
  });
});
