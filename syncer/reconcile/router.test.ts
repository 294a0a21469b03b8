import { setImmediate } from 'node:timers/promises';
import { describe, expect, it } from 'vitest';
import { annotationKeys, labelKeys } from '../../api/labels.ts';
import { type Clock, estimateBytes, type KubeObject, resources } from '../../kube/index.ts';
import type { SyncedKind } from '../kinds/contract.ts';
import { podKind } from '../kinds/pods/pods.ts';
import { allKinds } from '../kinds/registry.ts';
import { shownNodeName } from '../mapping/node-names.ts';
import { keyId } from './keys.ts';
import { Router } from './router.ts';
import { ReconcilerHarness } from './testing/reconciler-harness.ts';

/** A router that has joined the tenant of a harness. `takeQueued` takes what was queued since it was last asked. */
function routed(
  harness: ReconcilerHarness,
  clock: Pick<Clock, 'monotonic' | 'sleep'> = harness.clock,
  kinds: readonly SyncedKind[] = allKinds,
): { router: Router; takeQueued: () => string[]; errors: string[] } {
  let queued: string[] = [];
  const errors: string[] = [];
  const router = new Router({
    kinds,
    superCaches: harness.superCaches,
    clock,
    enqueue: (_tenant, key, priority, version) =>
      queued.push(`${priority} ${keyId(key)}${version === undefined ? '' : ` at ${version}`}`),
    enqueueFirst: (_tenant, key) => queued.push(`first ${keyId(key)}`),
    onError: (_tenant, key, error) => errors.push(`${keyId(key)}: ${error}`),
  });
  router.join(harness.state);
  const takeQueued = (): string[] => {
    const taken = queued;
    queued = [];
    return taken;
  };
  takeQueued();
  return { router, takeQueued, errors };
}

const settings: KubeObject = { metadata: { name: 'x', namespace: 'shop', uid: 't1', resourceVersion: '7' } };

describe('events of the tenant', () => {
  it('queue their key: what was watched at once, what a list has shown in its turn', async () => {
    await using harness = await ReconcilerHarness.start();
    const { takeQueued } = routed(harness);
    harness.show('tenant', resources.configMaps, settings);
    expect(takeQueued()).toEqual(['live configmaps/shop/x at 7']);
    harness.state.caches.store(resources.configMaps).replace([]);
    expect(takeQueued()).toEqual([
      'background configmaps/shop/x at 7',
      'background late-configmaps/shop/x at 7',
    ]);
  });

  it('leave a tombstone only when the deletion was watched', async () => {
    await using harness = await ReconcilerHarness.start();
    routed(harness);
    harness.show('tenant', resources.configMaps, settings);
    harness.state.caches.store(resources.configMaps).replace([]);
    expect(harness.state.tombstones.tenant.size).toBe(0);
    harness.show('tenant', resources.configMaps, settings);
    harness.hide('tenant', resources.configMaps, settings);
    expect(harness.state.tombstones.tenant.get('configmaps/shop/x')?.uid).toBe('t1');
  });

  it('queue a second copy only when the tenant object goes, or touches it', async () => {
    await using harness = await ReconcilerHarness.start();
    const { takeQueued } = routed(harness);
    const late = (): string[] => takeQueued().filter((line) => line.includes('late-configmaps/'));
    harness.show('tenant', resources.configMaps, settings);
    expect(late()).toEqual([]);
    harness.hide('tenant', resources.configMaps, settings);
    expect(late()).toEqual(['live late-configmaps/shop/x at 7']);
  });

  it('queue what a pod uses when that changes, and not at every change of the pod', async () => {
    await using harness = await ReconcilerHarness.start();
    const { takeQueued } = routed(harness);
    const containers = [{ name: 'main', envFrom: [{ configMapRef: { name: 'x' } }] }];
    const pod = (version: string, labels = {}): KubeObject => ({
      metadata: { name: 'web', namespace: 'shop', uid: 'p1', resourceVersion: version, labels },
      spec: { containers },
    });
    harness.show('tenant', resources.pods, pod('1'));
    expect(takeQueued()).toContain('live configmaps/shop/x');
    harness.show('tenant', resources.pods, pod('2', { changed: 'yes' }));
    expect(takeQueued()).toEqual(['live pods/shop/web at 2']);
    harness.hide('tenant', resources.pods, pod('3'));
    expect(takeQueued()).toContain('live configmaps/shop/x');
  });

  it('mean nothing after the tenant has left', async () => {
    await using harness = await ReconcilerHarness.start();
    const { router, takeQueued } = routed(harness);
    router.leave(harness.state.info.uid);
    harness.show('tenant', resources.configMaps, settings);
    expect(takeQueued()).toEqual([]);
    expect(harness.state.tombstones.tenant.size).toBe(0);
  });
});

describe('events of the super cluster', () => {
  it('keep of a deleted object only what its kind will ask for', async () => {
    await using harness = await ReconcilerHarness.start();
    routed(harness);
    const { metadata } = harness.superOf(settings);
    const env = Array.from({ length: 10_000 }, () => ({ name: 'A' }));
    const containers = [{ name: 'main', image: 'busybox', env }];
    const status = { phase: 'Running', conditions: [{ type: 'Ready', status: 'True' }] };
    const spec = { nodeName: 'n1', containers };
    const superObject = { metadata: { ...metadata, uid: 's1' }, spec, status };
    for (const resource of [resources.configMaps, resources.pods]) {
      harness.show('super', resource, superObject);
      harness.hide('super', resource, superObject);
    }
    expect(harness.state.tombstones.super.get('configmaps/shop/x')?.object).toEqual({
      metadata: { uid: 's1' },
    });
    const kept = harness.state.tombstones.super.get('pods/shop/x')?.object;
    expect(kept).toEqual({
      metadata: {
        namespace: metadata.namespace,
        name: 'x',
        uid: 's1',
        annotations: { [annotationKeys.uid]: 't1' },
      },
      spec: { nodeName: 'n1', containers: [{ name: 'main', image: 'busybox' }] },
      status,
    });
    expect(estimateBytes(kept)).toBeLessThan(4_000);
  });

  it('keep of a pod what its last status is written by', async () => {
    await using harness = await ReconcilerHarness.start();
    routed(harness);
    const sizes = { requests: { cpu: '1' } };
    const main = { name: 'main', image: 'busybox', resources: sizes };
    const own = harness.have('tenant', resources.pods, {
      metadata: { name: 'x', namespace: 'shop', generation: 3 },
      spec: { nodeName: 'n1', containers: [main], ephemeralContainers: [{ name: 'e', image: 'busybox' }] },
      status: { phase: 'Running' },
    });
    own.metadata.annotations = { [annotationKeys.superUid]: 's1' };
    const status = {
      phase: 'Failed',
      observedGeneration: 2,
      conditions: [{ type: 'Ready', status: 'False', observedGeneration: 2 }],
      containerStatuses: [{ name: 'main', state: { terminated: { exitCode: 1 } } }],
    };
    const context = harness.state.context();
    const outcomes = new Set<string>();
    for (const image of ['busybox', 'other']) {
      const spec = { ...(own['spec'] as object), containers: [{ ...main, image, env: [{ name: 'A' }] }] };
      const { metadata } = harness.superOf(own);
      const s = { metadata: { ...metadata, uid: 's1', generation: 2, resourceVersion: image }, spec, status };
      harness.show('super', resources.pods, s);
      harness.hide('super', resources.pods, s);
      const kept = harness.state.tombstones.super.get('pods/shop/x')?.object;
      expect(podKind.superGone?.(own, context, kept)).toEqual(podKind.superGone?.(own, context, s));
      outcomes.add(JSON.stringify(podKind.superGone?.(own, context, kept)));
    }
    // Where the image is another, the status is not that of the present generation.
    expect([...outcomes].map((each) => each.includes('"observedGeneration":3'))).toEqual([true, false]);
  });

  it('queue the key of the tenant whose mark they carry, and no other', async () => {
    await using harness = await ReconcilerHarness.start();
    const { takeQueued } = routed(harness);
    const s = harness.superOf(settings);
    harness.show('super', resources.configMaps, { ...s, metadata: { ...s.metadata, uid: 's1' } });
    expect(takeQueued()).toEqual(['live configmaps/shop/x']);
    const labels = { ...s.metadata.labels, [labelKeys.tenant]: 'another' };
    harness.show('super', resources.configMaps, {
      ...s,
      metadata: { ...s.metadata, name: 'y', uid: 's2', labels },
    });
    expect(takeQueued()).toEqual([]);
  });

  it('end the wait for what we created', async () => {
    await using harness = await ReconcilerHarness.start();
    routed(harness);
    const s = harness.superOf(settings);
    harness.state.expectations.super.expectCreated('configmaps/shop/x', { metadata: { uid: 's1' } });
    harness.show('super', resources.configMaps, { ...s, metadata: { ...s.metadata, uid: 's1' } });
    expect(harness.state.expectations.super.createdUid('configmaps/shop/x')).toBeUndefined();
  });

  it('queue the key of the tenant before as well when the marks were changed', async () => {
    await using harness = await ReconcilerHarness.start();
    const { takeQueued } = routed(harness);
    const s = harness.superOf(settings);
    const metadata = { ...s.metadata, uid: 's1', resourceVersion: '1' };
    harness.show('super', resources.configMaps, { ...s, metadata });
    takeQueued();
    const moved = {
      ...metadata,
      resourceVersion: '2',
      labels: { ...metadata.labels, [labelKeys.namespace]: 'barn' },
    };
    harness.show('super', resources.configMaps, { ...s, metadata: moved });
    expect(takeQueued()).toEqual(['live configmaps/barn/x', 'live configmaps/shop/x']);
    const given = {
      ...moved,
      resourceVersion: '3',
      labels: { ...moved.labels, [labelKeys.tenant]: 'another' },
    };
    harness.show('super', resources.configMaps, { ...s, metadata: given });
    expect(takeQueued()).toEqual(['live configmaps/barn/x']);
  });

  it('about a namespace of no tenant concern none; those about all concern all', async () => {
    await using harness = await ReconcilerHarness.start();
    const { takeQueued } = routed(harness);
    const volume = {
      metadata: { name: 'pv-1', uid: 'v1' },
      spec: { claimRef: { namespace: 'elsewhere', name: 'c', uid: 'u' } },
    };
    harness.show('super', resources.persistentVolumes, volume);
    expect(takeQueued()).toEqual([]);
    harness.show('super', resources.nodes, { metadata: { name: 'n1', uid: 'n1' } });
    expect(takeQueued()).toEqual(['live nodes//n1']);
  });

  it('of a namespace that is seen after what happened in it queue that now', async () => {
    await using harness = await ReconcilerHarness.start();
    const { takeQueued } = routed(harness);
    const own = harness.have('tenant', resources.namespaces, { metadata: { name: 'shop' } });
    harness.show('super', resources.persistentVolumes, {
      metadata: { name: 'v1', uid: 'v1' },
      spec: { claimRef: { namespace: harness.shop, name: 'data', uid: 'c1' } },
    });
    takeQueued();
    harness.show('super', resources.namespaces, harness.superNamespaceOf(own));
    expect(takeQueued()).toContain('background persistentvolumes//v1');
  });

  it('that are no more than a heartbeat queue nothing', async () => {
    await using harness = await ReconcilerHarness.start();
    const { takeQueued } = routed(harness);
    const node = (beat: string, version: string, status = 'True'): KubeObject => ({
      metadata: { name: 'n1', uid: 'n1', resourceVersion: version },
      status: { conditions: [{ type: 'Ready', status, lastHeartbeatTime: beat }] },
    });
    harness.show('super', resources.nodes, node('1', '1'));
    takeQueued();
    harness.show('super', resources.nodes, node('2', '2'));
    expect(takeQueued()).toEqual([]);
    harness.show('super', resources.nodes, node('3', '3', 'False'));
    expect(takeQueued()).toEqual(['live nodes//n1']);
  });

  it('name a hidden node as the tenant does, whether it has a place there or not', async () => {
    await using harness = await ReconcilerHarness.start({ tenant: { hideNodes: true, nodes: 'used' } });
    const { takeQueued } = routed(harness);
    harness.show('super', resources.nodes, { metadata: { name: 'n1', uid: 'n1' } });
    expect(takeQueued()).toEqual([`live nodes//${shownNodeName(harness.state.info, 'n1')}`]);
  });

  it('that only a list has shown make the guard count anew', async () => {
    await using harness = await ReconcilerHarness.start();
    routed(harness);
    const s = harness.superOf(settings);
    harness.show('super', resources.pods, { ...s, metadata: { ...s.metadata, uid: 's1' } });
    harness.superCaches.store(resources.pods).replace([]);
    expect(harness.state.tombstones.super.size).toBe(0);
  });
});

it('every key that either side has is found once', async () => {
  await using harness = await ReconcilerHarness.start();
  const { router } = routed(harness);
  harness.namespace('shop');
  const t = harness.have('tenant', resources.configMaps, { metadata: { name: 'x', namespace: 'shop' } });
  harness.have('super', resources.configMaps, harness.superOf(t));
  harness.have(
    'super',
    resources.configMaps,
    harness.superOf({ metadata: { name: 'left', namespace: 'shop', uid: 't9' } }),
  );
  harness.have('super', resources.nodes, { metadata: { name: 'n1' } });
  const keys = [...router.keysOf(harness.state)].map(keyId);
  expect(keys.toSorted()).toEqual([
    'configmaps/shop/left',
    'configmaps/shop/x',
    'late-configmaps/shop/x',
    'namespaces//shop',
    'nodes//n1',
  ]);
});

it('queues all that a tenant has in slices of time, from the beginning where it is asked to once more', async () => {
  await using harness = await ReconcilerHarness.start();
  const names = Array.from({ length: 50 }, (_, n) => `c${n}`);
  for (const name of names)
    harness.show('tenant', resources.configMaps, {
      metadata: { name, namespace: 'shop', uid: name, resourceVersion: '1' },
    });
  let now = 0;
  const rests: (() => void)[] = [];
  const clock = {
    // Each look at the clock takes a millisecond.
    monotonic: () => {
      now += 1;
      return now;
    },
    sleep: () => new Promise<void>((resolve) => rests.push(resolve)),
  };
  const finish = async (): Promise<void> => {
    while (rests.length > 0) {
      rests.pop()?.();
      await setImmediate();
    }
  };
  const all = names.map((name) => `background configmaps/shop/${name}`);
  const queued = (lines: readonly string[]): string[] =>
    lines.filter((line) => line.includes(' configmaps/'));
  const { router, takeQueued } = routed(harness, clock);
  await finish();
  const rest = queued(takeQueued());
  expect(rest.length).toBeGreaterThan(40);
  expect(all).toEqual(expect.arrayContaining(rest));
  router.enqueueAll(harness.state);
  expect(queued(takeQueued()).length).toBeLessThan(10);
  router.enqueueAll(harness.state);
  await finish();
  expect(queued(takeQueued())).toEqual(all);
  router.enqueueAll(harness.state);
  router.leave(harness.state.info.uid);
  takeQueued();
  await finish();
  expect(takeQueued()).toEqual([]);
});

it('names the last key of a pass that fails in a later slice, and can be asked for another one', async () => {
  await using harness = await ReconcilerHarness.start();
  for (const name of ['c0', 'c1', 'c2'])
    harness.show('tenant', resources.configMaps, {
      metadata: { name, namespace: 'shop', uid: name, resourceVersion: '1' },
    });
  let now = 0;
  // Each slice ends with its first key.
  const clock = {
    monotonic: () => {
      now += 10;
      return now;
    },
    sleep: () => setImmediate(),
  };
  let isBroken = true;
  const queued: string[] = [];
  const failed: string[] = [];
  const router = new Router({
    kinds: allKinds.filter(({ name }) => name === 'namespaces' || name === 'configmaps'),
    superCaches: harness.superCaches,
    clock,
    enqueue: (_tenant, key) => {
      if (isBroken && key.name === 'c1') throw new Error('cannot be queued');
      queued.push(keyId(key));
    },
    enqueueFirst: () => undefined,
    onError: (_tenant, key, error) => failed.push(`${keyId(key)}: ${error}`),
  });
  router.join(harness.state);
  await expect.poll(() => failed).toEqual(['configmaps/shop/c1: Error: cannot be queued']);
  expect(queued).toEqual(['configmaps/shop/c0']);
  isBroken = false;
  router.enqueueAll(harness.state);
  await expect.poll(() => queued).toHaveLength(4);
});

it('looks at pods first when a tenant joins, but at what isolates them before', async () => {
  await using harness = await ReconcilerHarness.start();
  const metadata = { name: 'x', namespace: 'shop', uid: 't1', resourceVersion: '1' };
  const { configMaps, secrets, networkPolicies, pods, services } = resources;
  for (const resource of [configMaps, secrets, services, pods, networkPolicies])
    harness.show('tenant', resource, { metadata });
  const { router, takeQueued } = routed(harness);
  router.enqueueAll(harness.state);
  const kinds = takeQueued().map((line) => line.split(/[ /]/)[1]);
  const order = kinds.filter((kind) => kind !== 'namespaces');
  expect(order.slice(0, 2)).toEqual(['networkpolicies', 'pods']);
  expect(order.slice(2)).toEqual(expect.arrayContaining(['configmaps', 'secrets', 'services']));
});

describe('an object that very many follow', () => {
  const ingressClass = (version: number): KubeObject => ({
    metadata: { name: 'shared', uid: 'c1', resourceVersion: String(version) },
    spec: { controller: `example.com/${version}` },
  });

  /** So many Ingresses name the class. Each look at the clock takes a millisecond; `endRest` ends a pause. */
  async function follow(harness: ReconcilerHarness, count: number, kinds: readonly SyncedKind[] = allKinds) {
    let now = 0;
    let endRest: (() => void) | undefined;
    const rests: number[] = [];
    const clock = {
      monotonic: () => {
        now += 1;
        return now;
      },
      sleep: (ms: number) => {
        rests.push(ms);
        return new Promise<void>((resolve) => {
          endRest = resolve;
        });
      },
    };
    const names = Array.from({ length: count }, (_, n) => `i${n}`);
    for (const name of names)
      harness.show('tenant', resources.ingresses, {
        metadata: { name, namespace: 'shop', uid: name, resourceVersion: '1' },
        spec: { ingressClassName: 'shared' },
      });
    const { router, takeQueued, errors } = routed(harness, clock, kinds);
    const referrers = (): string[] => takeQueued().filter((line) => line.startsWith('live ingresses/'));
    /** Ends pauses as long as there are any. */
    const finish = async (): Promise<void> => {
      while (endRest !== undefined) {
        const end = endRest;
        endRest = undefined;
        end();
        await setImmediate();
      }
    };
    const all = names.map((name) => `live ingresses/shop/${name}`);
    // Of the pass over all that the tenant had when it joined.
    await finish();
    rests.length = 0;
    takeQueued();
    return { router, rests, takeQueued, errors, referrers, finish, all };
  }

  it('queues up to 100 referrers at once', async () => {
    await using harness = await ReconcilerHarness.start();
    const { referrers, all, rests } = await follow(harness, 99);
    harness.show('tenant', resources.ingressClasses, ingressClass(1));
    expect(referrers()).toEqual(all);
    expect(rests).toEqual([]);
  });

  it('queues more of them in slices of time, and once more for all that changes meanwhile', async () => {
    await using harness = await ReconcilerHarness.start();
    const { takeQueued, referrers, finish, all, rests } = await follow(harness, 300);
    harness.show('tenant', resources.ingressClasses, ingressClass(1));
    expect(referrers().length).toBeLessThan(10);
    for (let version = 2; version < 50; version += 1) {
      harness.show('tenant', resources.ingressClasses, ingressClass(version));
      expect(takeQueued()).toEqual([`live ingressclasses//shared at ${version}`]);
    }
    await finish();
    const queued = referrers();
    expect(new Set(queued)).toEqual(new Set(all));
    expect(queued.length).toBeGreaterThanOrEqual(300);
    expect(queued.length).toBeLessThanOrEqual(600);
    // What changes afterwards begins anew.
    rests.length = 0;
    harness.show('tenant', resources.ingressClasses, ingressClass(50));
    await finish();
    expect(referrers()).toEqual(all);
    expect(Math.min(...rests)).toBeGreaterThanOrEqual(3);
  });

  it('has everything looked at where a kind cannot say what else it matters to, and tells of that', async () => {
    await using harness = await ReconcilerHarness.start();
    const touches = {
      tenant: () => {
        throw new TypeError('a defect');
      },
    };
    const kinds = allKinds.map(
      (kind): SyncedKind => (kind.name === 'ingressclasses' ? ({ ...kind, touches } as SyncedKind) : kind),
    );
    const { takeQueued, errors, finish, all } = await follow(harness, 101, kinds);
    harness.have('tenant', resources.configMaps, { metadata: { name: 'other', namespace: 'shop' } });
    harness.show('tenant', resources.ingressClasses, ingressClass(1));
    await finish();
    expect(takeQueued()).toEqual(expect.arrayContaining([...all, 'live configmaps/shop/other']));
    expect(errors).toEqual(['ingressclasses//shared: TypeError: a defect']);
  });

  it('ends with its tenant', async () => {
    await using harness = await ReconcilerHarness.start();
    const { router, referrers, finish } = await follow(harness, 300);
    harness.show('tenant', resources.ingressClasses, ingressClass(1));
    referrers();
    router.leave(harness.state.info.uid);
    await finish();
    expect(referrers().length).toBeLessThanOrEqual(1);
  });
});
