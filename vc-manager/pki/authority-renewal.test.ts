import { X509Certificate } from 'node:crypto';
import { beforeAll, describe, expect, it } from 'vitest';
import {
  authorityState,
  cancelledAuthorities,
  defaultOverlapMs,
  ensureAuthorities,
  parseAuthorityRequest,
  reachedStage,
  trustOf,
} from './authority-renewal.ts';
import { createAuthority } from './certificates.ts';
import type { PkiData } from './pki-set.ts';
import { ensureTenantPki } from './tenant.ts';

const now = new Date('2026-05-01T12:00:00Z');
const later = (ms: number): Date => new Date(now.getTime() + ms);
const certificatesIn = (pem: string): number => pem.split('BEGIN CERTIFICATE').length - 1;

describe('a renewal of the authorities', () => {
  let etcdCa: Awaited<ReturnType<typeof createAuthority>>;
  let first: PkiData;
  const tenantPki = (data: PkiData | undefined, at = now) =>
    ensureTenantPki(data, {
      id: 'k3x9q2m7ab',
      clusterDomain: 'cluster.local',
      hosts: ['192.0.2.1'],
      etcdCa,
      now: at,
    });
  beforeAll(async () => {
    etcdCa = await createAuthority({ commonName: 'etcd', now });
    ({ data: first } = await tenantPki(undefined));
  });
  const ensure = (data: PkiData, value?: string, at = now): Promise<PkiData> =>
    ensureAuthorities(data, {
      id: 'k3x9q2m7ab',
      request: value === undefined ? undefined : parseAuthorityRequest(value),
      now: at,
    });
  const stage = (data: PkiData) => authorityState(data).renewal?.stage;

  it('is not begun without a request', async () => {
    expect(await ensure(first)).toBe(first);
    expect(trustOf(first)).toMatchObject({ clientCa: first['client-ca.crt'] });
  });

  it('makes new ones known, then has them sign, then trusts them alone', async () => {
    const told = await ensure(first, 'one overlap=60');
    expect(stage(told)).toBe('distribute');
    expect(told['client-ca.crt']).toBe(first['client-ca.crt']);
    expect(certificatesIn(trustOf(told).clientCa)).toBe(2);
    expect(trustOf(told).serviceAccountKeys.split('BEGIN PUBLIC KEY')).toHaveLength(3);
    // Nothing is issued anew yet.
    expect((await tenantPki(told)).renewals).toEqual([]);

    // As long as it takes: the time counts from when the control plane has it.
    expect(await ensure(told, 'one overlap=60', later(3_600_000))).toBe(told);
    const reached = reachedStage(told, now);
    expect(authorityState(reached).tokenKey).toBeUndefined();
    expect(reachedStage(reached, later(1))).toBe(reached);
    expect(await ensure(reached, 'one overlap=60', later(59_999))).toBe(reached);

    const signing = await ensure(reached, 'one overlap=60', later(60_000));
    expect(stage(signing)).toBe('overlap');
    expect(signing['client-ca.crt']).not.toBe(first['client-ca.crt']);
    for (const name of ['clientCa', 'servingCa', 'frontProxyCa', 'kubeletClientCa'] as const)
      expect(new Set(trustOf(signing)[name].match(/-----BEGIN[^-]*-----[^-]*-----END[^-]*-----/g))).toEqual(
        new Set(trustOf(told)[name].match(/-----BEGIN[^-]*-----[^-]*-----END[^-]*-----/g)),
      );
    // The keys of the old ones are forgotten.
    expect(JSON.stringify(signing)).not.toContain(JSON.stringify(first['client-ca.key']).slice(1, -1));
    const { renewals, pki } = await tenantPki(signing);
    expect(renewals.map(({ name, reason }) => `${name} ${reason}`)).toEqual(
      ['kubelet-client', 'front-proxy-client', 'controller-manager', 'admin', 'syncer', 'manager'].map(
        (name) => `${name} other-authority`,
      ),
    );
    const admin = new X509Certificate(pki.leafs.admin.certPem);
    expect(admin.verify(new X509Certificate(pki.clientCa.certPem).publicKey)).toBe(true);

    const used = reachedStage(signing, later(70_000));
    expect(authorityState(used).tokenKey).toMatch(/^[0-9a-f]{16}$/);
    const ended = await ensure(used, 'one overlap=60', later(130_000));
    expect(authorityState(ended)).toEqual({
      followed: 'one overlap=60',
      tokenKey: authorityState(used).tokenKey,
    });
    // Kubeconfigs from before know the old serving CA alone: it shows itself until the end.
    expect(signing['serving-ca.crt']).toBe(first['serving-ca.crt']);
    expect(ended['serving-ca.crt']).not.toBe(first['serving-ca.crt']);
    expect(trustOf(ended).servingCa).toBe(ended['serving-ca.crt']);
    const last = await tenantPki(ended);
    expect(last.renewals).toContainEqual({ name: 'apiserver', reason: 'other-authority' });
    expect(trustOf(ended).clientCa).toBe(signing['client-ca.crt']);
    expect(trustOf(ended).serviceAccountKeys).toBe(signing['service-account.pub']);
    expect(await ensure(ended, 'one overlap=60', later(1e9))).toBe(ended);
  });

  it('without overlap trusts the new ones alone from the beginning, at any stage of another one', async () => {
    const told = reachedStage(await ensure(first, 'one overlap=60'), now);
    for (const before of [first, told, await ensure(told, 'one overlap=60', later(60_000))]) {
      const data = await ensure(before, 'two overlap=0');
      expect(trustOf(data).clientCa).toBe(data['client-ca.crt']);
      for (const earlier of [trustOf(before).clientCa, trustOf(before).serviceAccountKeys])
        expect(JSON.stringify(data)).not.toContain(JSON.stringify(earlier).slice(1, -1));
      expect(await ensure(data, 'two overlap=0', later(1e9))).toBe(data);
      const ended = await ensure(reachedStage(data, now), 'two overlap=0');
      expect(authorityState(ended)).toMatchObject({
        followed: 'two overlap=0',
        tokenKey: expect.any(String),
      });
      expect(ended['client-ca.crt']).toBe(data['client-ca.crt']);
    }
  });

  it('lets another request with an overlap wait', async () => {
    const told = await ensure(first, 'one overlap=60');
    expect(await ensure(told, 'two overlap=60')).toBe(told);
  });

  it('is cancelled while only the old ones sign, and not later', async () => {
    const told = await ensure(first, 'one overlap=60');
    const cancelled = cancelledAuthorities(told, 'one overlap=60');
    expect(cancelled?.followed).toBe('one overlap=60');
    expect(trustOf(cancelled?.data ?? {})).toEqual(trustOf(first));
    expect(await ensure(cancelled?.data ?? {}, 'one overlap=60')).toBe(cancelled?.data);
    expect(cancelledAuthorities(first, 'one')?.followed).toBe('one');
    const signing = await ensure(reachedStage(told, now), undefined, later(60_000));
    expect(cancelledAuthorities(signing, 'one overlap=60')).toBeUndefined();
  });

  it('is refused where its state is damaged', async () => {
    await expect(ensure({ ...first, 'authorities.json': '{' }, 'one')).rejects.toMatchObject({
      code: 'DamagedAuthority',
    });
  });
});

describe('a request for new authorities', () => {
  it.each([
    ['2026-05-01T12:00:00Z overlap=90', 90_000],
    ['overlap=0', 0],
    ['now', defaultOverlapMs],
    ['one overlap=x', defaultOverlapMs],
    ['one overlap=99999999', 30 * 24 * 3_600_000],
  ])('%s', (value, overlapMs) => {
    expect(parseAuthorityRequest(value)).toEqual({ request: value, overlapMs });
  });
});
