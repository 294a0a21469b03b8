import { describe, expect, it } from 'vitest';
import { annotationKeys, labelKeys } from '../../api/labels.ts';
import { type KubeObject, resources } from '../../kube/index.ts';
import { ownPolicyLabels } from '../kinds/pods/translate.ts';
import { keyId } from '../reconcile/keys.ts';
import { ReconcilerHarness } from '../reconcile/testing/reconciler-harness.ts';
import { NetworkIsolationController, ownPolicyGate } from './network-isolation.ts';

const isolation = { podCIDRs: ['10.244.0.0/16'], closedCIDRs: ['192.0.2.1/32'] };
const key = { kind: 'networkisolation', name: 'shop' };
const { signal } = new AbortController();

function controllerOf(harness: ReconcilerHarness): {
  controller: NetworkIsolationController;
  takeQueued: () => string[];
} {
  const queued: string[] = [];
  const controller = new NetworkIsolationController({
    superClient: harness.super.client,
    superCaches: harness.superCaches,
    tenant: (uid) => (uid === harness.state.info.uid ? harness.state : undefined),
    enqueue: (_tenant, each) => queued.push(keyId(each)),
  });
  return { controller, takeQueued: () => queued.splice(0) };
}

/** The policies that the server has, as the cache shows them from now on. */
function policies(harness: ReconcilerHarness): KubeObject[] {
  const all = harness.super.server.list(resources.networkPolicies);
  for (const each of all)
    harness.superCaches.watched('networkisolation').apply('MODIFIED', structuredClone(each));
  return all;
}

describe('policies that keep tenants apart (sync rule `tenant-isolation`)', () => {
  it('are made in each super namespace, and put back when they are changed or gone', async () => {
    await using harness = await ReconcilerHarness.start({ tenant: { isolation } });
    const { controller, takeQueued } = controllerOf(harness);
    harness.namespace('shop');
    expect(takeQueued()).toEqual(['networkisolation//shop']);
    expect([...controller.keysOf(harness.state)]).toEqual([key]);
    expect(controller.driftOf(harness.state, key)).toBe('differs');
    expect(await controller.reconcile(harness.state, key, signal)).toEqual({ is: 'done' });
    const made = policies(harness);
    expect(made.map(({ metadata }) => metadata.name).sort()).toEqual(['skerry-egress', 'skerry-ingress']);
    expect(made.every(({ metadata }) => metadata.labels?.[labelKeys.tenant] === harness.state.info.uid)).toBe(
      true,
    );
    expect(controller.driftOf(harness.state, key)).toBeUndefined();
    takeQueued();

    const [egress, ingress] = made as [KubeObject, KubeObject];
    const opened = { ...egress, spec: { podSelector: {}, policyTypes: ['Egress'], egress: [{}] } };
    harness.super.server.put(resources.networkPolicies, opened);
    harness.super.server.remove(resources.networkPolicies, {
      namespace: harness.shop,
      name: 'skerry-ingress',
    });
    harness.superCaches.watched('networkisolation').apply('DELETED', ingress);
    policies(harness);
    expect(takeQueued()).not.toEqual([]);
    expect(await controller.reconcile(harness.state, key, signal)).toEqual({ is: 'done' });
    expect(policies(harness).map(({ spec }) => spec)).toEqual(made.map(({ spec }) => spec));
  });

  it('are made once for all pods that come first, before a cache shows them, and again after a failure', async () => {
    await using harness = await ReconcilerHarness.start({ tenant: { isolation } });
    const { controller } = controllerOf(harness);
    harness.namespace('shop');
    const firstPod = () => controller.beforePods(harness.state, 'shop', signal);
    const creates = () => harness.super.server.requests.filter(({ verb }) => verb === 'create').length;
    harness.super.server.inject({
      verb: 'create',
      plural: 'networkpolicies',
      fault: { kind: 'status', code: 403 },
    });
    expect((await Promise.allSettled([firstPod(), firstPod()])).map(({ status }) => status)).toEqual([
      'rejected',
      'rejected',
    ]);
    await Promise.all([firstPod(), firstPod()]);
    await firstPod();
    await expect.poll(creates).toBe(4);
    const [egress] = policies(harness) as [KubeObject];
    await firstPod();
    expect(creates()).toBe(4);
    harness.super.server.remove(resources.networkPolicies, {
      namespace: harness.shop,
      name: 'skerry-egress',
    });
    harness.superCaches.watched('networkisolation').apply('DELETED', egress);
    await firstPod();
    expect(policies(harness)).toHaveLength(2);
  });

  it('are made again where the tenant left before a cache showed them', async () => {
    await using harness = await ReconcilerHarness.start({ tenant: { isolation } });
    const { controller } = controllerOf(harness);
    harness.namespace('shop');
    await controller.beforePods(harness.state, 'shop', signal);
    controller.leave('another');
    const creates = () => harness.super.server.requests.filter(({ verb }) => verb === 'create').length;
    await controller.beforePods(harness.state, 'shop', signal);
    expect(creates()).toBe(2);
    controller.leave(harness.state.info.uid);
    for (const name of ['skerry-egress', 'skerry-ingress'])
      harness.super.server.remove(resources.networkPolicies, { namespace: harness.shop, name });
    await controller.beforePods(harness.state, 'shop', signal);
    expect(harness.super.server.list(resources.networkPolicies)).toHaveLength(2);
  });

  it('are given back their labels where somebody took them, before the first pod', async () => {
    await using harness = await ReconcilerHarness.start({ tenant: { isolation } });
    const { controller } = controllerOf(harness);
    harness.namespace('shop');
    const metadata = { namespace: harness.shop, name: 'skerry-egress' };
    harness.super.server.put(resources.networkPolicies, {
      metadata,
      spec: { podSelector: {}, egress: [{}] },
    });
    await controller.beforePods(harness.state, 'shop', signal);
    const [egress] = policies(harness).filter(({ metadata: { name } }) => name === 'skerry-egress');
    expect(egress?.metadata.labels).toMatchObject({ [labelKeys.isolation]: 'true' });
    expect(egress?.['spec']).not.toMatchObject({ egress: [{}] });
  });

  it('follow the settings while deletions of the tenant are stopped', async () => {
    await using harness = await ReconcilerHarness.start({ tenant: { isolation } });
    const { controller } = controllerOf(harness);
    harness.namespace('shop');
    await controller.reconcile(harness.state, key, signal);
    const before = policies(harness);
    harness.state.frozen = 'TenantIdentity';
    harness.tenant.server.remove(resources.namespaces, { name: 'kube-system' });
    const closedCIDRs = ['192.0.2.1/32', '192.0.2.2/32'];
    harness.state.updateInfo({ ...harness.state.info, isolation: { ...isolation, closedCIDRs } });
    expect(await controller.reconcile(harness.state, key, signal)).toEqual({ is: 'done' });
    expect(policies(harness)).not.toEqual(before);
    harness.state.updateInfo({ ...harness.state.info, isolation: undefined });
    await controller.reconcile(harness.state, key, signal);
    expect(harness.super.server.list(resources.networkPolicies)).toEqual([]);
  });

  it('stay as they are while it is not known what acts on them, or what they have to close', async () => {
    await using harness = await ReconcilerHarness.start({ tenant: { isolation } });
    const { controller } = controllerOf(harness);
    harness.namespace('shop');
    await controller.reconcile(harness.state, key, signal);
    const before = policies(harness);
    expect(before).toHaveLength(2);
    const closedCIDRs = ['0.0.0.0/0', '::/0'];
    for (const guessed of [undefined, { ...isolation, closedCIDRs }]) {
      const info = { ...harness.state.info, isolation: guessed };
      harness.state.updateInfo({ ...info, isSuperClusterUnknown: true });
      expect(controller.driftOf(harness.state, key)).toBeUndefined();
      harness.state.updateInfo({ ...info, isSuperClusterUnknown: undefined });
      expect(controller.driftOf(harness.state, key)).toBe('differs');
    }
    for (const each of before) harness.superCaches.watched('networkisolation').apply('DELETED', each);
    harness.state.updateInfo({ ...harness.state.info, isIsolationUnknown: true });
    expect(controller.driftOf(harness.state, key)).toBeUndefined();
    harness.state.updateInfo({ ...harness.state.info, isIsolationUnknown: undefined });
    expect(controller.driftOf(harness.state, key)).toBe('differs');
  });

  it('go where the operator wants none, and are never made in a namespace that is not ours', async () => {
    await using harness = await ReconcilerHarness.start({ tenant: { isolation } });
    const { controller } = controllerOf(harness);
    harness.namespace('shop');
    await controller.reconcile(harness.state, key, signal);
    policies(harness);
    harness.state.updateInfo({ ...harness.state.info, isolation: undefined });
    expect(await controller.reconcile(harness.state, key, signal)).toEqual({ is: 'done' });
    expect(harness.super.server.list(resources.networkPolicies)).toEqual([]);

    harness.state.updateInfo({ ...harness.state.info, isolation });
    const foreign = { metadata: { name: harness.state.superNamespace('office') } };
    harness.have('super', resources.namespaces, foreign);
    await controller.reconcile(harness.state, { ...key, name: 'office' }, signal);
    expect(harness.super.server.list(resources.networkPolicies)).toEqual([]);
  });
});

describe("a pod under a policy of the tenant's own", () => {
  const wall = {
    metadata: { name: 'wall', namespace: 'shop' },
    spec: { podSelector: { matchLabels: { app: 'web' } }, policyTypes: ['Ingress', 'Egress'] },
  };
  const web = {
    metadata: { name: 'web', namespace: 'shop', labels: { app: 'web' } },
    spec: { containers: [{ name: 'main', image: 'busybox' }] },
  };
  const both = { [labelKeys.ownIngress]: 'true', [labelKeys.ownEgress]: 'true' };

  function expectNeither(harness: ReconcilerHarness): void {
    const there = Object.keys(labels(harness) ?? {});
    expect(there).toContain(labelKeys.tenant);
    for (const key of Object.keys(both)) expect(there).not.toContain(key);
  }

  async function withWall(): Promise<{ harness: ReconcilerHarness; policy: KubeObject }> {
    const harness = await ReconcilerHarness.start({ tenant: { isolation } });
    harness.namespace('shop');
    harness.have('tenant', resources.serviceAccounts, { metadata: { name: 'default', namespace: 'shop' } });
    const pod = harness.have('tenant', resources.pods, web);
    harness.have('super', resources.pods, harness.superOf(pod, { spec: web.spec }));
    const policy = harness.have('tenant', resources.networkPolicies, wall);
    return { harness, policy };
  }

  const labels = (harness: ReconcilerHarness): Record<string, string> | undefined =>
    harness.super.server.get(resources.pods, { namespace: harness.shop, name: 'web' })?.metadata.labels;
  const show = (harness: ReconcilerHarness): void => {
    for (const resource of [resources.pods, resources.networkPolicies])
      for (const each of harness.super.server.list(resource)) harness.show('super', resource, each);
  };

  /** The policy is in force, the pod out of the default ones, and the cache shows both. */
  const leaveToWall = async (harness: ReconcilerHarness): Promise<void> => {
    await harness.reconcile('networkpolicies', 'wall', 'shop');
    show(harness);
    await harness.reconcile('pods', 'web', 'shop');
    show(harness);
  };

  it('is left to that policy as soon as it is in force, and not before', async () => {
    const { harness } = await withWall();
    await using _bench = harness;
    await harness.reconcile('pods', 'web', 'shop');
    expectNeither(harness);
    await harness.reconcile('networkpolicies', 'wall', 'shop');
    show(harness);
    await harness.reconcile('pods', 'web', 'shop');
    expect(labels(harness)).toMatchObject(both);
  });

  it('stays so when its own policy selects by more than can be compared: the policy stays as it is, too', async () => {
    const { harness, policy } = await withWall();
    await using _bench = harness;
    await leaveToWall(harness);
    const values = Array.from({ length: 200 }, (_, at) => `v${at}`);
    const podSelector = { matchExpressions: [{ key: 'app', operator: 'In', values }] };
    harness.have('tenant', resources.networkPolicies, { ...policy, spec: { ...wall.spec, podSelector } });
    await harness.reconcile('networkpolicies', 'wall', 'shop');
    await harness.reconcile('pods', 'web', 'shop');
    expect(labels(harness)).toMatchObject(both);
    expect(harness.super.server.list(resources.networkPolicies)).toMatchObject([
      { spec: { podSelector: { matchLabels: { app: 'web' } } } },
    ]);
  });

  it('costs a look at a selector that is read once for each version of its policy', async () => {
    const { harness, policy } = await withWall();
    await using _bench = harness;
    await harness.reconcile('networkpolicies', 'wall', 'shop');
    show(harness);
    const own = harness.state.caches.get(resources.networkPolicies, { namespace: 'shop', name: 'wall' });
    let reads = 0;
    Object.defineProperty(own?.['spec'], 'podSelector', {
      get: () => {
        reads++;
        return wall.spec.podSelector;
      },
    });
    const pod = harness.state.caches.get(resources.pods, { namespace: 'shop', name: 'web' }) as KubeObject;
    const held = () => ownPolicyLabels(pod, harness.state.context());
    expect(held()).toEqual(both);
    const once = reads;
    expect(held()).toEqual(both);
    expect(reads).toBe(once);
    harness.have('tenant', resources.networkPolicies, {
      ...policy,
      spec: { ...wall.spec, podSelector: { matchLabels: { app: 'db' } } },
    });
    expect(held()).toBeUndefined();
  });

  it('is back under those of the super cluster before its own goes', async () => {
    const { harness, policy } = await withWall();
    await using _bench = harness;
    await leaveToWall(harness);
    harness.tenant.server.remove(resources.networkPolicies, { namespace: 'shop', name: 'wall' });
    harness.hide('tenant', resources.networkPolicies, policy);
    const from = harness.super.server.requests.length;
    await harness.reconcile('networkpolicies', 'wall', 'shop');
    const writes = harness.super.server.requests
      .slice(from)
      .filter(({ verb }) => verb === 'patch' || verb === 'delete')
      .map(({ verb, plural }) => `${verb} ${plural}`);
    expect(writes).toEqual(['patch pods', 'delete networkpolicies']);
    expect(labels(harness)).not.toHaveProperty([labelKeys.ownEgress]);
    expect(labels(harness)).not.toHaveProperty([labelKeys.ownIngress]);
  });

  it('is looked at among thousands in turns, and not at all where the policy does not hold', async () => {
    const { harness, policy } = await withWall();
    await using _bench = harness;
    await leaveToWall(harness);
    const { superCaches } = harness;
    const inSuper = (name: string) =>
      superCaches.get(resources.networkPolicies, { namespace: harness.shop, name });
    const stored = superCaches.get(resources.pods, { namespace: harness.shop, name: 'web' });
    const copies = (resource: typeof resources.pods, of: KubeObject | undefined, count: number): void => {
      for (let i = 0; i < count; i++) {
        const metadata = { ...of?.metadata, name: `${resource.plural}-${i}`, uid: `${resource.plural}-${i}` };
        superCaches.store(resource).apply('ADDED', structuredClone({ ...of, metadata }));
      }
    };
    copies(resources.networkPolicies, inSuper('wall'), 1_000);
    copies(resources.pods, stored, 20);
    const patched: string[] = [];
    const patch = async (_resource: unknown, { name }: { name: string }): Promise<void> =>
      void patched.push(name);
    const turnsOf = async (superObject: KubeObject | undefined): Promise<number> => {
      let turns = 0;
      let next = setImmediate(function again() {
        turns++;
        next = setImmediate(again);
      });
      const work = { tenant: harness.state, situation: { superObject }, signal };
      await ownPolicyGate({ patch } as never, superCaches)(work as never, { do: 'deleteSuper' });
      clearImmediate(next);
      return turns;
    };
    expect(await turnsOf(inSuper('wall'))).toBeGreaterThanOrEqual(10);
    expect(patched.length).toBe(21);
    patched.length = 0;
    const elsewhere = {
      ...policy,
      ...inSuper('wall'),
      spec: { podSelector: { matchLabels: { app: 'db' } } },
    };
    expect(await turnsOf(elsewhere)).toBe(0);
    expect(patched).toEqual([]);
  });

  it('is not left to one that the tenant says is there, or that is another by now', async () => {
    const { harness } = await withWall();
    await using _bench = harness;
    harness.have('super', resources.networkPolicies, {
      ...wall,
      metadata: {
        name: 'wall',
        namespace: harness.shop,
        labels: { [labelKeys.tenant]: harness.state.info.uid },
        annotations: { [annotationKeys.uid]: 'of-an-earlier-policy' },
      },
    });
    await harness.reconcile('pods', 'web', 'shop');
    expectNeither(harness);
  });
});
