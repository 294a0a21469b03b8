import { setImmediate } from 'node:timers/promises';
import { describe, expect, it, vi } from 'vitest';
import { annotationKeys, labelKeys } from '../../api/labels.ts';
import { type KubeObject, resources, type Store } from '../../kube/index.ts';
import { fastClock } from '../../kube/testing/fast-clock.ts';
import { QuotaAdmission } from '../quota/quota-admission.ts';
import { unmatchedSuperObjects } from '../reconcile/tenant-state.ts';
import { simulateControllers } from '../reconcile/testing/random-operations.ts';
import { ReconcilerHarness } from '../reconcile/testing/reconciler-harness.ts';
import { TwoSides } from '../reconcile/testing/two-sides.ts';
import { PodTokenController } from './pod-tokens.ts';
import { tokenSecrets } from './token-secret.ts';

type TokenSource = { path: string; audience?: string; expirationSeconds?: number };

/** The pod `web` of the namespace `shop`; as admission makes it, unless it asks for other tokens. */
function podWithTokens(
  sources: readonly TokenSource[] = [{ path: 'token', expirationSeconds: 3607 }],
): KubeObject {
  const projected = { sources: sources.map((serviceAccountToken) => ({ serviceAccountToken })) };
  return {
    metadata: { name: 'web', namespace: 'shop' },
    spec: {
      serviceAccountName: 'robot',
      containers: [{ name: 'main', image: 'busybox' }],
      volumes: [{ name: 'v', projected }],
    },
    status: { phase: 'Pending' },
  };
}

/** The same, after the engine has bound it to the node `n1`. */
function bound(pod: KubeObject): KubeObject {
  return {
    ...pod,
    metadata: { ...pod.metadata, annotations: { [annotationKeys.superUid]: 'uid-of-s' } },
    spec: { ...(pod['spec'] as object), nodeName: 'n1' },
  };
}

/** The tokens of a Secret, by key. */
function tokensIn(secret: KubeObject | undefined): Record<string, string> {
  const data = (secret?.['data'] ?? {}) as Record<string, string>;
  return Object.fromEntries(
    Object.entries(data).map(([key, value]) => [key, Buffer.from(value, 'base64').toString()]),
  );
}

const minute = 60_000;
const secretName = 'skerry-token-web';

/** A tenant with the namespace `shop`, a service account and a pod that asks for a token and has a node. */
async function harnessWithPod(
  sources?: readonly TokenSource[],
): Promise<{ harness: ReconcilerHarness; t: KubeObject }> {
  const harness = await ReconcilerHarness.start();
  harness.namespace('shop');
  harness.have('tenant', resources.serviceAccounts, { metadata: { name: 'robot', namespace: 'shop' } });
  const t = runs(harness, podWithTokens(sources));
  return { harness, t };
}

/** Has a pod of the tenant bound, and its super pod there. */
function runs(harness: ReconcilerHarness, pod: KubeObject): KubeObject {
  const t = harness.have('tenant', resources.pods, bound(pod));
  harness.have('super', resources.pods, harness.superOf(t));
  return t;
}

const secretOf = (harness: ReconcilerHarness): KubeObject | undefined =>
  harness.super.server.get(resources.secrets, { namespace: harness.shop, name: secretName });

/** Where the cache has these Secrets. */
function storeOf(harness: ReconcilerHarness): Store {
  return harness.superCaches.watched('tokens');
}

/** The cache shows what the server has. */
function showSecret(harness: ReconcilerHarness): void {
  const secret = secretOf(harness);
  if (secret !== undefined) storeOf(harness).apply('ADDED', structuredClone(secret));
}

const events = (harness: ReconcilerHarness): KubeObject[] => harness.tenant.server.list(resources.events);

describe('the tokens of a pod (sync rule `pod-tokens`)', () => {
  it("are issued by the tenant's API server, for its service account, bound to the tenant object by UID, and name its node", async () => {
    const { harness, t } = await harnessWithPod();
    await using _ = harness;
    await harness.reconcile('tokens', 'web', 'shop');
    expect(tokensIn(secretOf(harness))).toEqual({ 'token-0': `token-1/shop/robot/${t.metadata.uid}/n1/` });
    expect(secretOf(harness)?.metadata.annotations?.[annotationKeys.uid]).toBe(t.metadata.uid);
  });

  it('cost one request each and one Secret, and nothing afterwards', async () => {
    const { harness } = await harnessWithPod([
      { path: 'a' },
      { path: 'b' },
      { path: 'c', audience: 'vault', expirationSeconds: 600 },
    ]);
    await using _ = harness;
    await harness.reconcile('tokens', 'web', 'shop');
    expect(harness.asked('tenant')).toEqual(['create serviceaccounts', 'create serviceaccounts']);
    expect(harness.asked('super')).toEqual(['create secrets']);
    expect(Object.values(tokensIn(secretOf(harness)))).toEqual([
      expect.stringMatching(/\/n1\/$/),
      expect.stringMatching(/\/n1\/vault$/),
    ]);
    showSecret(harness);
    expect(await harness.reconcile('tokens', 'web', 'shop')).toMatchObject({ is: 'later' });
    expect(harness.asked('tenant')).toHaveLength(2);
    expect(harness.asked('super')).toHaveLength(1);
  });

  it('are asked for when the pod has a node, and it goes down without them', async () => {
    await using harness = await ReconcilerHarness.start();
    harness.namespace('shop');
    const account = { metadata: { name: 'robot', namespace: 'shop' } };
    harness.have(
      'super',
      resources.serviceAccounts,
      harness.superOf(harness.have('tenant', resources.serviceAccounts, account)),
    );
    const t = harness.have('tenant', resources.pods, podWithTokens());
    await harness.reconcile('pods', 'web', 'shop');
    expect(await harness.reconcile('tokens', 'web', 'shop')).toEqual({ is: 'done' });
    expect(harness.asked('super')).toEqual(['create pods']);
    expect(harness.asked('tenant')).toEqual([]);
    runs(harness, t);
    await harness.reconcile('tokens', 'web', 'shop');
    expect(harness.asked('super')).toEqual(['create pods', 'create secrets']);
    expect(tokensIn(secretOf(harness))['token-0']).toMatch(/^token-1\/.*\/n1\/$/);
  });

  it('wait for the super namespace', async () => {
    await using harness = await ReconcilerHarness.start();
    harness.have('tenant', resources.namespaces, { metadata: { name: 'shop' } });
    harness.have('tenant', resources.serviceAccounts, { metadata: { name: 'robot', namespace: 'shop' } });
    runs(harness, podWithTokens());
    await harness.reconcile('tokens', 'web', 'shop');
    expect(harness.asked('tenant')).toEqual([]);
    expect(harness.queued).toEqual(['namespaces//shop']);
  });

  it('are renewed in time, in the Secret that is there', async () => {
    const { harness, t } = await harnessWithPod([{ path: 'token', expirationSeconds: 600 }]);
    await using _ = harness;
    await harness.reconcile('tokens', 'web', 'shop');
    showSecret(harness);
    const uid = secretOf(harness)?.metadata.uid;
    const wait = await harness.reconcile('tokens', 'web', 'shop');
    if (wait.is !== 'later') throw new Error(`not later, but ${wait.is}`);
    expect(wait.afterMs).toBeLessThanOrEqual(7 * minute);
    await harness.clock.advance(wait.afterMs - 1);
    expect(await harness.reconcile('tokens', 'web', 'shop')).toEqual({ is: 'later', afterMs: 1 });
    expect(harness.asked('tenant')).toHaveLength(1);
    await harness.clock.advance(1);
    await harness.reconcile('tokens', 'web', 'shop');
    expect(tokensIn(secretOf(harness))).toEqual({ 'token-0': `token-2/shop/robot/${t.metadata.uid}/n1/` });
    expect(secretOf(harness)?.metadata.uid).toBe(uid);
    expect(harness.asked('super')).toEqual(['create secrets', 'patch secrets']);
    showSecret(harness);
    expect(await harness.reconcile('tokens', 'web', 'shop')).toMatchObject({ is: 'later' });
  });

  it('are renewed soon after the super pod is seen again, when it was away at the time', async () => {
    const { harness, t } = await harnessWithPod([{ path: 'token', expirationSeconds: 600 }]);
    await using _ = harness;
    await harness.reconcile('tokens', 'web', 'shop');
    showSecret(harness);
    const superPods = harness.superCaches.store(resources.pods);
    const there = [...superPods.list()];
    superPods.replace([]);
    // Also what is looked at for another reason is looked at again in time.
    const early = await harness.reconcile('tokens', 'web', 'shop');
    if (early.is !== 'later') throw new Error(`not later, but ${early.is}`);
    expect(early.afterMs).toBeGreaterThan(minute);
    await harness.clock.advance(early.afterMs);
    expect(await harness.reconcile('tokens', 'web', 'shop')).toEqual({ is: 'later', afterMs: 5_000 });
    expect(harness.asked('tenant')).toHaveLength(1);
    superPods.replace(there);
    await harness.clock.advance(5_000);
    await harness.reconcile('tokens', 'web', 'shop');
    expect(tokensIn(secretOf(harness))).toEqual({ 'token-0': `token-2/shop/robot/${t.metadata.uid}/n1/` });
  });

  it('are renewed by what was asked for, where the server says of them what is no lifetime', async () => {
    /** When tokens of ten minutes are renewed that the server says this of. */
    const renewedAfter = async (granted: unknown, asked = 600): Promise<number> => {
      const { harness } = await harnessWithPod([{ path: 'token', expirationSeconds: asked }]);
      await using _ = harness;
      const answer = { spec: { expirationSeconds: granted }, status: { token: 'token' } };
      vi.spyOn(harness.state.client, 'createSubresource').mockResolvedValue(answer as never);
      await harness.reconcile('tokens', 'web', 'shop');
      showSecret(harness);
      const wait = await harness.reconcile('tokens', 'web', 'shop');
      if (wait.is !== 'later') throw new Error(`not later, but ${JSON.stringify(wait)}`);
      return wait.afterMs;
    };
    expect(await renewedAfter(3_600)).toBeGreaterThan(40 * minute);
    for (const granted of [undefined, 'abc', {}, -1e18, 0, null, 1e9 + 0.5]) {
      const afterMs = await renewedAfter(granted);
      expect([granted, afterMs > 6 * minute, afterMs <= 7 * minute]).toEqual([granted, true, true]);
    }
    expect(await renewedAfter('abc', -1e15)).toBeGreaterThan(6 * minute);
  });

  it('are asked for again, as of any server that answers wrongly, where there is none in the answer', async () => {
    const { harness } = await harnessWithPod();
    await using _ = harness;
    for (const status of [undefined, null, {}, { token: 7 }, { token: '' }]) {
      vi.spyOn(harness.state.client, 'createSubresource').mockResolvedValue({ status } as never);
      expect(await harness.reconcile('tokens', 'web', 'shop')).toMatchObject({
        is: 'retry',
        code: 'ERR_INVALID_OBJECT',
      });
    }
    expect(secretOf(harness)).toBeUndefined();
  });

  it('are not renewed once the pod has finished, and stay with it', async () => {
    const { harness, t } = await harnessWithPod();
    await using _ = harness;
    await harness.reconcile('tokens', 'web', 'shop');
    showSecret(harness);
    harness.have('tenant', resources.pods, { ...t, status: { phase: 'Succeeded' } });
    await harness.clock.advance(120 * minute);
    expect(await harness.reconcile('tokens', 'web', 'shop')).toEqual({ is: 'done' });
    expect(harness.asked('tenant')).toHaveLength(1);
    expect(secretOf(harness)).toBeDefined();
  });

  it('go with the pod', async () => {
    const { harness, t } = await harnessWithPod();
    await using _ = harness;
    await harness.reconcile('tokens', 'web', 'shop');
    showSecret(harness);
    harness.tenant.server.remove(resources.pods, { namespace: 'shop', name: 'web' });
    harness.hide('tenant', resources.pods, t);
    await harness.reconcile('tokens', 'web', 'shop');
    expect(secretOf(harness)).toBeUndefined();
    // For the quota it goes with the pod as well.
    expect(harness.reports).toEqual([]);
  });

  it('are not counted as objects of the tenant by the guard against mass deletion (sync rule `confirmed-delete`)', async () => {
    const { harness } = await harnessWithPod();
    await using _ = harness;
    await harness.reconcile('tokens', 'web', 'shop');
    showSecret(harness);
    const { total } = unmatchedSuperObjects(harness.state, harness.superCaches);
    harness.state.caches.store(resources.pods).replace([]);
    expect(unmatchedSuperObjects(harness.state, harness.superCaches)).toMatchObject({
      total,
      uids: [expect.any(String)],
    });
    // The namespace and the pod.
    expect(total).toBe(2);
  });

  it('of an earlier pod of that name go first; the new one gets its own when it has a node', async () => {
    const { harness, t } = await harnessWithPod();
    await using _ = harness;
    await harness.reconcile('tokens', 'web', 'shop');
    showSecret(harness);
    const first = secretOf(harness) as KubeObject;
    harness.tenant.server.remove(resources.pods, { namespace: 'shop', name: 'web' });
    harness.hide('tenant', resources.pods, t);
    const next = harness.have('tenant', resources.pods, podWithTokens());
    await harness.reconcile('tokens', 'web', 'shop');
    expect(secretOf(harness)).toBeUndefined();
    storeOf(harness).apply('DELETED', first);
    await harness.clock.advance(minute);
    expect(await harness.reconcile('tokens', 'web', 'shop')).toEqual({ is: 'done' });
    expect(harness.asked('tenant')).toHaveLength(1);
    runs(harness, next);
    await harness.reconcile('tokens', 'web', 'shop');
    expect(tokensIn(secretOf(harness))).toEqual({ 'token-0': `token-2/shop/robot/${next.metadata.uid}/n1/` });
  });

  it('of an earlier pod go first also when the new one has its node already', async () => {
    const { harness, t } = await harnessWithPod();
    await using _ = harness;
    await harness.reconcile('tokens', 'web', 'shop');
    showSecret(harness);
    const first = secretOf(harness) as KubeObject;
    harness.tenant.server.remove(resources.pods, { namespace: 'shop', name: 'web' });
    harness.hide('tenant', resources.pods, t);
    const next = runs(harness, podWithTokens());
    await harness.reconcile('tokens', 'web', 'shop');
    expect(secretOf(harness)).toBeUndefined();
    storeOf(harness).apply('DELETED', first);
    await harness.clock.advance(minute);
    await harness.reconcile('tokens', 'web', 'shop');
    expect(tokensIn(secretOf(harness))).toEqual({ 'token-0': `token-2/shop/robot/${next.metadata.uid}/n1/` });
    expect(harness.asked('super')).toEqual(['create secrets', 'delete secrets', 'create secrets']);
  });

  it('are made anew when the Secret is deleted in the super cluster', async () => {
    const { harness } = await harnessWithPod();
    await using _ = harness;
    await harness.reconcile('tokens', 'web', 'shop');
    showSecret(harness);
    storeOf(harness).apply('DELETED', secretOf(harness) as KubeObject);
    harness.super.server.remove(resources.secrets, { namespace: harness.shop, name: secretName });
    await harness.clock.advance(minute);
    await harness.reconcile('tokens', 'web', 'shop');
    expect(tokensIn(secretOf(harness))['token-0']).toMatch(/^token-2/);
  });

  it('are known again when the Secret has lost the labels that we watch by', async () => {
    const { harness } = await harnessWithPod();
    await using _ = harness;
    await harness.reconcile('tokens', 'web', 'shop');
    const { metadata, ...secret } = secretOf(harness) as KubeObject;
    harness.server('super', resources.secrets, { ...secret, metadata: { ...metadata, labels: {} } });
    await harness.clock.advance(minute);
    await harness.reconcile('tokens', 'web', 'shop');
    expect(secretOf(harness)?.metadata.uid).toBe(metadata.uid);
    expect(secretOf(harness)?.metadata.labels).toEqual(metadata.labels);
  });

  it('are made anew when the Secret has lost those labels and cannot be changed', async () => {
    const { harness } = await harnessWithPod();
    await using _ = harness;
    await harness.reconcile('tokens', 'web', 'shop');
    const { metadata, ...secret } = secretOf(harness) as KubeObject;
    const stripped = { ...secret, immutable: true, metadata: { ...metadata, labels: {} } };
    harness.server('super', resources.secrets, stripped);
    // Its token is due.
    await harness.clock.advance(60 * minute);
    expect(await harness.reconcile('tokens', 'web', 'shop')).toMatchObject({ is: 'retry' });
    expect(secretOf(harness)).toBeUndefined();
    await harness.reconcile('tokens', 'web', 'shop');
    expect(harness.asked('super').slice(-2)).toEqual(['delete secrets', 'create secrets']);
    expect(secretOf(harness)?.metadata.uid).not.toBe(metadata.uid);
    expect(secretOf(harness)?.metadata.labels).toEqual(metadata.labels);
  });

  it('never take the place of a Secret that is not ours', async () => {
    const { harness } = await harnessWithPod();
    await using _ = harness;
    const foreign = { metadata: { namespace: harness.shop, name: secretName }, data: { mine: 'eA==' } };
    harness.server('super', resources.secrets, foreign);
    expect(await harness.reconcile('tokens', 'web', 'shop')).toMatchObject({ is: 'refused' });
    expect(tokensIn(secretOf(harness))).toEqual({ mine: 'x' });
    expect(events(harness)).toMatchObject([{ reason: 'NameConflict' }]);
  });
});

describe('the keys of pod tokens', () => {
  it('are queued when the pod has its node and asks for tokens, and when it goes', async () => {
    await using harness = await ReconcilerHarness.start();
    harness.tokens.join(harness.state);
    const takeQueued = (): string[] => harness.queued.splice(0);
    const pod = podWithTokens();
    const shown = (of: KubeObject, parts: Record<string, unknown> = {}): KubeObject => ({
      ...of,
      metadata: { ...of.metadata, uid: 'p1' },
      ...parts,
    });
    harness.show('tenant', resources.pods, shown(pod));
    harness.show('tenant', resources.pods, shown(pod, { status: { phase: 'Pending', reason: 'waits' } }));
    expect(takeQueued()).toEqual([]);
    harness.show('tenant', resources.pods, shown(bound(pod)));
    expect(takeQueued()).toEqual(['tokens/shop/web']);
    harness.show('tenant', resources.pods, shown(bound(pod), { status: { phase: 'Running' } }));
    expect(takeQueued()).toEqual([]);
    harness.hide('tenant', resources.pods, shown(bound(pod)));
    expect(takeQueued()).toEqual(['tokens/shop/web']);
    expect(harness.state.tombstones.tenant.get('tokens/shop/web')?.uid).toBe('p1');
    harness.show('tenant', resources.pods, shown(bound(podWithTokens([]))));
    expect(takeQueued()).toEqual([]);
  });

  it('are those of the pods that get tokens, and of the Secrets that are there, once', async () => {
    const { harness, t } = await harnessWithPod();
    await using _ = harness;
    const names = (): string[] => [...harness.tokens.keysOf(harness.state)].map((key) => key.name);
    expect(names()).toEqual(['web']);
    await harness.reconcile('tokens', 'web', 'shop');
    showSecret(harness);
    expect(names()).toEqual(['web']);
    harness.hide('tenant', resources.pods, t);
    expect(names()).toEqual(['web']);
    storeOf(harness).replace([]);
    expect(names()).toEqual([]);
  });

  it('differ where the Secret is missing, is left over, or has other tokens (sync rule `resync`)', async () => {
    const { harness, t } = await harnessWithPod();
    await using _ = harness;
    const key = { kind: 'tokens', namespace: 'shop', name: 'web' };
    const drift = () => harness.tokens.driftOf(harness.state, key);
    expect(drift()).toBe('missing-in-super');
    await harness.reconcile('tokens', 'web', 'shop');
    expect(drift()).toBeUndefined();
    showSecret(harness);
    expect(drift()).toBeUndefined();
    const secret = secretOf(harness) as KubeObject;
    const metadata = { ...secret.metadata, resourceVersion: '1000000' };
    storeOf(harness).apply('MODIFIED', { ...secret, metadata, data: { 'token-0': 'bm9uc2Vuc2U=' } });
    expect(drift()).toBe('differs');
    harness.hide('tenant', resources.pods, t);
    expect(drift()).toBe('orphan');
  });
});

describe('a Secret whose pod is missing', () => {
  it('stays while the server has the pod, when its deletion was not watched (sync rule `confirmed-delete`)', async () => {
    const { harness, t } = await harnessWithPod();
    await using _ = harness;
    await harness.reconcile('tokens', 'web', 'shop');
    showSecret(harness);
    harness.state.caches.store(resources.pods).replace([]);
    expect(await harness.reconcile('tokens', 'web', 'shop')).toEqual({ is: 'retry', code: 'stillThere' });
    harness.tenant.server.remove(resources.pods, { namespace: 'shop', name: 'web' });
    harness.server('tenant', resources.pods, { ...t, metadata: { name: 'web', namespace: 'shop' } });
    await harness.reconcile('tokens', 'web', 'shop');
    expect(secretOf(harness)).toBeUndefined();
  });

  it('is held when the tenant is another server (sync rule `side-identity`)', async () => {
    const { harness, t } = await harnessWithPod();
    await using _ = harness;
    await harness.reconcile('tokens', 'web', 'shop');
    showSecret(harness);
    harness.hide('tenant', resources.pods, t);
    harness.tenant.server.remove(resources.namespaces, { name: 'kube-system' });
    expect(await harness.reconcile('tokens', 'web', 'shop')).toEqual({ is: 'held' });
    expect(harness.state.held.get('tokens/shop/web')).toBe(true);
    expect(secretOf(harness)).toBeDefined();
  });
});

describe('what else holds for these Secrets as for any copy', () => {
  it('is that a patch which something else undoes again and again is held back (sync rule `contested-writes`)', async () => {
    const { harness } = await harnessWithPod();
    await using _ = harness;
    await harness.reconcile('tokens', 'web', 'shop');
    const outcomes: string[] = [];
    for (let round = 0; round < 22; round++) {
      const secret = secretOf(harness) as KubeObject;
      const data = { ...(secret['data'] as object), more: 'bW9yZQ==' };
      harness.server('super', resources.secrets, { ...secret, data });
      showSecret(harness);
      outcomes.push((await harness.reconcile('tokens', 'web', 'shop')).is);
    }
    expect(outcomes.indexOf('retry')).toBeGreaterThan(10);
    expect(outcomes.at(-1)).toBe('retry');
    expect(events(harness)).toMatchObject([{ reason: 'ContestedWrites', involvedObject: { kind: 'Pod' } }]);
    expect(harness.asked('tenant').filter((what) => what === 'create serviceaccounts')).toHaveLength(1);
  });

  it('is that taking one from a pod is made up for by what is written later (sync rule `quota`)', async () => {
    const { harness, t } = await harnessWithPod();
    await using _ = harness;
    await harness.reconcile('tokens', 'web', 'shop');
    showSecret(harness);
    expect(harness.reports).toEqual([]);
    harness.have('tenant', resources.pods, { ...t, spec: bound(podWithTokens([]))['spec'] });
    await harness.reconcile('tokens', 'web', 'shop');
    expect(secretOf(harness)).toBeUndefined();
    expect(harness.reports).toEqual(['deletion charged']);
  });

  it('is that they count for the quota, and wait for room (sync rule `quota`)', async () => {
    await using sides = await TwoSides.start((s) => {
      s.super.server.put(resources.nodes, { metadata: { name: 'n1' } });
      s.inShop(resources.serviceAccounts, { metadata: { name: 'robot' } });
    });
    const { info } = sides.first;
    sides.first.info = { ...info, policy: { ...info.policy, quota: { 'count/tokens': '1' } } };
    await sides.restart();
    for (const name of ['web', 'db'])
      sides.inShop(resources.pods, { ...podWithTokens(), metadata: { name } });
    const tended = (predicate: () => boolean): Promise<void> =>
      sides.until(() => {
        simulateControllers(sides.super.server);
        return predicate();
      });
    const refused = () =>
      sides.tenant.server.list(resources.events).find((event) => event['reason'] === 'QuotaExceeded');
    await tended(() => refused() !== undefined);
    const secrets = () => sides.super.server.list(resources.secrets).map(({ metadata }) => metadata.name);
    await tended(() => secrets().length === 1);
    const waiting = (refused()?.['involvedObject'] as { name: string } | undefined)?.name;
    const served = waiting === 'web' ? 'db' : 'web';
    expect(secrets()).toEqual([`skerry-token-${served}`]);
    sides.tenant.server.remove(resources.pods, { namespace: 'shop', name: served });
    await tended(() => secrets().join() === `skerry-token-${waiting}`);
  });
});

describe('the Secrets of many pods', () => {
  /** A controller whose quota counts. */
  function withQuota(harness: ReconcilerHarness, quota: Record<string, string>): QuotaAdmission {
    const { info } = harness.state;
    harness.state.updateInfo({ ...info, policy: { ...info.policy, quota } });
    const admission = new QuotaAdmission({
      kinds: [],
      others: [tokenSecrets],
      superCaches: harness.superCaches,
      monotonicMs: () => 0,
      sleep: async () => undefined,
      wake: () => undefined,
    });
    admission.join(harness.state);
    return admission;
  }

  /** What comes of each pod in turn, when a server answers this as a token. */
  async function sendTokens(token: string, quota: Record<string, string>) {
    const harness = await ReconcilerHarness.start();
    harness.namespace('shop');
    const admission = withQuota(harness, quota);
    const controller = new PodTokenController({
      superClient: harness.super.client,
      superCaches: harness.superCaches,
      superIdentity: harness.superIdentity,
      tenant: () => harness.state,
      enqueue: () => undefined,
      quota: admission,
      onMismatch: () => undefined,
      onHeld: () => undefined,
    });
    vi.spyOn(harness.state.client, 'createSubresource').mockImplementation(
      async () => ({ status: { token }, spec: { expirationSeconds: 3_600 } }) as never,
    );
    for (let index = 0; index < 8; index++) {
      const sources = Array.from({ length: 16 }, (_, each) => ({ path: `p${each}`, audience: `a${each}` }));
      const name = `p${index}`;
      const pod = podWithTokens(sources);
      runs(harness, { ...pod, metadata: { ...pod.metadata, name } });
      const key = { kind: 'tokens', namespace: 'shop', name };
      admission.began(harness.state.info.uid, key);
      const outcome = await controller.reconcile(harness.state, key, new AbortController().signal);
      const stored = harness.super.server.get(resources.secrets, {
        namespace: harness.shop,
        name: `skerry-token-${name}`,
      });
      if (stored !== undefined) storeOf(harness).apply('ADDED', structuredClone(stored));
      admission.ended(harness.state, key, outcome);
    }
    return { harness, admission };
  }

  const bytesIn = (harness: ReconcilerHarness): number =>
    harness.super.server
      .list(resources.secrets)
      .map(({ metadata: { creationTimestamp: _, ...metadata }, ...secret }) =>
        Buffer.byteLength(JSON.stringify({ ...secret, metadata })),
      )
      .reduce((sum, bytes) => sum + bytes, 0);

  it('count for the quota with their tokens, when they are written and when they are there', async () => {
    const { harness, admission } = await sendTokens('x'.repeat(16_000), {
      'objects.bytes': '1Mi',
      'writes.bytes-per-minute': '600Mi',
    });
    await using _ = harness;
    // 350 KB each.
    expect(harness.super.server.list(resources.secrets)).toHaveLength(3);
    const used = Number(admission.usedBy(harness.state.info.uid)['objects.bytes']);
    expect(Math.abs(used - bytesIn(harness))).toBeLessThan(1_000);
    const usage = [...admission.usageOf(harness.state.info.uid)];
    const written = usage.find(({ resource }) => resource === 'writes.bytes-per-minute')?.used ?? 0;
    expect(Math.abs(written - bytesIn(harness))).toBeLessThan(1_000);
    expect(events(harness)).toMatchObject(Array(5).fill({ reason: 'QuotaExceeded' }));
  });

  it('take the tokens that API servers issue, and none that are far longer', async () => {
    for (const [length, count] of [
      [2_000, 8],
      [17_000, 0],
    ] as const) {
      const { harness } = await sendTokens('x'.repeat(length), {});
      await using _ = harness;
      expect(harness.super.server.list(resources.secrets)).toHaveLength(count);
    }
  });

  it('are not made for a pod that is only said to be bound', async () => {
    const { harness, t } = await harnessWithPod();
    await using _ = harness;
    const forged = { ...harness.superOf(t), metadata: { ...harness.superOf(t).metadata, annotations: {} } };
    for (const superPod of [undefined, forged]) {
      harness.hide('super', resources.pods, harness.superOf(t));
      harness.superCaches.store(resources.pods).replace(superPod === undefined ? [] : [superPod]);
      expect(await harness.reconcile('tokens', 'web', 'shop')).toEqual({ is: 'done' });
      expect(harness.asked('tenant')).toEqual([]);
    }
    harness.superCaches.store(resources.pods).replace([]);
    harness.have('super', resources.pods, harness.superOf(t));
    await harness.reconcile('tokens', 'web', 'shop');
    expect(secretOf(harness)).toBeDefined();
  });
});

describe('a token that is not to be had', () => {
  it('because the service account is gone: an event says so, and the pod waits', async () => {
    const { harness } = await harnessWithPod();
    await using _ = harness;
    harness.tenant.server.remove(resources.serviceAccounts, { namespace: 'shop', name: 'robot' });
    expect(await harness.reconcile('tokens', 'web', 'shop')).toMatchObject({ is: 'refused', code: '404' });
    expect(events(harness)).toMatchObject([
      {
        type: 'Warning',
        reason: 'TokenRefused',
        involvedObject: { kind: 'Pod', name: 'web' },
        message:
          'no new token of the service account robot: serviceaccounts "robot" not found; the pod waits for it',
      },
    ]);
    expect(harness.asked('super')).toEqual([]);
    harness.server('tenant', resources.serviceAccounts, { metadata: { name: 'robot', namespace: 'shop' } });
    await harness.reconcile('tokens', 'web', 'shop');
    expect(Object.keys(tokensIn(secretOf(harness)))).toEqual(['token-0']);
  });

  it("because the tenant's API server refuses: an event says so in its words, and the old one stays", async () => {
    const { harness } = await harnessWithPod();
    await using _ = harness;
    await harness.reconcile('tokens', 'web', 'shop');
    showSecret(harness);
    const before = tokensIn(secretOf(harness));
    await harness.clock.advance(60 * minute);
    const message = 'audience "vault" is not allowed here';
    harness.tenant.server.inject({
      verb: 'create',
      plural: 'serviceaccounts',
      fault: { kind: 'status', code: 422, reason: 'Invalid', message },
    });
    expect(await harness.reconcile('tokens', 'web', 'shop')).toMatchObject({ is: 'refused', code: '422' });
    expect(events(harness)[0]?.['message']).toBe(
      `no new token of the service account robot: ${message}; the pod keeps the one that it has`,
    );
    expect(tokensIn(secretOf(harness))).toEqual(before);
  });

  it('because the pod is gone or another by now: no event, the cache will catch up', async () => {
    const { harness } = await harnessWithPod();
    await using _ = harness;
    harness.tenant.server.remove(resources.pods, { namespace: 'shop', name: 'web' });
    harness.server('tenant', resources.pods, bound(podWithTokens()));
    expect(await harness.reconcile('tokens', 'web', 'shop')).toEqual({ is: 'conflict' });
    harness.tenant.server.remove(resources.pods, { namespace: 'shop', name: 'web' });
    expect(await harness.reconcile('tokens', 'web', 'shop')).toMatchObject({ is: 'retry', code: '404' });
    expect(events(harness)).toEqual([]);
    expect(harness.asked('super')).toEqual([]);
  });

  it('while the pod is being deleted: no event', async () => {
    const { harness, t } = await harnessWithPod();
    await using _ = harness;
    await harness.reconcile('tokens', 'web', 'shop');
    showSecret(harness);
    harness.tenant.server.remove(resources.serviceAccounts, { namespace: 'shop', name: 'robot' });
    harness.have('tenant', resources.pods, {
      ...t,
      metadata: { ...t.metadata, deletionTimestamp: '2030-01-01T01:00:00Z' },
    });
    await harness.clock.advance(60 * minute);
    expect(await harness.reconcile('tokens', 'web', 'shop')).toMatchObject({ is: 'refused' });
    expect(events(harness)).toEqual([]);
  });

  it('because the server has troubles of its own: silently again', async () => {
    const { harness } = await harnessWithPod();
    await using _ = harness;
    harness.tenant.server.inject({ plural: 'serviceaccounts', fault: { kind: 'status', code: 500 } });
    expect(await harness.reconcile('tokens', 'web', 'shop')).toMatchObject({ is: 'retry', code: '500' });
    expect(events(harness)).toEqual([]);
  });
});

describe('the engine and tokens', () => {
  const prepare = (sides: TwoSides): void => {
    sides.super.server.put(resources.nodes, { metadata: { name: 'n1' } });
    sides.inShop(resources.serviceAccounts, { metadata: { name: 'robot' } });
  };
  const named = (name: string, sources?: readonly TokenSource[]): KubeObject => ({
    ...podWithTokens(sources),
    metadata: { name },
  });
  const tokenOf = (sides: TwoSides, name: string): string | undefined =>
    tokensIn(sides.inSuper(resources.secrets, `skerry-token-${name}`))['token-0'];
  const writes = (server: TwoSides['super']['server'], plural: string): string[] =>
    server.requests
      .filter((request) => request.plural === plural && !['list', 'watch'].includes(request.verb))
      .map((request) => `${request.verb} ${request.subresource ?? ''}`);
  const quiet = async ({ engine }: TwoSides): Promise<void> => {
    while (engine.depths().some((depth) => depth.live + depth.processing > 0)) await setImmediate();
  };
  /** The scheduler and the kubelets of the super cluster are at work until this holds. */
  const tendedUntil = (sides: TwoSides, predicate: () => boolean): Promise<void> =>
    sides.until(() => {
      simulateControllers(sides.super.server);
      return predicate();
    });

  it('ask once and write one Secret for each pod of a burst when it has a node, and nothing before or afterwards', async () => {
    await using sides = await TwoSides.start(prepare);
    // No more than may be with the scheduler at once: here they are not scheduled at first.
    const names = Array.from({ length: 30 }, (_, index) => `p${index}`);
    for (const name of names) sides.inShop(resources.pods, named(name));
    await sides.until(() => sides.super.server.list(resources.pods).length === names.length);
    await quiet(sides);
    expect(writes(sides.tenant.server, 'serviceaccounts')).toEqual([]);
    expect(writes(sides.super.server, 'secrets')).toEqual([]);
    await tendedUntil(sides, () => sides.super.server.list(resources.secrets).length === names.length);
    await quiet(sides);
    expect(writes(sides.tenant.server, 'serviceaccounts')).toEqual(names.map(() => 'create token'));
    expect(writes(sides.super.server, 'secrets')).toEqual(names.map(() => 'create '));
    expect(await sides.engine.resync(sides.state)).toEqual([]);
    const tokens = names.map((name) => tokenOf(sides, name));
    expect(new Set(tokens).size).toBe(names.length);
    for (const token of tokens) expect(token).toMatch(/\/n1\/$/);
  });

  it('renew again and again, by one syncer and the next', async () => {
    await using sides = await TwoSides.start(prepare, { clock: fastClock(1_000) });
    sides.inShop(resources.pods, named('web', [{ path: 'token', expirationSeconds: 600 }]));
    const seen = new Set<string>();
    const renewed = (count: number) => () => {
      const token = tokenOf(sides, 'web');
      if (token !== undefined) seen.add(token);
      return seen.size >= count;
    };
    await tendedUntil(sides, renewed(3));
    await sides.restart();
    await sides.until(renewed(5));
    expect(sides.super.server.list(resources.secrets)).toHaveLength(1);
  });

  it('leave exactly one right Secret after 50 quick re-creations of a pod (sync rule `recreation`)', async () => {
    await using sides = await TwoSides.start(prepare, { clock: fastClock(20) });
    let last: KubeObject | undefined;
    for (let round = 0; round < 50; round++) {
      sides.tenant.server.remove(resources.pods, { namespace: 'shop', name: 'web' });
      last = sides.inShop(resources.pods, named('web'));
      // Now and then one gets as far as a token, of whichever pod that had the name.
      if (round % 9 === 0) await tendedUntil(sides, () => tokenOf(sides, 'web') !== undefined);
    }
    const bound = `/${last?.metadata.uid}/n1/`;
    await tendedUntil(sides, () => tokenOf(sides, 'web')?.endsWith(bound) === true);
    expect(sides.inSuper(resources.pods, 'web')?.metadata.annotations?.[annotationKeys.uid]).toBe(
      last?.metadata.uid,
    );
    expect(sides.super.server.list(resources.secrets)).toHaveLength(1);
    sides.tenant.server.remove(resources.pods, { namespace: 'shop', name: 'web' });
    await tendedUntil(sides, () => sides.super.server.list(resources.secrets).length === 0);
  });

  it("keep the tenant's own Secret of such a name apart", async () => {
    await using sides = await TwoSides.start(prepare);
    sides.inShop(resources.secrets, {
      metadata: { name: 'skerry-token-web', labels: { [labelKeys.sync]: 'true' } },
      data: { mine: 'eA==' },
    });
    sides.inShop(resources.pods, named('web'));
    await tendedUntil(sides, () => tokenOf(sides, 'web') !== undefined);
    expect(tokenOf(sides, 'web')).toMatch(/^token-1/);
    expect(sides.super.server.list(resources.secrets)).toHaveLength(1);
  });
});
