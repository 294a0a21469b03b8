import { describe, expect, it } from 'vitest';
import type { KubeObject } from '../../../kube/index.ts';
import { marks, superNamespaceName } from '../../mapping/index.ts';
import { allKinds } from '../index.ts';
import { carryOut, testContext, testNamespace, testTenant } from '../testing.ts';
import { eventKind as kind } from './index.ts';

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
      labels: { [marks.tenant]: tenant.uid },
      annotations: { [marks.uid]: mark },
    },
  };
}

const superNamespace = (uid = tenant.uid) =>
  testNamespace(superShop, { [marks.tenant]: uid, [marks.namespace]: 'shop' });

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

describe('the copy', () => {
  it("is about T, by UID, and its text is T's", () => {
    expect(kind.toTenant(event(), context())).toEqual({
      apiVersion: 'v1',
      kind: 'Event',
      metadata: expect.objectContaining({
        name: 'web-0.17a',
        namespace: 'shop',
        annotations: { [marks.uid]: 'uid-event' },
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

  it('outlives S, as events outlive what they tell of', () => {
    expect(kind.superGone?.(kind.toTenant(event(), context()), context())).toEqual([]);
  });
});
