import { describe, expect, it } from 'vitest';
import { annotationKeys, labelKeys } from '../../api/labels.ts';
import type { KubeObject } from '../../kube/index.ts';
import { shownNodeName, superNamespaceName } from '../mapping/index.ts';
import { eventKind as kind } from './events.ts';
import { allKinds, customResourceKind } from './index.ts';
import { carryOut, testContext, testNamespace, testTenant } from './testing.ts';

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

describe('which events come up', () => {
  it('those about synced objects', () => {
    expect(kind.tenantRef(event(), context())).toEqual({ namespace: 'shop', name: 'web-0.17a' });
    expect(kind.superRef({ namespace: 'shop', name: 'web-0.17a' }, context())).toEqual({
      namespace: superShop,
      name: 'web-0.17a',
    });
  });

  it('not those of other tenants, nor of namespaces that are nobody’s', () => {
    expect(kind.tenantRef(event(), context([superNamespace('another'), superPod()]))).toBeUndefined();
    expect(kind.tenantRef(event(), context([superPod()]))).toBeUndefined();
  });

  it('not those about things that the tenant does not have', () => {
    expect(kind.tenantRef(event({}, { kind: 'Namespace' }), context())).toBeUndefined();
    expect(kind.tenantRef(event({}, { kind: 'Node', namespace: undefined }), context())).toBeUndefined();
    expect(kind.tenantRef(event({}, { kind: 'PersistentVolume' }), context())).toBeUndefined();
    expect(kind.tenantRef(event({}, { name: 'sidecar' }), context())).toBeUndefined();
    expect(kind.tenantRef(event({}, { namespace: 'kube-system' }), context())).toBeUndefined();
    expect(kind.tenantRef(event({}, { namespace: undefined }), context())).toBeUndefined();
  });

  it('not those about an earlier object of the same name', () => {
    expect(
      kind.tenantRef(event(), context([superNamespace(), superPod('uid-super-pod', 'uid-earlier')])),
    ).toBeUndefined();
    expect(kind.tenantRef(event(), context([superNamespace(), superPod('uid-later')]))).toBeUndefined();
    const later = pod('uid-pod', '2026-01-02T00:00:00Z');
    expect(kind.tenantRef(event(), context([superNamespace()], [later]))).toBeUndefined();
  });

  it('also those that come before their subject is seen, or after it was', () => {
    expect(kind.tenantRef(event(), context([superNamespace()]))).toEqual({
      namespace: 'shop',
      name: 'web-0.17a',
    });
  });

  it('not those of kubelet that waits for the Secret with the tokens: nothing of the tenant is missing (rule 6)', () => {
    const mount = (message: string) =>
      kind.tenantRef(event({ reason: 'FailedMount', type: 'Warning', message }), context());
    const setUp = 'MountVolume.SetUp failed for volume "kube-api-access-x7k2p" :';
    const token = 'secret "skerry-token-web-0" not found';
    expect(mount(`${setUp} ${token}`)).toBeUndefined();
    expect(mount(`${setUp} [${token}, configmap "settings" not found]`)).toBeUndefined();
    expect(mount(`${setUp} object "${superShop}"/"skerry-token-web-0" not registered`)).toBeUndefined();
    for (const other of ['secret "mine" not found', 'secret "skerry-token-web-01" not found', 'timed out']) {
      expect(mount(`${setUp} ${other}`), other).toEqual({ namespace: 'shop', name: 'web-0.17a' });
    }
    expect(kind.tenantRef(event({ message: token }), context())).toBeDefined();
  });

  it("about kube-root-ca.crt under the tenant's name for it", () => {
    const configMap = {
      apiVersion: 'v1',
      kind: 'ConfigMap',
      metadata: { name: 'kube-root-ca.crt', namespace: 'shop', uid: 'uid-ca' },
    };
    const about = event({}, { kind: 'ConfigMap', name: 'tenant-kube-root-ca.crt', uid: undefined });
    expect(kind.toTenant(about, context([superNamespace()], [configMap]))['involvedObject']).toMatchObject({
      kind: 'ConfigMap',
      name: 'kube-root-ca.crt',
      uid: 'uid-ca',
    });
  });
});

it('nobody waits for events: they are served after everything else', () => {
  expect(kind.patient).toBe(true);
});

describe('the copy', () => {
  it("is about T, by UID, and its text is T's", () => {
    expect(kind.toTenant(event(), context())).toEqual({
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
    const written = kind.toTenant(event(), context());
    expect(kind.up(written, event(), context())).toEqual([]);
    const again = event({ count: 1000, lastTimestamp: '2026-01-01T00:10:00Z' });
    const actions = kind.up(written, again, context());
    expect(actions).toEqual([
      { do: 'patchTenant', patch: { count: 1000, lastTimestamp: '2026-01-01T00:10:00Z' } },
    ]);
    const { tenantObject } = carryOut({ tenantObject: written, superObject: again }, actions);
    expect(kind.up(tenantObject as KubeObject, again, context())).toEqual([]);

    const series = { count: 5, lastObservedTime: '2026-01-01T00:10:00.000000Z' };
    expect(kind.up(written, event({ series }), context())).toEqual([
      { do: 'patchTenant', patch: { series } },
    ]);
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
    expect(kind.toTenant(event({ ...told, ...bare }), context())).toMatchObject(told);
  });

  it('says no more than an event may say, whatever scrubbing has made of it', () => {
    const hidden = testContext({
      tenant: { hideNodes: true },
      superObjects: [superNamespace(), superPod(), { kind: 'Node', metadata: { name: 'n' } }],
      tenantObjects: [pod()],
      kinds: allKinds,
    });
    const copy = kind.toTenant(event({ message: 'n '.repeat(500) }), hidden);
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
    expect(kind.toTenant(event(ofKubelet), hidden)).toMatchObject({
      message: `Successfully assigned shop/web-0 to ${shown}`,
      source: { component: 'kubelet', host: shown },
      reportingInstance: shown,
    });
    const ofScheduler = event({ reportingInstance: 'default-scheduler-master-7' });
    expect(kind.toTenant(ofScheduler, hidden)['reportingInstance']).toBe('default-scheduler');
    expect(JSON.stringify(kind.toTenant(event(ofKubelet), hidden))).not.toContain('node-1');
  });

  it('outlives S, as events outlive what they tell of', () => {
    expect(kind.superGone?.(kind.toTenant(event(), context()), context())).toEqual([]);
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
  expect(kind.tenantRef(about, base)).toBeUndefined();
  const custom = customResourceKind({ resource, hasStatus: true });
  const synced = {
    ...base,
    customKind: (group: string, name: string) =>
      group === 'example.com' && name === 'Pod' ? custom : undefined,
  };
  expect(kind.tenantRef(about, synced)).toEqual({ namespace: 'shop', name: 'web-0.17a' });
});
