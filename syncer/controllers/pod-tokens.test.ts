import { setImmediate } from 'node:timers/promises';
import { describe, expect, it, vi } from 'vitest';
import { annotationKeys, labelKeys } from '../../api/labels.ts';
import { type KubeObject, resources, type Store } from '../../kube/index.ts';
import { fastClock } from '../../kube/testing/fast-clock.ts';
import { QuotaAdmission } from '../quota/quota-admission.ts';
import { unmatchedSuperObjects } from '../reconcile/tenant-state.ts';
import { Bench } from '../reconcile/testing/bench.ts';
import { tend } from '../reconcile/testing/disturbance.ts';
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
async function benchWithPod(sources?: readonly TokenSource[]): Promise<{ bench: Bench; t: KubeObject }> {
  const bench = await Bench.start();
  bench.namespace('shop');
  bench.have('tenant', resources.serviceAccounts, { metadata: { name: 'robot', namespace: 'shop' } });
  const t = runs(bench, podWithTokens(sources));
  return { bench, t };
}

/** Has a pod of the tenant bound, and its super pod there. */
function runs(bench: Bench, pod: KubeObject): KubeObject {
  const t = bench.have('tenant', resources.pods, bound(pod));
  bench.have('super', resources.pods, bench.superOf(t));
  return t;
}

const secretOf = (bench: Bench): KubeObject | undefined =>
  bench.super.server.get(resources.secrets, { namespace: bench.shop, name: secretName });

/** Where the cache has these Secrets. */
function storeOf(bench: Bench): Store {
  return bench.superCaches.watched('tokens');
}

/** The cache shows what the server has. */
function showSecret(bench: Bench): void {
  const secret = secretOf(bench);
  if (secret !== undefined) storeOf(bench).apply('ADDED', structuredClone(secret));
}

const events = (bench: Bench): KubeObject[] => bench.tenant.server.list(resources.events);

describe('the tokens of a pod (sync rule `pod-tokens`)', () => {
  it("are issued by the tenant's API server, for its service account, bound to the tenant object by UID, and name its node", async () => {
    const { bench, t } = await benchWithPod();
    await using _ = bench;
    await bench.reconcile('tokens', 'web', 'shop');
    expect(tokensIn(secretOf(bench))).toEqual({ 'token-0': `token-1/shop/robot/${t.metadata.uid}/n1/` });
    expect(secretOf(bench)?.metadata.annotations?.[annotationKeys.uid]).toBe(t.metadata.uid);
  });

  it('cost one request each and one Secret, and nothing afterwards', async () => {
    const { bench } = await benchWithPod([
      { path: 'a' },
      { path: 'b' },
      { path: 'c', audience: 'vault', expirationSeconds: 600 },
    ]);
    await using _ = bench;
    await bench.reconcile('tokens', 'web', 'shop');
    expect(bench.asked('tenant')).toEqual(['create serviceaccounts', 'create serviceaccounts']);
    expect(bench.asked('super')).toEqual(['create secrets']);
    expect(Object.values(tokensIn(secretOf(bench)))).toEqual([
      expect.stringMatching(/\/n1\/$/),
      expect.stringMatching(/\/n1\/vault$/),
    ]);
    showSecret(bench);
    expect(await bench.reconcile('tokens', 'web', 'shop')).toMatchObject({ is: 'later' });
    expect(bench.asked('tenant')).toHaveLength(2);
    expect(bench.asked('super')).toHaveLength(1);
  });

  it('are asked for when the pod has a node, and it goes down without them', async () => {
    await using bench = await Bench.start();
    bench.namespace('shop');
    const account = { metadata: { name: 'robot', namespace: 'shop' } };
    bench.have(
      'super',
      resources.serviceAccounts,
      bench.superOf(bench.have('tenant', resources.serviceAccounts, account)),
    );
    const t = bench.have('tenant', resources.pods, podWithTokens());
    await bench.reconcile('pods', 'web', 'shop');
    expect(await bench.reconcile('tokens', 'web', 'shop')).toEqual({ is: 'done' });
    expect(bench.asked('super')).toEqual(['create pods']);
    expect(bench.asked('tenant')).toEqual([]);
    runs(bench, t);
    await bench.reconcile('tokens', 'web', 'shop');
    expect(bench.asked('super')).toEqual(['create pods', 'create secrets']);
    expect(tokensIn(secretOf(bench))['token-0']).toMatch(/^token-1\/.*\/n1\/$/);
  });

  it('wait for the super namespace', async () => {
    await using bench = await Bench.start();
    bench.have('tenant', resources.namespaces, { metadata: { name: 'shop' } });
    bench.have('tenant', resources.serviceAccounts, { metadata: { name: 'robot', namespace: 'shop' } });
    runs(bench, podWithTokens());
    await bench.reconcile('tokens', 'web', 'shop');
    expect(bench.asked('tenant')).toEqual([]);
    expect(bench.queued).toEqual(['namespaces//shop']);
  });

  it('are renewed in time, in the Secret that is there', async () => {
    const { bench, t } = await benchWithPod([{ path: 'token', expirationSeconds: 600 }]);
    await using _ = bench;
    await bench.reconcile('tokens', 'web', 'shop');
    showSecret(bench);
    const uid = secretOf(bench)?.metadata.uid;
    const wait = await bench.reconcile('tokens', 'web', 'shop');
    if (wait.is !== 'later') throw new Error(`not later, but ${wait.is}`);
    expect(wait.afterMs).toBeLessThanOrEqual(7 * minute);
    await bench.clock.advance(wait.afterMs - 1);
    expect(await bench.reconcile('tokens', 'web', 'shop')).toEqual({ is: 'later', afterMs: 1 });
    expect(bench.asked('tenant')).toHaveLength(1);
    await bench.clock.advance(1);
    await bench.reconcile('tokens', 'web', 'shop');
    expect(tokensIn(secretOf(bench))).toEqual({ 'token-0': `token-2/shop/robot/${t.metadata.uid}/n1/` });
    expect(secretOf(bench)?.metadata.uid).toBe(uid);
    expect(bench.asked('super')).toEqual(['create secrets', 'patch secrets']);
    showSecret(bench);
    expect(await bench.reconcile('tokens', 'web', 'shop')).toMatchObject({ is: 'later' });
  });

  it('are renewed soon after the super pod is seen again, when it was away at the time', async () => {
    const { bench, t } = await benchWithPod([{ path: 'token', expirationSeconds: 600 }]);
    await using _ = bench;
    await bench.reconcile('tokens', 'web', 'shop');
    showSecret(bench);
    const superPods = bench.superCaches.store(resources.pods);
    const there = [...superPods.list()];
    superPods.replace([]);
    // Also what is looked at for another reason is looked at again in time.
    const early = await bench.reconcile('tokens', 'web', 'shop');
    if (early.is !== 'later') throw new Error(`not later, but ${early.is}`);
    expect(early.afterMs).toBeGreaterThan(minute);
    await bench.clock.advance(early.afterMs);
    expect(await bench.reconcile('tokens', 'web', 'shop')).toEqual({ is: 'later', afterMs: 5_000 });
    expect(bench.asked('tenant')).toHaveLength(1);
    superPods.replace(there);
    await bench.clock.advance(5_000);
    await bench.reconcile('tokens', 'web', 'shop');
    expect(tokensIn(secretOf(bench))).toEqual({ 'token-0': `token-2/shop/robot/${t.metadata.uid}/n1/` });
  });

  it('are renewed by what was asked for, where the server says of them what is no lifetime', async () => {
    /** When tokens of ten minutes are renewed that the server says this of. */
    const renewedAfter = async (granted: unknown, asked = 600): Promise<number> => {
      const { bench } = await benchWithPod([{ path: 'token', expirationSeconds: asked }]);
      await using _ = bench;
      const answer = { spec: { expirationSeconds: granted }, status: { token: 'token' } };
      vi.spyOn(bench.state.client, 'createSubresource').mockResolvedValue(answer as never);
      await bench.reconcile('tokens', 'web', 'shop');
      showSecret(bench);
      const wait = await bench.reconcile('tokens', 'web', 'shop');
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
    const { bench } = await benchWithPod();
    await using _ = bench;
    for (const status of [undefined, null, {}, { token: 7 }, { token: '' }]) {
      vi.spyOn(bench.state.client, 'createSubresource').mockResolvedValue({ status } as never);
      expect(await bench.reconcile('tokens', 'web', 'shop')).toMatchObject({
        is: 'retry',
        code: 'ERR_INVALID_OBJECT',
      });
    }
    expect(secretOf(bench)).toBeUndefined();
  });

  it('are not renewed once the pod has finished, and stay with it', async () => {
    const { bench, t } = await benchWithPod();
    await using _ = bench;
    await bench.reconcile('tokens', 'web', 'shop');
    showSecret(bench);
    bench.have('tenant', resources.pods, { ...t, status: { phase: 'Succeeded' } });
    await bench.clock.advance(120 * minute);
    expect(await bench.reconcile('tokens', 'web', 'shop')).toEqual({ is: 'done' });
    expect(bench.asked('tenant')).toHaveLength(1);
    expect(secretOf(bench)).toBeDefined();
  });

  it('go with the pod', async () => {
    const { bench, t } = await benchWithPod();
    await using _ = bench;
    await bench.reconcile('tokens', 'web', 'shop');
    showSecret(bench);
    bench.tenant.server.remove(resources.pods, { namespace: 'shop', name: 'web' });
    bench.hide('tenant', resources.pods, t);
    await bench.reconcile('tokens', 'web', 'shop');
    expect(secretOf(bench)).toBeUndefined();
    // For the quota it goes with the pod as well.
    expect(bench.reports).toEqual([]);
  });

  it('are not counted as objects of the tenant by the guard against mass deletion (sync rule `confirmed-delete`)', async () => {
    const { bench } = await benchWithPod();
    await using _ = bench;
    await bench.reconcile('tokens', 'web', 'shop');
    showSecret(bench);
    const { total } = unmatchedSuperObjects(bench.state, bench.superCaches);
    bench.state.caches.store(resources.pods).replace([]);
    expect(unmatchedSuperObjects(bench.state, bench.superCaches)).toMatchObject({
      total,
      uids: [expect.any(String)],
    });
    // The namespace and the pod.
    expect(total).toBe(2);
  });

  it('of an earlier pod of that name go first; the new one gets its own when it has a node', async () => {
    const { bench, t } = await benchWithPod();
    await using _ = bench;
    await bench.reconcile('tokens', 'web', 'shop');
    showSecret(bench);
    const first = secretOf(bench) as KubeObject;
    bench.tenant.server.remove(resources.pods, { namespace: 'shop', name: 'web' });
    bench.hide('tenant', resources.pods, t);
    const next = bench.have('tenant', resources.pods, podWithTokens());
    await bench.reconcile('tokens', 'web', 'shop');
    expect(secretOf(bench)).toBeUndefined();
    storeOf(bench).apply('DELETED', first);
    await bench.clock.advance(minute);
    expect(await bench.reconcile('tokens', 'web', 'shop')).toEqual({ is: 'done' });
    expect(bench.asked('tenant')).toHaveLength(1);
    runs(bench, next);
    await bench.reconcile('tokens', 'web', 'shop');
    expect(tokensIn(secretOf(bench))).toEqual({ 'token-0': `token-2/shop/robot/${next.metadata.uid}/n1/` });
  });

  it('of an earlier pod go first also when the new one has its node already', async () => {
    const { bench, t } = await benchWithPod();
    await using _ = bench;
    await bench.reconcile('tokens', 'web', 'shop');
    showSecret(bench);
    const first = secretOf(bench) as KubeObject;
    bench.tenant.server.remove(resources.pods, { namespace: 'shop', name: 'web' });
    bench.hide('tenant', resources.pods, t);
    const next = runs(bench, podWithTokens());
    await bench.reconcile('tokens', 'web', 'shop');
    expect(secretOf(bench)).toBeUndefined();
    storeOf(bench).apply('DELETED', first);
    await bench.clock.advance(minute);
    await bench.reconcile('tokens', 'web', 'shop');
    expect(tokensIn(secretOf(bench))).toEqual({ 'token-0': `token-2/shop/robot/${next.metadata.uid}/n1/` });
    expect(bench.asked('super')).toEqual(['create secrets', 'delete secrets', 'create secrets']);
  });

  it('are made anew when the Secret is deleted in the super cluster', async () => {
    const { bench } = await benchWithPod();
    await using _ = bench;
    await bench.reconcile('tokens', 'web', 'shop');
    showSecret(bench);
    storeOf(bench).apply('DELETED', secretOf(bench) as KubeObject);
    bench.super.server.remove(resources.secrets, { namespace: bench.shop, name: secretName });
    await bench.clock.advance(minute);
    await bench.reconcile('tokens', 'web', 'shop');
    expect(tokensIn(secretOf(bench))['token-0']).toMatch(/^token-2/);
  });

  it('are known again when the Secret has lost the labels that we watch by', async () => {
    const { bench } = await benchWithPod();
    await using _ = bench;
    await bench.reconcile('tokens', 'web', 'shop');
    const { metadata, ...secret } = secretOf(bench) as KubeObject;
    bench.server('super', resources.secrets, { ...secret, metadata: { ...metadata, labels: {} } });
    await bench.clock.advance(minute);
    await bench.reconcile('tokens', 'web', 'shop');
    expect(secretOf(bench)?.metadata.uid).toBe(metadata.uid);
    expect(secretOf(bench)?.metadata.labels).toEqual(metadata.labels);
  });

  it('are made anew when the Secret has lost those labels and cannot be changed', async () => {
    const { bench } = await benchWithPod();
    await using _ = bench;
    await bench.reconcile('tokens', 'web', 'shop');
    const { metadata, ...secret } = secretOf(bench) as KubeObject;
    const stripped = { ...secret, immutable: true, metadata: { ...metadata, labels: {} } };
    bench.server('super', resources.secrets, stripped);
    // Its token is due.
    await bench.clock.advance(60 * minute);
    expect(await bench.reconcile('tokens', 'web', 'shop')).toMatchObject({ is: 'retry' });
    expect(secretOf(bench)).toBeUndefined();
    await bench.reconcile('tokens', 'web', 'shop');
    expect(bench.asked('super').slice(-2)).toEqual(['delete secrets', 'create secrets']);
    expect(secretOf(bench)?.metadata.uid).not.toBe(metadata.uid);
    expect(secretOf(bench)?.metadata.labels).toEqual(metadata.labels);
  });

  it('never take the place of a Secret that is not ours', async () => {
    const { bench } = await benchWithPod();
    await using _ = bench;
    const foreign = { metadata: { namespace: bench.shop, name: secretName }, data: { mine: 'eA==' } };
    bench.server('super', resources.secrets, foreign);
    expect(await bench.reconcile('tokens', 'web', 'shop')).toMatchObject({ is: 'refused' });
    expect(tokensIn(secretOf(bench))).toEqual({ mine: 'x' });
    expect(events(bench)).toMatchObject([{ reason: 'NameConflict' }]);
  });
});

describe('the keys of pod tokens', () => {
  it('are queued when the pod has its node and asks for tokens, and when it goes', async () => {
    await using bench = await Bench.start();
    bench.tokens.join(bench.state);
    const heard = (): string[] => bench.queued.splice(0);
    const pod = podWithTokens();
    const shown = (of: KubeObject, parts: Record<string, unknown> = {}): KubeObject => ({
      ...of,
      metadata: { ...of.metadata, uid: 'p1' },
      ...parts,
    });
    bench.show('tenant', resources.pods, shown(pod));
    bench.show('tenant', resources.pods, shown(pod, { status: { phase: 'Pending', reason: 'waits' } }));
    expect(heard()).toEqual([]);
    bench.show('tenant', resources.pods, shown(bound(pod)));
    expect(heard()).toEqual(['tokens/shop/web']);
    bench.show('tenant', resources.pods, shown(bound(pod), { status: { phase: 'Running' } }));
    expect(heard()).toEqual([]);
    bench.hide('tenant', resources.pods, shown(bound(pod)));
    expect(heard()).toEqual(['tokens/shop/web']);
    expect(bench.state.tombstones.tenant.get('tokens/shop/web')?.uid).toBe('p1');
    bench.show('tenant', resources.pods, shown(bound(podWithTokens([]))));
    expect(heard()).toEqual([]);
  });

  it('are those of the pods that get tokens, and of the Secrets that are there, once', async () => {
    const { bench, t } = await benchWithPod();
    await using _ = bench;
    const names = (): string[] => [...bench.tokens.keysOf(bench.state)].map((key) => key.name);
    expect(names()).toEqual(['web']);
    await bench.reconcile('tokens', 'web', 'shop');
    showSecret(bench);
    expect(names()).toEqual(['web']);
    bench.hide('tenant', resources.pods, t);
    expect(names()).toEqual(['web']);
    storeOf(bench).replace([]);
    expect(names()).toEqual([]);
  });

  it('differ where the Secret is missing, is left over, or has other tokens (sync rule `resync`)', async () => {
    const { bench, t } = await benchWithPod();
    await using _ = bench;
    const key = { kind: 'tokens', namespace: 'shop', name: 'web' };
    const drift = () => bench.tokens.driftOf(bench.state, key);
    expect(drift()).toBe('missing-in-super');
    await bench.reconcile('tokens', 'web', 'shop');
    expect(drift()).toBeUndefined();
    showSecret(bench);
    expect(drift()).toBeUndefined();
    const secret = secretOf(bench) as KubeObject;
    const metadata = { ...secret.metadata, resourceVersion: '1000000' };
    storeOf(bench).apply('MODIFIED', { ...secret, metadata, data: { 'token-0': 'bm9uc2Vuc2U=' } });
    expect(drift()).toBe('differs');
    bench.hide('tenant', resources.pods, t);
    expect(drift()).toBe('orphan');
  });
});

describe('a Secret whose pod is missing', () => {
  it('stays while the server has the pod, when its deletion was not watched (sync rule `confirmed-delete`)', async () => {
    const { bench, t } = await benchWithPod();
    await using _ = bench;
    await bench.reconcile('tokens', 'web', 'shop');
    showSecret(bench);
    bench.state.caches.store(resources.pods).replace([]);
    expect(await bench.reconcile('tokens', 'web', 'shop')).toEqual({ is: 'retry', code: 'stillThere' });
    bench.tenant.server.remove(resources.pods, { namespace: 'shop', name: 'web' });
    bench.server('tenant', resources.pods, { ...t, metadata: { name: 'web', namespace: 'shop' } });
    await bench.reconcile('tokens', 'web', 'shop');
    expect(secretOf(bench)).toBeUndefined();
  });

  it('is held when the tenant is another server (sync rule `side-identity`)', async () => {
    const { bench, t } = await benchWithPod();
    await using _ = bench;
    await bench.reconcile('tokens', 'web', 'shop');
    showSecret(bench);
    bench.hide('tenant', resources.pods, t);
    bench.tenant.server.remove(resources.namespaces, { name: 'kube-system' });
    expect(await bench.reconcile('tokens', 'web', 'shop')).toEqual({ is: 'held' });
    expect(bench.state.held.get('tokens/shop/web')).toBe(true);
    expect(secretOf(bench)).toBeDefined();
  });
});

describe('what else holds for these Secrets as for any copy', () => {
  it('is that a patch which something else undoes again and again is held back (sync rule `contested-writes`)', async () => {
    const { bench } = await benchWithPod();
    await using _ = bench;
    await bench.reconcile('tokens', 'web', 'shop');
    const outcomes: string[] = [];
    for (let round = 0; round < 22; round++) {
      const secret = secretOf(bench) as KubeObject;
      const data = { ...(secret['data'] as object), more: 'bW9yZQ==' };
      bench.server('super', resources.secrets, { ...secret, data });
      showSecret(bench);
      outcomes.push((await bench.reconcile('tokens', 'web', 'shop')).is);
    }
    expect(outcomes.indexOf('retry')).toBeGreaterThan(10);
    expect(outcomes.at(-1)).toBe('retry');
    expect(events(bench)).toMatchObject([{ reason: 'ContestedWrites', involvedObject: { kind: 'Pod' } }]);
    expect(bench.asked('tenant').filter((what) => what === 'create serviceaccounts')).toHaveLength(1);
  });

  it('is that taking one from a pod is made up for by what is written later (sync rule `quota`)', async () => {
    const { bench, t } = await benchWithPod();
    await using _ = bench;
    await bench.reconcile('tokens', 'web', 'shop');
    showSecret(bench);
    expect(bench.reports).toEqual([]);
    bench.have('tenant', resources.pods, { ...t, spec: bound(podWithTokens([]))['spec'] });
    await bench.reconcile('tokens', 'web', 'shop');
    expect(secretOf(bench)).toBeUndefined();
    expect(bench.reports).toEqual(['deletion charged']);
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
        tend(sides.super.server);
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
  function withQuota(bench: Bench, quota: Record<string, string>): QuotaAdmission {
    const { info } = bench.state;
    bench.state.updateInfo({ ...info, policy: { ...info.policy, quota } });
    const admission = new QuotaAdmission({
      kinds: [],
      others: [tokenSecrets],
      superCaches: bench.superCaches,
      monotonicMs: () => 0,
      sleep: async () => undefined,
      wake: () => undefined,
    });
    admission.join(bench.state);
    return admission;
  }

  /** What comes of each pod in turn, when a server answers this as a token. */
  async function sendTokens(token: string, quota: Record<string, string>) {
    const bench = await Bench.start();
    bench.namespace('shop');
    const admission = withQuota(bench, quota);
    const controller = new PodTokenController({
      superClient: bench.super.client,
      superCaches: bench.superCaches,
      superIdentity: bench.superIdentity,
      tenant: () => bench.state,
      enqueue: () => undefined,
      quota: admission,
      onMismatch: () => undefined,
      onHeld: () => undefined,
    });
    vi.spyOn(bench.state.client, 'createSubresource').mockImplementation(
      async () => ({ status: { token }, spec: { expirationSeconds: 3_600 } }) as never,
    );
    for (let index = 0; index < 8; index++) {
      const sources = Array.from({ length: 16 }, (_, each) => ({ path: `p${each}`, audience: `a${each}` }));
      const name = `p${index}`;
      const pod = podWithTokens(sources);
      runs(bench, { ...pod, metadata: { ...pod.metadata, name } });
      const key = { kind: 'tokens', namespace: 'shop', name };
      admission.began(bench.state.info.uid, key);
      const outcome = await controller.reconcile(bench.state, key, new AbortController().signal);
      const stored = bench.super.server.get(resources.secrets, {
        namespace: bench.shop,
        name: `skerry-token-${name}`,
      });
      if (stored !== undefined) storeOf(bench).apply('ADDED', structuredClone(stored));
      admission.ended(bench.state, key, outcome);
    }
    return { bench, admission };
  }

  const bytesIn = (bench: Bench): number =>
    bench.super.server
      .list(resources.secrets)
      .map(({ metadata: { creationTimestamp: _, ...metadata }, ...secret }) =>
        Buffer.byteLength(JSON.stringify({ ...secret, metadata })),
      )
      .reduce((sum, bytes) => sum + bytes, 0);

  it('count for the quota with their tokens, when they are written and when they are there', async () => {
    const { bench, admission } = await sendTokens('x'.repeat(16_000), {
      'objects.bytes': '1Mi',
      'writes.bytes-per-minute': '600Mi',
    });
    await using _ = bench;
    // 350 KB each.
    expect(bench.super.server.list(resources.secrets)).toHaveLength(3);
    const used = Number(admission.usedBy(bench.state.info.uid)['objects.bytes']);
    expect(Math.abs(used - bytesIn(bench))).toBeLessThan(1_000);
    const usage = [...admission.usageOf(bench.state.info.uid)];
    const written = usage.find(({ resource }) => resource === 'writes.bytes-per-minute')?.used ?? 0;
    expect(Math.abs(written - bytesIn(bench))).toBeLessThan(1_000);
    expect(events(bench)).toMatchObject(Array(5).fill({ reason: 'QuotaExceeded' }));
  });

  it('take the tokens that API servers issue, and none that are far longer', async () => {
    for (const [length, count] of [
      [2_000, 8],
      [17_000, 0],
    ] as const) {
      const { bench } = await sendTokens('x'.repeat(length), {});
      await using _ = bench;
      expect(bench.super.server.list(resources.secrets)).toHaveLength(count);
    }
  });

  it('are not made for a pod that is only said to be bound', async () => {
    const { bench, t } = await benchWithPod();
    await using _ = bench;
    const forged = { ...bench.superOf(t), metadata: { ...bench.superOf(t).metadata, annotations: {} } };
    for (const superPod of [undefined, forged]) {
      bench.hide('super', resources.pods, bench.superOf(t));
      bench.superCaches.store(resources.pods).replace(superPod === undefined ? [] : [superPod]);
      expect(await bench.reconcile('tokens', 'web', 'shop')).toEqual({ is: 'done' });
      expect(bench.asked('tenant')).toEqual([]);
    }
    bench.superCaches.store(resources.pods).replace([]);
    bench.have('super', resources.pods, bench.superOf(t));
    await bench.reconcile('tokens', 'web', 'shop');
    expect(secretOf(bench)).toBeDefined();
  });
});

describe('a token that is not to be had', () => {
  it('because the service account is gone: an event says so, and the pod waits', async () => {
    const { bench } = await benchWithPod();
    await using _ = bench;
    bench.tenant.server.remove(resources.serviceAccounts, { namespace: 'shop', name: 'robot' });
    expect(await bench.reconcile('tokens', 'web', 'shop')).toMatchObject({ is: 'refused', code: '404' });
    expect(events(bench)).toMatchObject([
      {
        type: 'Warning',
        reason: 'TokenRefused',
        involvedObject: { kind: 'Pod', name: 'web' },
        message:
          'no new token of the service account robot: serviceaccounts "robot" not found; the pod waits for it',
      },
    ]);
    expect(bench.asked('super')).toEqual([]);
    bench.server('tenant', resources.serviceAccounts, { metadata: { name: 'robot', namespace: 'shop' } });
    await bench.reconcile('tokens', 'web', 'shop');
    expect(Object.keys(tokensIn(secretOf(bench)))).toEqual(['token-0']);
  });

  it("because the tenant's API server refuses: an event says so in its words, and the old one stays", async () => {
    const { bench } = await benchWithPod();
    await using _ = bench;
    await bench.reconcile('tokens', 'web', 'shop');
    showSecret(bench);
    const before = tokensIn(secretOf(bench));
    await bench.clock.advance(60 * minute);
    const message = 'audience "vault" is not allowed here';
    bench.tenant.server.inject({
      verb: 'create',
      plural: 'serviceaccounts',
      fault: { kind: 'status', code: 422, reason: 'Invalid', message },
    });
    expect(await bench.reconcile('tokens', 'web', 'shop')).toMatchObject({ is: 'refused', code: '422' });
    expect(events(bench)[0]?.['message']).toBe(
      `no new token of the service account robot: ${message}; the pod keeps the one that it has`,
    );
    expect(tokensIn(secretOf(bench))).toEqual(before);
  });

  it('because the pod is gone or another by now: no event, the cache will catch up', async () => {
    const { bench } = await benchWithPod();
    await using _ = bench;
    bench.tenant.server.remove(resources.pods, { namespace: 'shop', name: 'web' });
    bench.server('tenant', resources.pods, bound(podWithTokens()));
    expect(await bench.reconcile('tokens', 'web', 'shop')).toEqual({ is: 'conflict' });
    bench.tenant.server.remove(resources.pods, { namespace: 'shop', name: 'web' });
    expect(await bench.reconcile('tokens', 'web', 'shop')).toMatchObject({ is: 'retry', code: '404' });
    expect(events(bench)).toEqual([]);
    expect(bench.asked('super')).toEqual([]);
  });

  it('while the pod is being deleted: no event', async () => {
    const { bench, t } = await benchWithPod();
    await using _ = bench;
    await bench.reconcile('tokens', 'web', 'shop');
    showSecret(bench);
    bench.tenant.server.remove(resources.serviceAccounts, { namespace: 'shop', name: 'robot' });
    bench.have('tenant', resources.pods, {
      ...t,
      metadata: { ...t.metadata, deletionTimestamp: '2030-01-01T01:00:00Z' },
    });
    await bench.clock.advance(60 * minute);
    expect(await bench.reconcile('tokens', 'web', 'shop')).toMatchObject({ is: 'refused' });
    expect(events(bench)).toEqual([]);
  });

  it('because the server has troubles of its own: silently again', async () => {
    const { bench } = await benchWithPod();
    await using _ = bench;
    bench.tenant.server.inject({ plural: 'serviceaccounts', fault: { kind: 'status', code: 500 } });
    expect(await bench.reconcile('tokens', 'web', 'shop')).toMatchObject({ is: 'retry', code: '500' });
    expect(events(bench)).toEqual([]);
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
      tend(sides.super.server);
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
