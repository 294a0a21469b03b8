import { setImmediate } from 'node:timers/promises';
import { describe, expect, it } from 'vitest';
import { annotationKeys, labelKeys } from '../../api/labels.ts';
import { type KubeObject, resources } from '../../kube/index.ts';
import { fastClock } from '../../kube/testing/fast-clock.ts';
import { FakeClock } from '../../kube/testing/index.ts';
import { customResourceKind } from '../kinds/custom-resources.ts';
import { allKinds } from '../kinds/registry.ts';
import { testContext, testNamespace, testTenant } from '../kinds/testing.ts';
import { superNamespaceName } from '../mapping/names.ts';
import { shownNodeName } from '../mapping/node-names.ts';
import { keyId } from '../reconcile/keys.ts';
import { ReconcilerHarness } from '../reconcile/testing/reconciler-harness.ts';
import { TwoSides, type TwoSidesOptions } from '../reconcile/testing/two-sides.ts';
import { copyOf, EventController, eventContent, eventContentPatch, tenantRefOf } from './events.ts';

const tenant = testTenant();
const superShop = superNamespaceName(tenant, 'shop');

function event(change: Record<string, unknown> = {}, involved: Record<string, unknown> = {}): KubeObject {
  return {
    apiVersion: 'v1',
    kind: 'Event',
    metadata: {
      name: 'web-0.17a',
      namespace: superShop,
      uid: 'uid-event',
      creationTimestamp: '2026-01-01T00:00:00Z',
    },
    involvedObject: {
      apiVersion: 'v1',
      kind: 'Pod',
      namespace: superShop,
      name: 'web-0',
      uid: 'uid-super-pod',
      resourceVersion: '99',
      fieldPath: 'spec.containers{main}',
      ...involved,
    },
    reason: 'Scheduled',
    message: `Successfully assigned ${superShop}/web-0 to node-1`,
    type: 'Normal',
    source: { component: 'default-scheduler' },
    reportingComponent: 'default-scheduler',
    reportingInstance: '',
    firstTimestamp: '2026-01-01T00:00:00Z',
    lastTimestamp: '2026-01-01T00:00:00Z',
    eventTime: null,
    count: 1,
    ...change,
  };
}

function pod(uid = 'uid-pod', creationTimestamp = '2026-01-01T00:00:00Z'): KubeObject {
  return {
    apiVersion: 'v1',
    kind: 'Pod',
    metadata: { name: 'web-0', namespace: 'shop', uid, creationTimestamp },
  };
}

function superPod(uid = 'uid-super-pod', mark = 'uid-pod'): KubeObject {
  return {
    apiVersion: 'v1',
    kind: 'Pod',
    metadata: {
      name: 'web-0',
      namespace: superShop,
      uid,
      labels: { [labelKeys.tenant]: tenant.uid },
      annotations: { [annotationKeys.uid]: mark },
    },
  };
}

const superNamespace = (uid = tenant.uid) =>
  testNamespace(superShop, { [labelKeys.tenant]: uid, [labelKeys.namespace]: 'shop' });

function context(
  superObjects: KubeObject[] = [superNamespace(), superPod()],
  tenantObjects: KubeObject[] = [pod()],
) {
  return testContext({ superObjects, tenantObjects, kinds: allKinds });
}

describe('which events come up (sync rule `events`)', () => {
  it('those about synced objects', () => {
    expect(tenantRefOf(event(), context())).toEqual({ namespace: 'shop', name: 'web-0.17a' });
  });

  it('not those of other tenants, nor of namespaces of no tenant', () => {
    expect(tenantRefOf(event(), context([superNamespace('another'), superPod()]))).toBeUndefined();
    expect(tenantRefOf(event(), context([superPod()]))).toBeUndefined();
  });

  it('not those about things that the tenant does not have', () => {
    expect(tenantRefOf(event({}, { kind: 'Namespace' }), context())).toBeUndefined();
    expect(tenantRefOf(event({}, { kind: 'Node', namespace: undefined }), context())).toBeUndefined();
    expect(tenantRefOf(event({}, { kind: 'PersistentVolume' }), context())).toBeUndefined();
    expect(tenantRefOf(event({}, { name: 'sidecar' }), context())).toBeUndefined();
    expect(tenantRefOf(event({}, { namespace: 'kube-system' }), context())).toBeUndefined();
    expect(tenantRefOf(event({}, { namespace: undefined }), context())).toBeUndefined();
  });

  it('not those about an earlier object of the same name', () => {
    expect(
      tenantRefOf(event(), context([superNamespace(), superPod('uid-super-pod', 'uid-earlier')])),
    ).toBeUndefined();
    expect(tenantRefOf(event(), context([superNamespace(), superPod('uid-later')]))).toBeUndefined();
    const later = pod('uid-pod', '2026-01-02T00:00:00Z');
    expect(tenantRefOf(event(), context([superNamespace()], [later]))).toBeUndefined();
  });

  it('also those that come before their subject is seen, or after it was', () => {
    expect(tenantRefOf(event(), context([superNamespace()]))).toEqual({
      namespace: 'shop',
      name: 'web-0.17a',
    });
  });

  it('not those of kubelet that waits for the Secret with the tokens: nothing of the tenant is missing (sync rule `pod-tokens`)', () => {
    const mount = (message: string) =>
      tenantRefOf(event({ reason: 'FailedMount', type: 'Warning', message }), context());
    const setUp = 'MountVolume.SetUp failed for volume "kube-api-access-x7k2p" :';
    const token = 'secret "skerry-token-web-0" not found';
    expect(mount(`${setUp} ${token}`)).toBeUndefined();
    expect(mount(`${setUp} [${token}, configmap "settings" not found]`)).toBeUndefined();
    expect(mount(`${setUp} object "${superShop}"/"skerry-token-web-0" not registered`)).toBeUndefined();
    for (const other of ['secret "mine" not found', 'secret "skerry-token-web-01" not found', 'timed out']) {
      expect(mount(`${setUp} ${other}`), other).toEqual({ namespace: 'shop', name: 'web-0.17a' });
    }
    expect(tenantRefOf(event({ message: token }), context())).toBeDefined();
  });

  it("about kube-root-ca.crt under the tenant's name for it", () => {
    const configMap = {
      apiVersion: 'v1',
      kind: 'ConfigMap',
      metadata: { name: 'kube-root-ca.crt', namespace: 'shop', uid: 'uid-ca' },
    };
    const about = event({}, { kind: 'ConfigMap', name: 'tenant-kube-root-ca.crt', uid: undefined });
    expect(copyOf(about, context([superNamespace()], [configMap]))['involvedObject']).toMatchObject({
      kind: 'ConfigMap',
      name: 'kube-root-ca.crt',
      uid: 'uid-ca',
    });
  });
});

describe('the copy', () => {
  it("is about the tenant object, by UID, and its text is the tenant object's", () => {
    expect(copyOf(event(), context())).toEqual({
      apiVersion: 'v1',
      kind: 'Event',
      metadata: expect.objectContaining({
        name: 'web-0.17a',
        namespace: 'shop',
        annotations: { [annotationKeys.uid]: 'uid-event' },
      }),
      involvedObject: {
        apiVersion: 'v1',
        kind: 'Pod',
        namespace: 'shop',
        name: 'web-0',
        uid: 'uid-pod',
        fieldPath: 'spec.containers{main}',
      },
      reason: 'Scheduled',
      message: 'Successfully assigned shop/web-0 to node-1',
      type: 'Normal',
      source: { component: 'default-scheduler' },
      reportingComponent: 'default-scheduler',
      reportingInstance: '',
      firstTimestamp: '2026-01-01T00:00:00Z',
      lastTimestamp: '2026-01-01T00:00:00Z',
      count: 1,
    });
  });

  it('keeps count and series current', () => {
    const written = copyOf(event(), context());
    const patchFor = (superEvent: KubeObject, copy = written) =>
      eventContentPatch(copy, eventContent(superEvent, context()));
    expect(patchFor(event())).toBeUndefined();
    const again = event({ count: 1000, lastTimestamp: '2026-01-01T00:10:00Z' });
    expect(patchFor(again)).toEqual({ count: 1000, lastTimestamp: '2026-01-01T00:10:00Z' });
    expect(patchFor(again, { ...written, ...patchFor(again) })).toBeUndefined();

    const series = { count: 5, lastObservedTime: '2026-01-01T00:10:00.000000Z' };
    expect(patchFor(event({ series }))).toEqual({ series });
  });

  it('of the newer API has its series, controller, instance and note', () => {
    const told = {
      eventTime: '2026-01-01T00:00:00.000000Z',
      series: { count: 2, lastObservedTime: '2026-01-01T00:00:05.000000Z' },
      action: 'Binding',
      reportingComponent: 'default-scheduler',
      reportingInstance: 'default-scheduler-host',
    };
    const bare = { firstTimestamp: null, lastTimestamp: null, count: undefined, source: undefined };
    expect(copyOf(event({ ...told, ...bare }), context())).toMatchObject(told);
  });

  it('says no more than an event may say, whatever scrubbing has made of it', () => {
    const hidden = testContext({
      tenant: { hideNodes: true },
      superObjects: [superNamespace(), superPod(), { kind: 'Node', metadata: { name: 'n' } }],
      tenantObjects: [pod()],
      kinds: allKinds,
    });
    const copy = copyOf(event({ message: 'n '.repeat(500) }), hidden);
    expect(copy['message']).toHaveLength(1_024);
  });

  it('names no real node where nodes are hidden, in text, source or instance', () => {
    const hidden = testContext({
      tenant: { hideNodes: true },
      superObjects: [superNamespace(), superPod(), { kind: 'Node', metadata: { name: 'node-1' } }],
      tenantObjects: [pod()],
      kinds: allKinds,
    });
    const shown = shownNodeName(testTenant({ hideNodes: true }), 'node-1');
    const ofKubelet = {
      source: { component: 'kubelet', host: 'node-1' },
      reportingComponent: 'kubelet',
      reportingInstance: 'node-1',
    };
    expect(copyOf(event(ofKubelet), hidden)).toMatchObject({
      message: `Successfully assigned shop/web-0 to ${shown}`,
      source: { component: 'kubelet', host: shown },
      reportingInstance: shown,
    });
    const ofScheduler = event({ reportingInstance: 'default-scheduler-master-7' });
    expect(copyOf(ofScheduler, hidden)['reportingInstance']).toBe('default-scheduler');
    expect(JSON.stringify(copyOf(event(ofKubelet), hidden))).not.toContain('node-1');
  });
});

it('those about custom resources come up where these are synced, and are not taken for others of that name', () => {
  const resource = { group: 'example.com', version: 'v1', plural: 'pods', kind: 'Pod', namespaced: true };
  const about = event({}, { apiVersion: 'example.com/v1beta1', name: 'web-0', uid: 'uid-super-pod' });
  const base = testContext({
    tenantObjects: [pod()],
    superObjects: [
      testNamespace(superShop, { [labelKeys.tenant]: tenant.uid, [labelKeys.namespace]: 'shop' }),
      superPod(),
    ],
    kinds: allKinds,
  });
  expect(tenantRefOf(about, base)).toBeUndefined();
  const custom = customResourceKind({ resource, hasStatus: true });
  const synced = {
    ...base,
    customKind: (group: string, name: string) =>
      group === 'example.com' && name === 'Pod' ? custom : undefined,
  };
  expect(tenantRefOf(about, synced)).toEqual({ namespace: 'shop', name: 'web-0.17a' });
});

/** A controller on the caches of a harness; `takeQueued` takes the keys that were queued since it was last asked. */
function controllerOf(
  harness: ReconcilerHarness,
  isBusy = () => false,
  isServed = () => true,
): { controller: EventController; takeQueued: () => string[] } {
  const queued: string[] = [];
  const controller = new EventController({
    superCaches: harness.superCaches,
    clock: harness.clock,
    tenant: (uid) => (uid === harness.state.info.uid && isServed() ? harness.state : undefined),
    enqueue: (_tenant, key) => queued.push(keyId(key)),
    isBusy,
  });
  return { controller, takeQueued: () => queued.splice(0) };
}

const ofSettings = (harness: ReconcilerHarness): KubeObject => ({
  metadata: { name: 'x.1', namespace: harness.shop, uid: 'e1' },
  involvedObject: { kind: 'ConfigMap', namespace: harness.shop, name: 'x' },
  reason: 'Pulled',
});

describe('the keys of events', () => {
  const settings = { metadata: { name: 'x', namespace: 'shop', uid: 't1' } };

  it('are queued when an event comes, changes or goes', async () => {
    await using harness = await ReconcilerHarness.start();
    harness.namespace('shop');
    harness.have('tenant', resources.configMaps, settings);
    const { controller, takeQueued } = controllerOf(harness);
    harness.show('super', resources.events, ofSettings(harness));
    expect(takeQueued()).toEqual(['events/shop/x.1']);
    expect([...controller.keysOf(harness.state)].map(keyId)).toEqual(['events/shop/x.1']);
    harness.hide('super', resources.events, ofSettings(harness));
    expect(takeQueued()).toEqual(['events/shop/x.1']);
    expect([...controller.keysOf(harness.state)]).toEqual([]);
  });

  it('are queued when the super namespace is seen after the event', async () => {
    await using harness = await ReconcilerHarness.start();
    const { takeQueued } = controllerOf(harness);
    const own = harness.have('tenant', resources.namespaces, { metadata: { name: 'shop' } });
    harness.have('tenant', resources.configMaps, settings);
    harness.show('super', resources.events, ofSettings(harness));
    expect(takeQueued()).toEqual([]);
    harness.show('super', resources.namespaces, harness.superNamespaceOf(own));
    expect(takeQueued()).toEqual(['events/shop/x.1']);
  });
});

/** A ConfigMap on both sides, and an event of it in the super cluster. */
function haveEvent(harness: ReconcilerHarness): void {
  harness.namespace('shop');
  const t = harness.have('tenant', resources.configMaps, { metadata: { name: 'x', namespace: 'shop' } });
  harness.have('super', resources.configMaps, harness.superOf(t));
  harness.have('super', resources.events, ofSettings(harness));
}

describe('the copies that are remembered (sync rule `events`)', () => {
  const key = { kind: 'events', namespace: 'shop', name: 'x.1' };
  const { signal } = new AbortController();

  it('go with their events, and stay in the tenant', async () => {
    await using harness = await ReconcilerHarness.start();
    harness.namespace('shop');
    const t = harness.have('tenant', resources.configMaps, { metadata: { name: 'x', namespace: 'shop' } });
    harness.have('super', resources.configMaps, harness.superOf(t));
    const event = harness.have('super', resources.events, ofSettings(harness));
    const { controller } = controllerOf(harness);
    expect(controller.driftOf(harness.state, key)).toBeUndefined();
    expect(await controller.reconcile(harness.state, key, signal)).toEqual({ is: 'done' });
    expect(harness.tenant.server.list(resources.events)).toHaveLength(1);
    expect(controller.copiesOf(harness.state).size).toBe(1);
    harness.hide('super', resources.events, event);
    expect(await controller.reconcile(harness.state, key, signal)).toEqual({ is: 'done' });
    expect(controller.copiesOf(harness.state).size).toBe(0);
    expect(harness.tenant.server.list(resources.events)).toHaveLength(1);
  });

  it('are patched at most every five seconds, whatever the clock does', async () => {
    await using harness = await ReconcilerHarness.start();
    haveEvent(harness);
    const { controller } = controllerOf(harness);
    await controller.reconcile(harness.state, key, signal);
    harness.have('super', resources.events, { ...ofSettings(harness), count: 2 });
    await harness.clock.advance(1_000);
    expect(controller.driftOf(harness.state, key)).toBeUndefined();
    expect(await controller.reconcile(harness.state, key, signal)).toEqual({ is: 'later', afterMs: 4_000 });
    await harness.clock.advance(4_000);
    expect(controller.driftOf(harness.state, key)).toBe('differs');
    expect(await controller.reconcile(harness.state, key, signal)).toEqual({ is: 'done' });
    expect(harness.tenant.server.list(resources.events)).toMatchObject([{ count: 2 }]);
  });

  it('are looked at again after a pause where the server shows a copy and then has none', async () => {
    await using harness = await ReconcilerHarness.start();
    haveEvent(harness);
    const { controller } = controllerOf(harness);
    const reconcile = () => controller.reconcile(harness.state, key, signal);
    await reconcile();
    controller.copiesOf(harness.state).clear();
    harness.have('super', resources.events, { ...ofSettings(harness), count: 2 });
    const gone = { kind: 'status' as const, code: 404 };
    harness.tenant.server.inject({ verb: 'patch', plural: 'events', times: 1, fault: gone });
    expect(await reconcile()).toEqual({ is: 'later', afterMs: 1_000 });
    expect(await reconcile()).toEqual({ is: 'done' });
    expect(harness.tenant.server.list(resources.events)).toMatchObject([{ count: 2 }]);
  });

  it('wait while people wait, fold what comes meanwhile, and are written after 30 seconds all the same', async () => {
    await using harness = await ReconcilerHarness.start();
    harness.namespace('shop');
    const t = harness.have('tenant', resources.configMaps, { metadata: { name: 'x', namespace: 'shop' } });
    harness.have('super', resources.configMaps, harness.superOf(t));
    const creationTimestamp = new Date(harness.clock.now()).toISOString();
    const told = (count: number): KubeObject => {
      const event = ofSettings(harness);
      return { ...event, metadata: { ...event.metadata, creationTimestamp }, count };
    };
    let isBusy = true;
    const { controller } = controllerOf(harness, () => isBusy);
    const reconcile = () => controller.reconcile(harness.state, key, signal);
    const counts = () => harness.tenant.server.list(resources.events).map((copy) => copy['count']);

    harness.show('super', resources.events, told(1));
    expect(await reconcile()).toEqual({ is: 'later', afterMs: 30_000 });
    harness.show('super', resources.events, told(2));
    isBusy = false;
    expect(await reconcile()).toEqual({ is: 'done' });
    expect(counts()).toEqual([2]);

    isBusy = true;
    harness.show('super', resources.events, told(3));
    await harness.clock.advance(5_000);
    expect(await reconcile()).toEqual({ is: 'later', afterMs: 25_000 });
    harness.show('super', resources.events, { ...told(4), type: 'Warning' });
    expect(await reconcile()).toEqual({ is: 'done' });
    expect(counts()).toEqual([4]);

    harness.show('super', resources.events, told(5));
    await harness.clock.advance(30_000);
    expect(await reconcile()).toEqual({ is: 'done' });
    expect(counts()).toEqual([5]);
  });

  it('that wait are queued again when people wait no longer, unless their tenant has left', async () => {
    await using harness = await ReconcilerHarness.start();
    harness.namespace('shop');
    const t = harness.have('tenant', resources.configMaps, { metadata: { name: 'x', namespace: 'shop' } });
    harness.have('super', resources.configMaps, harness.superOf(t));
    let isBusy = true;
    let isServed = true;
    const { controller, takeQueued } = controllerOf(
      harness,
      () => isBusy,
      () => isServed,
    );
    const ending = new AbortController();
    const running = controller.run(ending.signal);
    const waits = async (): Promise<void> => {
      const metadata = {
        ...ofSettings(harness).metadata,
        creationTimestamp: new Date(harness.clock.now()).toISOString(),
      };
      harness.show('super', resources.events, { ...ofSettings(harness), metadata });
      isBusy = true;
      expect(await controller.reconcile(harness.state, key, signal)).toMatchObject({ is: 'later' });
      takeQueued();
    };
    await waits();
    await harness.clock.advance(5_000);
    expect(takeQueued()).toEqual([]);
    isBusy = false;
    await harness.clock.advance(1_000);
    expect(takeQueued()).toEqual([keyId(key)]);
    await harness.clock.advance(5_000);
    expect(takeQueued()).toEqual([]);

    await waits();
    isServed = false;
    isBusy = false;
    await harness.clock.advance(1_000);
    expect(takeQueued()).toEqual([]);
    ending.abort();
    await running;
  });

  it('are kept with what they say and no more, whatever the tenant answers', async () => {
    await using harness = await ReconcilerHarness.start();
    harness.namespace('shop');
    const t = harness.have('tenant', resources.configMaps, { metadata: { name: 'x', namespace: 'shop' } });
    harness.have('super', resources.configMaps, harness.superOf(t));
    const told = ofSettings(harness);
    harness.have('super', resources.events, told);
    const { controller } = controllerOf(harness);
    const answer = {
      metadata: {
        ...{ name: 'x.1', namespace: 'shop', uid: 'c1', resourceVersion: '7' },
        annotations: { [annotationKeys.uid]: 'e1', more: 'x'.repeat(1_000_000) },
        labels: { more: 'x'.repeat(1_000_000) },
      },
      reason: 'Pulled',
      more: 'x'.repeat(1_000_000),
    };
    const answered = async (change: object): Promise<KubeObject | undefined> => {
      const text = JSON.stringify({ ...answer, ...change });
      harness.tenant.server.inject({
        plural: 'events',
        times: 1,
        fault: { kind: 'status', code: 200, text },
      });
      controller.copiesOf(harness.state).clear();
      expect(await controller.reconcile(harness.state, key, signal)).toEqual({ is: 'done' });
      return controller.copiesOf(harness.state).get('events/shop/x.1')?.object;
    };
    expect(await answered({})).toEqual({
      metadata: {
        ...{ name: 'x.1', namespace: 'shop', uid: 'c1', resourceVersion: '7' },
        annotations: { [annotationKeys.uid]: 'e1' },
      },
      reason: 'Pulled',
    });
    expect(await answered({ message: '\u{1f433}'.repeat(512) })).toBeDefined();
    expect(await answered({ message: 'x'.repeat(1_000_000) })).toBeUndefined();
    expect(await answered({ source: { host: 'x'.repeat(1_000_000) } })).toBeUndefined();
  });

  it('of an earlier run are read page by page, and no more of them than are remembered', async () => {
    await using harness = await ReconcilerHarness.start();
    const metadata = { namespace: 'shop', annotations: { [annotationKeys.uid]: 'e1' } };
    for (let index = 0; index < 1_200; index++)
      harness.tenant.server.put(resources.events, { metadata: { ...metadata, name: `x.${index}` } });
    const { controller } = controllerOf(harness);
    const counts: number[] = [];
    let open = 0;
    const meter = {
      page: (objects: readonly KubeObject[]) => counts.push(objects.length),
      end: () => (open -= 1),
    };
    const meterList = (): typeof meter => {
      expect(open).toBe(0);
      open += 1;
      return meter;
    };
    await controller.loadExistingCopies(harness.state, signal, meterList);
    expect(counts).toEqual([500, 500, 200]);
    expect(controller.copiesOf(harness.state).size).toBe(1_200);

    // A server that has always more.
    const page = { metadata: { resourceVersion: '1', continue: 'more' }, items: [] };
    harness.tenant.server.inject({
      plural: 'events',
      times: 20,
      fault: { kind: 'status', code: 200, text: JSON.stringify(page) },
    });
    await controller.loadExistingCopies(harness.state, signal, meterList);
    expect(counts).toHaveLength(13);
    expect(open).toBe(0);
  });
});

/** Two sides in agreement about the pod `web`, and its events in the super cluster. */
async function withPod(options?: TwoSidesOptions): Promise<TwoSides> {
  const sides = await TwoSides.start((s) => {
    s.inShop(resources.serviceAccounts, { metadata: { name: 'default' } });
    s.inShop(resources.pods, runningPod('web'));
  }, options);
  await sides.until(() => sides.inSuper(resources.pods, 'web') !== undefined);
  return sides;
}

const runningPod = (name: string): KubeObject => ({
  metadata: { name },
  spec: { serviceAccountName: 'default', containers: [{ name: 'main', image: 'busybox' }] },
  status: { phase: 'Pending' },
});

function tell(sides: TwoSides, name: string, count = 1): void {
  sides.super.server.put(resources.events, {
    metadata: { name, namespace: sides.shop },
    involvedObject: {
      apiVersion: 'v1',
      kind: 'Pod',
      namespace: sides.shop,
      name: 'web',
      uid: sides.inSuper(resources.pods, 'web')?.metadata.uid,
    },
    reason: 'BackOff',
    message: 'Back-off restarting failed container',
    type: 'Warning',
    count,
  });
}

const shown = (sides: TwoSides, name: string): KubeObject | undefined =>
  sides.tenant.server.get(resources.events, { namespace: 'shop', name });

const writes = (sides: TwoSides): string[] =>
  sides.tenant.server.requests
    .filter(
      ({ plural, verb }) => plural === 'events' && ['create', 'patch', 'update', 'delete'].includes(verb),
    )
    .map(({ verb }) => verb);

/** The engine has seen this count, and has nothing to do at this time. */
async function handled(sides: TwoSides, name: string, count: number): Promise<void> {
  const ref = { namespace: sides.shop, name };
  const seen = () => sides.superCaches.get(resources.events, ref)?.['count'];
  const isBusy = () =>
    sides.engine.depths().some(({ live, background, processing }) => live + background + processing > 0);
  while (seen() !== count || isBusy()) await setImmediate();
}

describe('events that come up', () => {
  it('one that another client has written meanwhile is looked at anew, and goes on', async () => {
    await using sides = await withPod({ clock: fastClock(20) });
    tell(sides, 'web.1');
    await sides.until(() => shown(sides, 'web.1') !== undefined);
    const present = shown(sides, 'web.1') as KubeObject;
    const { metadata } = present;
    const annotations = { ...metadata.annotations, note: 'mine' };
    sides.tenant.server.put(resources.events, { ...present, metadata: { ...metadata, annotations } });
    tell(sides, 'web.1', 2);
    await sides.until(() => shown(sides, 'web.1')?.['count'] === 2);
    expect(shown(sides, 'web.1')?.metadata.annotations).toMatchObject({ note: 'mine' });
  });

  it('a burst of 1,000 identical events is one object with a count, and a few writes', async () => {
    const clock = new FakeClock();
    await using sides = await withPod({ clock });
    tell(sides, 'web.1');
    await sides.until(() => shown(sides, 'web.1') !== undefined);
    const wanted = ['create'];
    for (let count = 2; count <= 1_000; count++) {
      tell(sides, 'web.1', count);
      // As they come: one by one.
      await setImmediate();
      if (count % 250 > 0) continue;
      await handled(sides, 'web.1', count);
      await clock.advance(4_999);
      await handled(sides, 'web.1', count);
      expect(writes(sides)).toEqual(wanted);
      await clock.advance(1);
      await sides.until(() => shown(sides, 'web.1')?.['count'] === count);
      wanted.push('patch');
    }
    expect(writes(sides)).toEqual(wanted);
    expect(sides.tenant.server.list(resources.events)).toHaveLength(1);
  });

  it('never keep a pod waiting, though the tenant takes none of them', async () => {
    await using sides = await withPod({ workers: 4 });
    sides.tenant.server.inject({ verb: 'create', plural: 'events', times: 1_000, fault: { kind: 'hang' } });
    for (let index = 0; index < 200; index++) tell(sides, `web.${index}`);
    // All the workers that this tenant gets for what can wait.
    while (writes(sides).length < 2) await setImmediate();
    sides.inShop(resources.pods, runningPod('urgent'));
    await sides.until(() => sides.inSuper(resources.pods, 'urgent') !== undefined);
    expect(writes(sides)).toEqual(['create', 'create']);
  });

  it('are written anew when the tenant has forgotten them and they go on', async () => {
    await using sides = await withPod({ clock: fastClock(100) });
    tell(sides, 'web.1');
    await sides.until(() => shown(sides, 'web.1') !== undefined);
    sides.tenant.server.remove(resources.events, { namespace: 'shop', name: 'web.1' });
    tell(sides, 'web.1', 7);
    await sides.until(() => shown(sides, 'web.1')?.['count'] === 7);
  });

  it('go on being counted by a syncer that knows nothing of its predecessor', async () => {
    await using sides = await withPod();
    tell(sides, 'web.1');
    await sides.until(() => shown(sides, 'web.1') !== undefined);
    const { uid } = shown(sides, 'web.1')?.metadata ?? {};
    await sides.restart();
    tell(sides, 'web.1', 3);
    await sides.until(() => shown(sides, 'web.1')?.['count'] === 3);
    expect(shown(sides, 'web.1')?.metadata.uid).toBe(uid);
    expect(sides.tenant.server.list(resources.events)).toHaveLength(1);
  });

  it('are not written once more by a syncer that finds them there', async () => {
    await using sides = await withPod();
    for (const name of ['web.1', 'web.2', 'web.3']) tell(sides, name);
    await sides.until(() => shown(sides, 'web.3') !== undefined);
    await handled(sides, 'web.3', 1);
    const before = writes(sides).length;
    await sides.restart();
    tell(sides, 'web.4');
    await sides.until(() => shown(sides, 'web.4') !== undefined);
    await handled(sides, 'web.4', 1);
    expect(writes(sides).slice(before)).toEqual(['create']);
  });
});
