import { createPrivateKey, X509Certificate } from 'node:crypto';
import { describe, expect, it } from 'vitest';
import { createAuthority, createServiceAccountKey, issue, publicPemOf } from './certificates.ts';

const now = new Date('2026-06-01T12:00:00.750Z');
const serverAuth = '1.3.6.1.5.5.7.3.1';
const clientAuth = '1.3.6.1.5.5.7.3.2';
const dayMs = 24 * 60 * 60_000;

describe('createAuthority', () => {
  it('makes a self-signed authority that may sign leafs', async () => {
    const { certPem, keyPem } = await createAuthority({ commonName: 'skerry test CA', years: 2, now });
    const certificate = new X509Certificate(certPem);
    expect(certificate.ca).toBe(true);
    expect(certificate.subject).toBe('CN=skerry test CA');
    expect(certificate.verify(certificate.publicKey)).toBe(true);
    expect(certificate.publicKey.asymmetricKeyDetails).toMatchObject({ namedCurve: 'prime256v1' });
    expect(certificate.checkPrivateKey(createPrivateKey(keyPem))).toBe(true);
    expect(certificate.validFromDate).toEqual(new Date('2026-06-01T11:55:00Z'));
    expect(certificate.validToDate).toEqual(new Date('2028-06-01T00:00:00Z'));
  });

  it('writes dates behind 2049 so that they are read back', async () => {
    const { certPem } = await createAuthority({ commonName: 'skerry test CA', years: 40, now });
    expect(new X509Certificate(certPem).validToDate.getUTCFullYear()).toBe(2066);
  });
});

describe('issue', () => {
  it('makes a leaf with the names, groups and usages asked for', async () => {
    const authority = await createAuthority({ commonName: 'skerry test CA', now });
    const { certPem, keyPem } = await issue(authority, {
      commonName: 'skerry:admin',
      organizations: ['skerry:cluster-admins', 'system:masters'],
      dnsNames: ['Kubernetes.default', '*.example.com'],
      ipAddresses: ['127.0.0.1', 'fd00:0::1'],
      usage: ['server', 'client'],
      now,
    });
    const leaf = new X509Certificate(certPem);
    const issuer = new X509Certificate(authority.certPem);
    expect(leaf.checkIssued(issuer)).toBe(true);
    expect(leaf.verify(issuer.publicKey)).toBe(true);
    expect(leaf.ca).toBe(false);
    expect(leaf.checkPrivateKey(createPrivateKey(keyPem))).toBe(true);
    expect(leaf.subject).toBe('O=skerry:cluster-admins\nO=system:masters\nCN=skerry:admin');
    expect(leaf.keyUsage).toEqual([serverAuth, clientAuth]);
    expect(leaf.checkHost('kubernetes.default')).toBe('kubernetes.default');
    expect(leaf.checkHost('a.example.com')).toBe('*.example.com');
    expect(leaf.checkHost('example.com')).toBeUndefined();
    expect(leaf.checkIP('127.0.0.1')).toBe('127.0.0.1');
    expect(leaf.checkIP('fd00::1')).toBe('fd00::1');
    expect(leaf.checkIP('127.0.0.2')).toBeUndefined();
    expect(leaf.validFromDate).toEqual(new Date('2026-06-01T11:55:00Z'));
    expect(leaf.validToDate).toEqual(new Date('2027-06-01T12:00:00Z'));
  });

  it('gives a client certificate neither the server usage nor alternative names', async () => {
    const authority = await createAuthority({ commonName: 'skerry test CA' });
    const { certPem } = await issue(authority, { commonName: 'someone', usage: ['client'] });
    const leaf = new X509Certificate(certPem);
    expect(leaf.keyUsage).toEqual([clientAuth]);
    expect(leaf.subjectAltName).toBeUndefined();
  });

  it('can name nobody', async () => {
    const authority = await createAuthority({ commonName: 'skerry test CA' });
    const { certPem } = await issue(authority, {
      commonName: '',
      organizations: ['group'],
      usage: ['client'],
    });
    expect(new X509Certificate(certPem).subject).toBe('O=group');
  });

  it('gives each certificate a serial number of its own that is positive and of 128 bits', async () => {
    const authority = await createAuthority({ commonName: 'skerry test CA' });
    const pairs = await Promise.all(
      Array.from({ length: 64 }, () => issue(authority, { commonName: 'x', usage: ['client'] })),
    );
    const serials = pairs.map(({ certPem }) => new X509Certificate(certPem).serialNumber);
    expect(new Set(serials).size).toBe(serials.length);
    expect(serials.filter((serial) => !/^[0-9A-F]{1,32}$/.test(serial))).toEqual([]);
    expect(serials.some((serial) => serial.length === 32 && serial >= '8')).toBe(true);
  });

  it('never lets a leaf outlive its authority', async () => {
    const authority = await createAuthority({ commonName: 'skerry test CA', years: 0.01, now });
    const { certPem } = await issue(authority, { commonName: 'x', usage: ['client'], now });
    expect(new X509Certificate(certPem).validToDate).toEqual(
      new X509Certificate(authority.certPem).validToDate,
    );
  });

  it('refuses an authority that is expired, is none, or has the key of another', async () => {
    const authority = await createAuthority({ commonName: 'skerry test CA', years: 1, now });
    const other = await createAuthority({ commonName: 'skerry test CA', years: 1, now });
    const request = { commonName: 'x', usage: ['client'] as const, now };
    const leaf = await issue(authority, request);
    await expect(
      issue(authority, { ...request, now: new Date(now.getTime() + 366 * dayMs) }),
    ).rejects.toMatchObject({
      code: 'ExpiredAuthority',
    });
    await expect(issue(leaf, request)).rejects.toMatchObject({ code: 'DamagedAuthority' });
    await expect(issue({ ...authority, keyPem: other.keyPem }, request)).rejects.toMatchObject({
      code: 'DamagedAuthority',
    });
    await expect(issue({ ...authority, keyPem: '' }, request)).rejects.toMatchObject({
      code: 'DamagedAuthority',
    });
  });

  it.each([
    '',
    'a_b',
    'a..b',
    '-a',
    'a b',
    'http://a',
    '*',
    '*.com',
    'a.*.b',
    '1.2.3',
    `${'a'.repeat(64)}.b`,
    'é.b',
    'fe80::1%eth0',
  ])('refuses the name %j', async (host) => {
    const authority = await createAuthority({ commonName: 'skerry test CA' });
    await expect(
      issue(authority, { commonName: 'x', dnsNames: [host], usage: ['server'] }),
    ).rejects.toMatchObject({
      code: 'InvalidName',
      subject: host,
    });
  });

  it('refuses a life of no length', async () => {
    const authority = await createAuthority({ commonName: 'skerry test CA' });
    await expect(
      issue(authority, { commonName: 'x', usage: ['client'], validForMs: 0 }),
    ).rejects.toMatchObject({
      code: 'InvalidValidity',
    });
  });
});

describe('createServiceAccountKey', () => {
  it('makes two halves of one key', async () => {
    const { privatePem, publicPem } = await createServiceAccountKey();
    expect(publicPemOf(privatePem)).toBe(publicPem);
  });
});
