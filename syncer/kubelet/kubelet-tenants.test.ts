import { X509Certificate } from 'node:crypto';
import { beforeAll, describe, expect, it } from 'vitest';
import { AuthorityDirectory, type ClientAuthorities, type Purpose } from './kubelet-tenants.ts';
import { type LeafOptions, TestAuthority } from './testing/certificates.ts';

interface TestTenant {
  readonly id: string;
  readonly kubelet: TestAuthority;
  readonly proxy: TestAuthority;
}

async function tenant(id: string): Promise<TestTenant> {
  const kubelet = await TestAuthority.create(`skerry ${id} kubelet-client CA`);
  return { id, kubelet, proxy: await TestAuthority.create(`skerry ${id} front-proxy CA`) };
}

const of = ({ kubelet, proxy }: TestTenant): ClientAuthorities => ({
  kubeletClient: kubelet.cert,
  frontProxy: proxy.cert,
});

let blue: TestTenant;
let green: TestTenant;
beforeAll(async () => {
  [blue, green] = await Promise.all([tenant('blue'), tenant('green')]);
});

function directory(): AuthorityDirectory {
  const known = new AuthorityDirectory();
  known.set('uid-blue', 'blue', of(blue));
  known.set('uid-green', 'green', of(green));
  return known;
}

async function shown(
  authority: TestAuthority,
  subject: string,
  {
    purpose = 'kubeletClient',
    known = directory(),
    nowMs = Date.now(),
    ...leaf
  }: LeafOptions & { purpose?: Purpose; known?: AuthorityDirectory; nowMs?: number } = {},
): Promise<string> {
  const { cert } = await authority.issue(subject, leaf);
  const found = known.identify(new X509Certificate(cert), purpose, nowMs);
  return typeof found === 'string' ? found : found.tenant;
}

describe('whose API server it is', () => {
  it('is told by the authority that signed the certificate', async () => {
    expect(await shown(blue.kubelet, 'CN=tenant-blue')).toBe('uid-blue');
    expect(await shown(green.kubelet, 'O=skerry:kubelet-clients,CN=tenant-green')).toBe('uid-green');
    expect(await shown(green.proxy, 'CN=front-proxy-client', { purpose: 'frontProxy' })).toBe('uid-green');
  });

  it('is never told by the name alone: A is not B', async () => {
    expect(await shown(blue.kubelet, 'CN=tenant-green')).toMatch(/does not bear the name/);
    const impostor = await TestAuthority.create('skerry green kubelet-client CA');
    expect(await shown(impostor, 'CN=tenant-green')).toMatch(/no tenant .* signed it/);
    const unknown = await TestAuthority.create('somebody');
    expect(await shown(unknown, 'CN=tenant-green')).toMatch(/no tenant .* signed it/);
  });

  it('is not told by a certificate for something else of the same tenant', async () => {
    expect(await shown(blue.proxy, 'CN=tenant-blue')).toMatch(/no tenant .* for this/);
    const other = { purpose: 'frontProxy' } as const;
    expect(await shown(blue.kubelet, 'CN=front-proxy-client', other)).toMatch(/no tenant .* for this/);
    expect(await shown(blue.proxy, 'CN=tenant-blue', other)).toMatch(/does not bear the name/);
  });

  it('is not told by one that is expired, not valid yet, for servers, or an authority itself', async () => {
    const hour = 3_600_000;
    const now = Date.now();
    const expired = { notAfter: new Date(now - hour), notBefore: new Date(now - 2 * hour) };
    expect(await shown(blue.kubelet, 'CN=tenant-blue', expired)).toMatch(/not valid at this time/);
    const early = { notBefore: new Date(now + hour) };
    expect(await shown(blue.kubelet, 'CN=tenant-blue', early)).toMatch(/not valid at this time/);
    // The leaf would still be good, but not its authority.
    const late = { notAfter: new Date(now + 72 * hour), nowMs: now + 48 * hour };
    expect(await shown(blue.kubelet, 'CN=tenant-blue', late)).toMatch(/not valid at this time/);
    for (const usage of ['server', 'none'] as const)
      expect(await shown(blue.kubelet, 'CN=tenant-blue', { usage })).toMatch(/not for clients/);
    expect(await shown(blue.kubelet, 'CN=tenant-blue', { isAuthority: true })).toMatch(/of an authority/);
    expect(await shown(blue.kubelet, 'CN=tenant-blue,CN=tenant-green')).toMatch(/does not bear the name/);
  });

  it('is forgotten with the tenant', async () => {
    const known = directory();
    known.delete('uid-blue');
    expect(await shown(blue.kubelet, 'CN=tenant-blue', { known })).toMatch(/no tenant/);
    expect(await shown(green.kubelet, 'CN=tenant-green', { known })).toBe('uid-green');
  });
});

describe('a tenant with other authorities', () => {
  it('is known by the new ones only', async () => {
    const known = directory();
    const rotated = await tenant('blue');
    expect(known.set('uid-blue', 'blue', of(blue))).toBe(false);
    expect(known.set('uid-blue', 'blue', of(rotated))).toBe(true);
    expect(await shown(blue.kubelet, 'CN=tenant-blue', { known })).toMatch(/no tenant/);
    expect(await shown(rotated.kubelet, 'CN=tenant-blue', { known })).toBe('uid-blue');
  });

  it('is known by both while they are renewed, and no connection is closed before the old ones go', async () => {
    const known = directory();
    const rotated = await tenant('blue');
    const both = {
      kubeletClient: of(blue).kubeletClient + of(rotated).kubeletClient,
      frontProxy: of(rotated).frontProxy + of(blue).frontProxy,
    };
    expect(known.set('uid-blue', 'blue', both)).toBe(false);
    for (const each of [blue, rotated]) {
      expect(await shown(each.kubelet, 'CN=tenant-blue', { known })).toBe('uid-blue');
      const proxy = { known, purpose: 'frontProxy' } as const;
      expect(await shown(each.proxy, 'CN=front-proxy-client', proxy)).toBe('uid-blue');
    }
    expect(known.set('uid-blue', 'blue', of(rotated))).toBe(true);
    expect(await shown(blue.kubelet, 'CN=tenant-blue', { known })).toMatch(/no tenant/);
    expect(await shown(rotated.kubelet, 'CN=tenant-blue', { known })).toBe('uid-blue');
    known.delete('uid-blue');
    expect(await shown(rotated.kubelet, 'CN=tenant-blue', { known })).toMatch(/no tenant/);
  });

  it('cannot bring those of another tenant beside its own', async () => {
    const known = directory();
    const frontProxy = of(blue).frontProxy;
    const kubeletClient = of(blue).kubeletClient + of(green).kubeletClient;
    expect(() => known.set('uid-blue', 'blue', { kubeletClient, frontProxy })).toThrow('has to be called');
    expect(await shown(green.kubelet, 'CN=tenant-green', { known })).toBe('uid-green');
  });

  it('cannot bring those of another tenant, nor what is none', async () => {
    const known = directory();
    expect(() => known.set('uid-red', 'red', of(green))).toThrow('has to be called "CN=skerry red');
    const leaf = await TestAuthority.create('skerry red kubelet-client CA', false);
    const proxy = await TestAuthority.create('skerry red front-proxy CA');
    expect(() => known.set('uid-red', 'red', { kubeletClient: leaf.cert, frontProxy: proxy.cert })).toThrow(
      'not the certificate of an authority',
    );
    expect(() => known.set('uid-red', 'red', { kubeletClient: 'x', frontProxy: 'y' })).toThrow();
    expect(await shown(green.kubelet, 'CN=tenant-green', { known })).toBe('uid-green');
  });
});
