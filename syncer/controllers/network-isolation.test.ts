import { describe, expect, it } from 'vitest';
import { annotationKeys, labelKeys } from '../../api/labels.ts';
import { type KubeObject, resources } from '../../kube/index.ts';
import { ownPolicyLabels } from '../kinds/pods/translate.ts';
import { keyId } from '../reconcile/keys.ts';
import { Bench } from '../reconcile/testing/bench.ts';
import { NetworkIsolationController, ownPolicyGate } from './network-isolation.ts';

const isolation = { podCIDRs: ['10.244.0.0/16'], closedCIDRs: ['192.0.2.1/32'] };
const key = { kind: 'networkisolation', name: 'shop' };
const { signal } = new AbortController();

function controllerOf(bench: Bench): { controller: NetworkIsolationController; heard: () => string[] } {
  const queued: string[] = [];
  const controller = new NetworkIsolationController({
    superClient: bench.super.client,
    superCaches: bench.superCaches,
    tenant: (uid) => (uid === bench.state.info.uid ? bench.state : undefined),
    enqueue: (_tenant, each) => queued.push(keyId(each)),
  });
  return { controller, heard: () => queued.splice(0) };
}

/** The policies that the server has, as the cache shows them from now on. */
function policies(bench: Bench): KubeObject[] {
  const all = bench.super.server.list(resources.networkPolicies);
  for (const each of all)
    bench.superCaches.watched('networkisolation').apply('MODIFIED', structuredClone(each));
  return all;
}

describe('policies that keep tenants apart (sync rule `tenant-isolation`)', () => {
  it('are made in each super namespace, and put back when they are changed or gone', async () => {
    await using bench = await Bench.start({ tenant: { isolation } });
    const { controller, heard } = controllerOf(bench);
    bench.namespace('shop');
    expect(heard()).toEqual(['networkisolation//shop']);
    expect([...controller.keysOf(bench.state)]).toEqual([key]);
    expect(controller.driftOf(bench.state, key)).toBe('differs');
    expect(await controller.reconcile(bench.state, key, signal)).toEqual({ is: 'done' });
    const made = policies(bench);
    expect(made.map(({ metadata }) => metadata.name).sort()).toEqual(['skerry-egress', 'skerry-ingress']);
    expect(made.every(({ metadata }) => metadata.labels?.[labelKeys.tenant] === bench.state.info.uid)).toBe(
      true,
    );
    expect(controller.driftOf(bench.state, key)).toBeUndefined();
    heard();

    const [egress, ingress] = made as [KubeObject, KubeObject];
    const opened = { ...egress, spec: { podSelector: {}, policyTypes: ['Egress'], egress: [{}] } };
    bench.super.server.put(resources.networkPolicies, opened);
    bench.super.server.remove(resources.networkPolicies, { namespace: bench.shop, name: 'skerry-ingress' });
    bench.superCaches.watched('networkisolation').apply('DELETED', ingress);
    policies(bench);
    expect(heard()).not.toEqual([]);
    expect(await controller.reconcile(bench.state, key, signal)).toEqual({ is: 'done' });
    expect(policies(bench).map(({ spec }) => spec)).toEqual(made.map(({ spec }) => spec));
  });

  it('are made once for all pods that come first, before a cache shows them, and again after a failure', async () => {
    await using bench = await Bench.start({ tenant: { isolation } });
    const { controller } = controllerOf(bench);
    bench.namespace('shop');
    const firstPod = () => controller.beforePods(bench.state, 'shop', signal);
    const creates = () => bench.super.server.requests.filter(({ verb }) => verb === 'create').length;
    bench.super.server.inject({
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
    const [egress] = policies(bench) as [KubeObject];
    await firstPod();
    expect(creates()).toBe(4);
    bench.super.server.remove(resources.networkPolicies, { namespace: bench.shop, name: 'skerry-egress' });
    bench.superCaches.watched('networkisolation').apply('DELETED', egress);
    await firstPod();
    expect(policies(bench)).toHaveLength(2);
  });

  it('are made again where the tenant left before a cache showed them', async () => {
    await using bench = await Bench.start({ tenant: { isolation } });
    const { controller } = controllerOf(bench);
    bench.namespace('shop');
    await controller.beforePods(bench.state, 'shop', signal);
    controller.leave('another');
    const creates = () => bench.super.server.requests.filter(({ verb }) => verb === 'create').length;
    await controller.beforePods(bench.state, 'shop', signal);
    expect(creates()).toBe(2);
    controller.leave(bench.state.info.uid);
    for (const name of ['skerry-egress', 'skerry-ingress'])
      bench.super.server.remove(resources.networkPolicies, { namespace: bench.shop, name });
    await controller.beforePods(bench.state, 'shop', signal);
    expect(bench.super.server.list(resources.networkPolicies)).toHaveLength(2);
  });

  it('are given back their labels where somebody took them, before the first pod', async () => {
    await using bench = await Bench.start({ tenant: { isolation } });
    const { controller } = controllerOf(bench);
    bench.namespace('shop');
    const metadata = { namespace: bench.shop, name: 'skerry-egress' };
    bench.super.server.put(resources.networkPolicies, { metadata, spec: { podSelector: {}, egress: [{}] } });
    await controller.beforePods(bench.state, 'shop', signal);
    const [egress] = policies(bench).filter(({ metadata: { name } }) => name === 'skerry-egress');
    expect(egress?.metadata.labels).toMatchObject({ [labelKeys.isolation]: 'true' });
    expect(egress?.['spec']).not.toMatchObject({ egress: [{}] });
  });

  it('follow the settings while deletions of the tenant are stopped', async () => {
    await using bench = await Bench.start({ tenant: { isolation } });
    const { controller } = controllerOf(bench);
    bench.namespace('shop');
    await controller.reconcile(bench.state, key, signal);
    const before = policies(bench);
    bench.state.frozen = 'TenantIdentity';
    bench.tenant.server.remove(resources.namespaces, { name: 'kube-system' });
    const closedCIDRs = ['192.0.2.1/32', '192.0.2.2/32'];
    bench.state.updateInfo({ ...bench.state.info, isolation: { ...isolation, closedCIDRs } });
    expect(await controller.reconcile(bench.state, key, signal)).toEqual({ is: 'done' });
    expect(policies(bench)).not.toEqual(before);
    bench.state.updateInfo({ ...bench.state.info, isolation: undefined });
    await controller.reconcile(bench.state, key, signal);
    expect(bench.super.server.list(resources.networkPolicies)).toEqual([]);
  });

  it('stay as they are while it is not known what acts on them, or what they have to close', async () => {
    await using bench = await Bench.start({ tenant: { isolation } });
    const { controller } = controllerOf(bench);
    bench.namespace('shop');
    await controller.reconcile(bench.state, key, signal);
    const before = policies(bench);
    expect(before).toHaveLength(2);
    const closedCIDRs = ['0.0.0.0/0', '::/0'];
    for (const guessed of [undefined, { ...isolation, closedCIDRs }]) {
      const info = { ...bench.state.info, isolation: guessed };
      bench.state.updateInfo({ ...info, isSuperClusterUnknown: true });
      expect(controller.driftOf(bench.state, key)).toBeUndefined();
      bench.state.updateInfo({ ...info, isSuperClusterUnknown: undefined });
      expect(controller.driftOf(bench.state, key)).toBe('differs');
    }
    for (const each of before) bench.superCaches.watched('networkisolation').apply('DELETED', each);
    bench.state.updateInfo({ ...bench.state.info, isIsolationUnknown: true });
    expect(controller.driftOf(bench.state, key)).toBeUndefined();
    bench.state.updateInfo({ ...bench.state.info, isIsolationUnknown: undefined });
    expect(controller.driftOf(bench.state, key)).toBe('differs');
  });

  it('go where the operator wants none, and are never made in a namespace that is not ours', async () => {
    await using bench = await Bench.start({ tenant: { isolation } });
    const { controller } = controllerOf(bench);
    bench.namespace('shop');
    await controller.reconcile(bench.state, key, signal);
    policies(bench);
    bench.state.updateInfo({ ...bench.state.info, isolation: undefined });
    expect(await controller.reconcile(bench.state, key, signal)).toEqual({ is: 'done' });
    expect(bench.super.server.list(resources.networkPolicies)).toEqual([]);

    bench.state.updateInfo({ ...bench.state.info, isolation });
    const foreign = { metadata: { name: bench.state.superNamespace('office') } };
    bench.have('super', resources.namespaces, foreign);
    await controller.reconcile(bench.state, { ...key, name: 'office' }, signal);
    expect(bench.super.server.list(resources.networkPolicies)).toEqual([]);
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

  async function withWall(): Promise<{ bench: Bench; policy: KubeObject }> {
    const bench = await Bench.start({ tenant: { isolation } });
    bench.namespace('shop');
    bench.have('tenant', resources.serviceAccounts, { metadata: { name: 'default', namespace: 'shop' } });
    const pod = bench.have('tenant', resources.pods, web);
    bench.have('super', resources.pods, bench.superOf(pod, { spec: web.spec }));
    const policy = bench.have('tenant', resources.networkPolicies, wall);
    return { bench, policy };
  }

  const labels = (bench: Bench): Record<string, string> | undefined =>
    bench.super.server.get(resources.pods, { namespace: bench.shop, name: 'web' })?.metadata.labels;
  const show = (bench: Bench): void => {
    for (const resource of [resources.pods, resources.networkPolicies])
      for (const each of bench.super.server.list(resource)) bench.show('super', resource, each);
  };

  /** The policy is in force, the pod out of the default ones, and the cache shows both. */
  const leaveToWall = async (bench: Bench): Promise<void> => {
    await bench.reconcile('networkpolicies', 'wall', 'shop');
    show(bench);
    await bench.reconcile('pods', 'web', 'shop');
    show(bench);
  };

  it('is left to that policy as soon as it is in force, and not before', async () => {
    const { bench } = await withWall();
    await using _bench = bench;
    await bench.reconcile('pods', 'web', 'shop');
    expect(labels(bench)).not.toMatchObject(both);
    await bench.reconcile('networkpolicies', 'wall', 'shop');
    show(bench);
    await bench.reconcile('pods', 'web', 'shop');
    expect(labels(bench)).toMatchObject(both);
  });

  it('stays so when its own policy selects by more than can be compared: the policy stays as it is, too', async () => {
    const { bench, policy } = await withWall();
    await using _bench = bench;
    await leaveToWall(bench);
    const values = Array.from({ length: 200 }, (_, at) => `v${at}`);
    const podSelector = { matchExpressions: [{ key: 'app', operator: 'In', values }] };
    bench.have('tenant', resources.networkPolicies, { ...policy, spec: { ...wall.spec, podSelector } });
    await bench.reconcile('networkpolicies', 'wall', 'shop');
    await bench.reconcile('pods', 'web', 'shop');
    expect(labels(bench)).toMatchObject(both);
    expect(bench.super.server.list(resources.networkPolicies)).toMatchObject([
      { spec: { podSelector: { matchLabels: { app: 'web' } } } },
    ]);
  });

  it('costs a look at a selector that is read once for each version of its policy', async () => {
    const { bench, policy } = await withWall();
    await using _bench = bench;
    await bench.reconcile('networkpolicies', 'wall', 'shop');
    show(bench);
    const own = bench.state.caches.get(resources.networkPolicies, { namespace: 'shop', name: 'wall' });
    let reads = 0;
    Object.defineProperty(own?.['spec'], 'podSelector', {
      get: () => {
        reads++;
        return wall.spec.podSelector;
      },
    });
    const pod = bench.state.caches.get(resources.pods, { namespace: 'shop', name: 'web' }) as KubeObject;
    const held = () => ownPolicyLabels(pod, bench.state.context());
    expect(held()).toEqual(both);
    const once = reads;
    expect(held()).toEqual(both);
    expect(reads).toBe(once);
    bench.have('tenant', resources.networkPolicies, {
      ...policy,
      spec: { ...wall.spec, podSelector: { matchLabels: { app: 'db' } } },
    });
    expect(held()).toBeUndefined();
  });

  it('is back under those of the super cluster before its own goes', async () => {
    const { bench, policy } = await withWall();
    await using _bench = bench;
    await leaveToWall(bench);
    bench.tenant.server.remove(resources.networkPolicies, { namespace: 'shop', name: 'wall' });
    bench.hide('tenant', resources.networkPolicies, policy);
    const from = bench.super.server.requests.length;
    await bench.reconcile('networkpolicies', 'wall', 'shop');
    const writes = bench.super.server.requests
      .slice(from)
      .filter(({ verb }) => verb === 'patch' || verb === 'delete')
      .map(({ verb, plural }) => `${verb} ${plural}`);
    expect(writes).toEqual(['patch pods', 'delete networkpolicies']);
    expect(labels(bench)).not.toHaveProperty([labelKeys.ownEgress]);
    expect(labels(bench)).not.toHaveProperty([labelKeys.ownIngress]);
  });

  it('is looked at among thousands in turns, and not at all where the policy does not hold', async () => {
    const { bench, policy } = await withWall();
    await using _bench = bench;
    await leaveToWall(bench);
    const { superCaches } = bench;
    const inSuper = (name: string) =>
      superCaches.get(resources.networkPolicies, { namespace: bench.shop, name });
    const stored = superCaches.get(resources.pods, { namespace: bench.shop, name: 'web' });
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
      const work = { tenant: bench.state, situation: { superObject }, signal };
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
    const { bench } = await withWall();
    await using _bench = bench;
    bench.have('super', resources.networkPolicies, {
      ...wall,
      metadata: {
        name: 'wall',
        namespace: bench.shop,
        labels: { [labelKeys.tenant]: bench.state.info.uid },
        annotations: { [annotationKeys.uid]: 'of-an-earlier-policy' },
      },
    });
    await bench.reconcile('pods', 'web', 'shop');
    expect(labels(bench)).not.toMatchObject(both);
  });
});
