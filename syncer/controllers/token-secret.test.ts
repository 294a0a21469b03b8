import fc from 'fast-check';
import { describe, expect, it } from 'vitest';
import { annotationKeys, labelKeys } from '../../api/labels.ts';
import { applyMergePatch, type KubeObject } from '../../kube/index.ts';
import { podKind } from '../kinds/pods/pods.ts';
import type { TokenRequest } from '../kinds/pods/token-requests.ts';
import { allKinds } from '../kinds/registry.ts';
import { secretKind } from '../kinds/secrets.ts';
import { testContext } from '../kinds/testing.ts';
import { isOurs, originalUid } from '../mapping/labels.ts';
import { superNamespaceName } from '../mapping/names.ts';
import { chargeOf } from '../quota/charges.ts';
import { tokenWatch } from './pod-tokens.ts';
import {
  admitTokens,
  dueTokens,
  emptyTokenSecret,
  type IssuedToken,
  isRenewalDue,
  issuedContent,
  renewalMs,
  tokenSecretAction,
  tokenSecrets,
  wakeAtMs,
  withoutTokens,
} from './token-secret.ts';

describe('the Secret with the tokens of a pod', () => {
  const start = Date.parse('2026-01-01T00:00:00Z');
  const minute = 60_000;

  type Source = { path: string; audience?: string; expirationSeconds?: number };

  const standard: Source = { path: 'token', expirationSeconds: 3607 };

  /** Bound by us. */
  function pod(sources: readonly Source[] = [standard], parts: Record<string, unknown> = {}): KubeObject {
    const projected = { sources: sources.map((serviceAccountToken) => ({ serviceAccountToken })) };
    return {
      apiVersion: 'v1',
      kind: 'Pod',
      metadata: {
        name: 'web',
        namespace: 'shop',
        uid: 'uid-of-web',
        labels: { app: 'web' },
        annotations: { [annotationKeys.superUid]: 'uid-of-s' },
      },
      spec: {
        nodeName: 'n1',
        serviceAccountName: 'robot',
        containers: [{ name: 'main' }],
        volumes: [{ name: 'v', projected }],
      },
      ...parts,
    };
  }

  const context = (nowMs = start, parts: Parameters<typeof testContext>[0] = {}) =>
    testContext({ kinds: allKinds, nowMs, ...parts });

  const issuedFor = ({ audience, expirationSeconds }: TokenRequest): IssuedToken => ({
    token: `issued for ${audience}, ${expirationSeconds} s`,
    lifetimeSeconds: expirationSeconds,
  });

  /** What the tokens that are due add. */
  function added(t: KubeObject, secret: KubeObject | undefined, nowMs: number, issue = issuedFor): object {
    const due = dueTokens(t, secret, context(nowMs));
    if (due.length === 0) return {};
    return issuedContent(
      t,
      secret,
      new Map(due.map(({ index, request }) => [index, issue(request)])),
      context(nowMs),
    );
  }

  /** The Secret as it is made, as the super cluster has it. */
  function secretOf(t: KubeObject, nowMs = start, issue = issuedFor): KubeObject {
    const empty = emptyTokenSecret(t, context(nowMs));
    return applyMergePatch(empty, added(t, undefined, nowMs, issue)) as KubeObject;
  }

  /** The Secret after one look at it. */
  function afterLook(t: KubeObject, secret: KubeObject, nowMs = start, issue = issuedFor): KubeObject {
    const next = tokenSecretAction(t, cached(secret), context(nowMs));
    if (next.do !== 'patch') return secret;
    const patched = applyMergePatch(secret, next.patch);
    return applyMergePatch(patched, added(t, cached(secret), nowMs, issue)) as KubeObject;
  }

  const cached = (secret: KubeObject): KubeObject => withoutTokens(structuredClone(secret));

  function tokenIn(secret: KubeObject | undefined, key: string): string | undefined {
    const value = (secret?.['data'] as Record<string, string> | undefined)?.[key];
    return value === undefined ? undefined : Buffer.from(value, 'base64').toString();
  }

  describe('which pods have a Secret with tokens (sync rule `pod-tokens`)', () => {
    /** With the super pod of this one. */
    const running = (t: KubeObject) => context(start, { superObjects: [podKind.toSuper(t, context())] });

    it('those that ask for one', () => {
      expect(admitTokens(pod(), running(pod()))).toEqual({ wanted: true });
      expect(admitTokens(pod([]), context())).toEqual({ wanted: false });
      const bare = pod([], { spec: { nodeName: 'n1', containers: [] } });
      expect(admitTokens(bare, context())).toEqual({ wanted: false });
    });

    it('not those without a node: the token is to name it', () => {
      for (const nodeName of ['', undefined]) {
        const unbound = pod();
        Object.assign(unbound['spec'] as object, { nodeName });
        expect(admitTokens(unbound, context())).toEqual({ wanted: false });
      }
    });

    it('not those that another client has put on a node: they do not run, and their own event says so', () => {
      const placed = pod();
      placed.metadata.annotations = {};
      expect(admitTokens(placed, context()).wanted).toBe(false);
      const there = podKind.toSuper(placed, context());
      const onNode = { ...there, spec: { ...(there['spec'] as object), nodeName: 'n1' } };
      expect(admitTokens(placed, context(start, { superObjects: [onNode] }))).toEqual({ wanted: true });
    });

    it('finished ones keep theirs', () => {
      for (const phase of ['Succeeded', 'Failed']) {
        expect(admitTokens(pod([standard], { status: { phase } }), context())).toEqual({
          wanted: false,
          keep: true,
        });
      }
    });

    it('a running one, whatever policy says by now: the pod itself goes, and the Secret with it', () => {
      const bound = pod();
      Object.assign(bound['spec'] as object, { hostNetwork: true });
      expect(admitTokens(bound, running(pod()))).toEqual({ wanted: true });
    });

    it('not those whose super pod is not there, and what they have stays', () => {
      expect(admitTokens(pod(), context())).toEqual({ wanted: false, keep: true });
    });
  });

  describe('the Secret', () => {
    it('is asked for with what the pod asks for, each token once', () => {
      const asking = pod([
        standard,
        { path: 'v', audience: 'vault', expirationSeconds: 600 },
        { ...standard, path: 'again' },
      ]);
      expect(dueTokens(asking, undefined, context())).toEqual([
        { index: 0, request: { audience: '', expirationSeconds: 3607 } },
        { index: 1, request: { audience: 'vault', expirationSeconds: 600 } },
      ]);
    });

    it('carries the tokens, our marks and nothing of the pod', () => {
      const secret = secretOf(pod());
      const { tenant } = context();
      expect(secret).toMatchObject({
        kind: 'Secret',
        type: 'Opaque',
        metadata: { name: 'skerry-token-web', namespace: superNamespaceName(tenant, 'shop') },
      });
      expect(isOurs(secret, tenant)).toBe(true);
      expect(originalUid(secret)).toBe('uid-of-web');
      expect(secret.metadata.labels).not.toHaveProperty('app');
      expect(secret.metadata).not.toHaveProperty('ownerReferences');
      expect(tokenIn(secret, 'token-0')).toBe('issued for , 3607 s');
    });

    it('is seen by this controller, and never by the kind of ordinary Secrets', () => {
      expect(secretOf(pod()).metadata.labels?.[labelKeys.token]).toBe('true');
      expect(tokenWatch.selector).toBe(labelKeys.token);
      expect(secretKind.selector?.super).toContain(`!${labelKeys.token}`);
    });

    it('holds no token in the cache, nor anything that one could be had from', () => {
      const secret = secretOf(pod());
      const text = JSON.stringify(cached(secret));
      const value = (secret['data'] as Record<string, string>)['token-0'];
      expect(value).toBeTypeOf('string');
      expect(text).not.toContain(value);
      expect(text).not.toContain('issued');
      expect(JSON.stringify(secret.metadata)).not.toContain('issued');
    });

    it('counts for `objects` and `objects.bytes`, and not for `secrets`, of which the tenant has none for it', () => {
      const { amounts } = chargeOf(tokenSecrets, secretOf(pod()));
      expect([...amounts.keys()].sort()).toEqual(['count/tokens', 'objects', 'objects.bytes']);
    });

    it('names its pod, even where its own name had to be cut', () => {
      const name = 'a'.repeat(250);
      const t = pod();
      t.metadata.name = name;
      const secret = secretOf(t);
      expect(secret.metadata.name).toHaveLength(253);
      expect(tokenSecrets.tenantName?.(secret.metadata.name ?? '', secret)).toBe(name);
      expect(tokenSecrets.tenantName?.('skerry-token-web', secretOf(pod()))).toBe('web');
      delete secret.metadata.annotations?.[annotationKeys.pod];
      const mended = afterLook(t, secret);
      expect(mended.metadata.annotations?.[annotationKeys.pod]).toBe(name);
    });
  });

  describe('renewal', () => {
    const requests = [standard, { path: 'v', audience: 'vault', expirationSeconds: 600 }];

    it('is waited for, and nothing is done before', () => {
      const t = pod();
      const next = tokenSecretAction(t, cached(secretOf(t)), context(start + minute));
      expect(next).toEqual({ do: 'later', afterMs: expect.any(Number) });
      const { afterMs } = next as { afterMs: number };
      expect(afterMs / 3_607_000).toBeGreaterThan(0.7);
      expect(tokenSecretAction(t, cached(secretOf(t)), context(start + minute + afterMs - 1)).do).toEqual(
        'later',
      );
      expect(dueTokens(t, cached(secretOf(t)), context(start + minute + afterMs - 1))).toEqual([]);
      expect(tokenSecretAction(t, cached(secretOf(t)), context(start + minute + afterMs)).do).toEqual(
        'patch',
      );
      expect(dueTokens(t, cached(secretOf(t)), context(start + minute + afterMs))).toHaveLength(1);
    });

    it('changes the token that is due and no other', () => {
      const fresh = (): IssuedToken => ({ token: 'fresh', lifetimeSeconds: 600 });
      const t = pod(requests);
      const before = secretOf(t);
      const nowMs = start + 8 * minute;
      expect(dueTokens(t, cached(before), context(nowMs))).toEqual([
        { index: 1, request: { audience: 'vault', expirationSeconds: 600 } },
      ]);
      expect(tokenSecretAction(t, cached(before), context(nowMs))).toEqual({ do: 'patch', patch: {} });
      expect(added(t, cached(before), nowMs, fresh)).toMatchObject({
        data: { 'token-1': Buffer.from('fresh').toString('base64') },
      });
      const after = afterLook(t, before, nowMs, fresh);
      expect(tokenIn(after, 'token-0')).toBe('issued for , 3607 s');
      expect(tokenIn(after, 'token-1')).toBe('fresh');
      expect(tokenSecretAction(t, cached(after), context(nowMs)).do).toEqual('later');
    });

    it('is once for all of them when another key signs, and not before', () => {
      const t = pod(requests);
      const before = secretOf(t);
      const renewed = { ...context(start + minute), tenant: { ...context().tenant, tokenKey: 'new' } };
      expect(dueTokens(t, cached(before), context(start + minute))).toEqual([]);
      const due = dueTokens(t, cached(before), renewed);
      expect(due.map(({ index }) => index)).toEqual([0, 1]);
      expect(tokenSecretAction(t, cached(before), renewed)).toEqual({ do: 'patch', patch: {} });
      const issued = new Map(due.map(({ index, request }) => [index, issuedFor(request)] as const));
      const after = applyMergePatch(before, issuedContent(t, cached(before), issued, renewed)) as KubeObject;
      expect(dueTokens(t, cached(after), renewed)).toEqual([]);
      expect(tokenSecretAction(t, cached(after), renewed).do).toEqual('later');
    });

    it('goes by what the server grants, where that is less', () => {
      const t = pod([{ path: 'token', expirationSeconds: 86_400 }]);
      const short = secretOf(t, start, () => ({ token: 'short', lifetimeSeconds: 3600 }));
      const wait = tokenSecretAction(t, cached(short), context());
      expect(wait.do === 'later' && wait.afterMs).toBeLessThanOrEqual(0.8 * 3_600_000);
    });

    describe('of a tenant that is asleep', () => {
      const hour = 60 * minute;
      const signed = (claims: unknown) => (): IssuedToken => ({
        token: `header.${Buffer.from(JSON.stringify(claims)).toString('base64url')}.signature`,
        lifetimeSeconds: 3607,
      });
      const wakes = (secret: KubeObject): number => wakeAtMs(cached(secret)) - start;
      const yearMs = 365 * 24 * hour;

      it('is waited for until the token itself ends, which may be later than the server reports', () => {
        const secret = secretOf(pod(), start, signed({ exp: (start + yearMs) / 1_000 }));
        expect(wakes(secret)).toBeGreaterThan(yearMs - 7 * hour);
        expect(wakes(secret)).toBeLessThanOrEqual(yearMs - 4 * minute);
        const reported = secretOf(pod());
        expect(wakes(reported)).toBeGreaterThan(45 * minute);
        expect(wakes(reported)).toBeLessThanOrEqual(57 * minute);
      });

      it('is when the token is due as well, and of the first of several', () => {
        const secret = secretOf(pod(requests));
        expect(wakes(secret)).toBeLessThanOrEqual(7 * minute);
        expect(tokenSecretAction(pod(requests), cached(secret), context(wakeAtMs(secret))).do).toBe('patch');
      });

      it('does not depend on what makes no sense in a token', () => {
        const reported = wakes(secretOf(pod()));
        for (const claims of [{ exp: 'soon' }, { exp: -1 }, { exp: 1e300 }, null, 7, {}])
          expect(wakes(secretOf(pod(), start, signed(claims))), String(claims)).toBe(reported);
        const endless = (): IssuedToken => ({ token: 'endless', lifetimeSeconds: 1e300 });
        expect(wakes(secretOf(pod(), start, endless))).toBeGreaterThan(yearMs);
      });

      it('is never, where no end is known', () => {
        const earlier = secretOf(pod());
        const records = JSON.parse(earlier.metadata.annotations?.[annotationKeys.tokens] ?? '') as object[];
        for (const each of [records.map((record) => ({ ...record, expires: undefined })), [null, 3], {}]) {
          const annotations = { [annotationKeys.tokens]: JSON.stringify(each) };
          expect(wakeAtMs(applyMergePatch(earlier, { metadata: { annotations } }) as KubeObject)).toBe(
            Number.POSITIVE_INFINITY,
          );
        }
      });
    });

    it('goes on while the pod is being deleted: it may take its time', () => {
      const t = pod();
      t.metadata.deletionTimestamp = '2026-01-01T00:50:00Z';
      expect(dueTokens(t, cached(secretOf(t)), context(start + 50 * minute))).toHaveLength(1);
      expect(tokenSecretAction(t, cached(secretOf(t)), context(start + 50 * minute)).do).toEqual('patch');
    });

    it('puts back what was changed, added or taken away in the super cluster', () => {
      const t = pod(requests);
      const right = secretOf(t);
      const edits: Record<string, (secret: KubeObject) => void> = {
        value: (secret) => Object.assign(secret['data'] as object, { 'token-0': 'bm9uc2Vuc2U=' }),
        key: (secret) => delete (secret['data'] as Record<string, unknown>)['token-1'],
        data: (secret) => delete secret['data'],
        addition: (secret) => Object.assign(secret['data'] as object, { more: 'bW9yZQ==' }),
        record: (secret) =>
          Object.assign(secret.metadata.annotations ?? {}, { [annotationKeys.tokens]: '[null, 3]' }),
        nonsense: (secret) =>
          Object.assign(secret.metadata.annotations ?? {}, { [annotationKeys.tokens]: '{' }),
        label: (secret) => delete secret.metadata.labels?.[labelKeys.namespace],
      };
      for (const [what, edit] of Object.entries(edits)) {
        const secret = structuredClone(right);
        edit(secret);
        const mended = afterLook(t, secret);
        expect(mended['data'], what).toEqual(right['data']);
        expect(mended.metadata.labels, what).toEqual(right.metadata.labels);
        expect(tokenSecretAction(t, cached(mended), context()).do, what).toEqual('later');
      }
    });

    it('makes a Secret anew that was made immutable, once its time has come', () => {
      const t = pod();
      const frozen = applyMergePatch(secretOf(t), { immutable: true }) as KubeObject;
      expect(tokenSecretAction(t, cached(frozen), context()).do).toEqual('later');
      expect(tokenSecretAction(t, cached(frozen), context(start + 60 * minute)).do).toEqual('delete');
    });
  });
});

describe('renewal', () => {
  const minute = 60_000;
  const day = 24 * 60 * minute;

  describe('when a token is renewed (sync rule `pod-tokens`)', () => {
    it('is at 80 % of its life, at most a twentieth of it earlier', () => {
      fc.assert(
        fc.property(fc.uuid(), fc.integer({ min: 900, max: 86_400 }), (uid, seconds) => {
          const share = renewalMs(seconds, uid, 0) / (seconds * 1000);
          expect(share).toBeGreaterThanOrEqual(0.75 - 1e-6);
          expect(share).toBeLessThanOrEqual(0.8);
        }),
      );
    });

    it('is three minutes before it ends at the latest', () => {
      fc.assert(
        fc.property(fc.uuid(), fc.integer({ min: 600, max: 2 ** 32 }), (uid, seconds) => {
          expect(renewalMs(seconds, uid, 0)).toBeLessThanOrEqual(seconds * 1000 - 3 * minute);
        }),
      );
      expect(renewalMs(600, 'any', 0)).toBeGreaterThan(6 * minute);
    });

    it('is after a day at the latest', () => {
      expect(renewalMs(365 * 86_400, 'any', 0)).toBeLessThanOrEqual(day);
      expect(renewalMs(365 * 86_400, 'any', 0)).toBeGreaterThan(0.9 * day);
    });

    it('differs between pods, and not for the same one', () => {
      const times = Array.from({ length: 200 }, (_, index) => renewalMs(3607, `pod-${index}`, 0));
      expect(new Set(times).size).toBeGreaterThan(190);
      expect(Math.max(...times) - Math.min(...times)).toBeGreaterThan(2 * minute);
      expect(renewalMs(3607, 'pod-7', 0)).toBe(times[7]);
    });

    it('has come when its time has, and when the time makes no sense', () => {
      expect(isRenewalDue(1000, 999)).toBe(false);
      expect(isRenewalDue(1000, 1000)).toBe(true);
      expect(isRenewalDue(Number.NaN, 0)).toBe(true);
      expect(isRenewalDue(day + 1, 0)).toBe(true);
    });
  });
});
