import { beforeAll, describe, expect, it } from 'vitest';
import { type CertificateAuthority, createAuthority } from './authority.ts';
import type { PkiData } from './pki-set.ts';
import { ensureTenantPki } from './tenant.ts';

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
        code: 'damaged-authority',
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
          code: 'damaged-authority',
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
      code: 'damaged-authority',
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
    await expect(ensure({})).rejects.toMatchObject({ code: 'damaged-authority' });
  });

  it('is not given a new token key when the stored one cannot be read or is lost', async () => {
    await expect(ensure({ ...first.data, 'service-account.key': 'nonsense' })).rejects.toMatchObject({
      code: 'damaged-authority',
    });
    const { 'service-account.key': _lost, ...rest } = first.data;
    await expect(ensure(rest)).rejects.toMatchObject({ code: 'damaged-authority' });
  });
});
