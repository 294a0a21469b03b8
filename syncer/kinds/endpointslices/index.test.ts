import { describe, expect, it, vi } from 'vitest';
import { annotationKeys, labelKeys } from '../../../api/labels.ts';
import type { KubeObject } from '../../../kube/index.ts';
import { superNamespaceName } from '../../mapping/index.ts';
import type { TenantInfo } from '../context.ts';
import { allKinds } from '../index.ts';
import { testContext, testTenant } from '../testing.ts';
import { endpointSliceKind } from './index.ts';

const superShop = superNamespaceName(testTenant(), 'shop');

function slice(address = '10.244.1.5', change: Record<string, unknown> = {}): KubeObject {
  return {
    apiVersion: 'discovery.k8s.io/v1',
    kind: 'EndpointSlice',
    metadata: {
      name: 'db-1',
      namespace: 'shop',
      uid: 'uid-slice',
      labels: {
        'kubernetes.io/service-name': 'db',
        'endpointslice.kubernetes.io/managed-by': 'endpointslicemirroring-controller.k8s.io',
      },
    },
    addressType: 'IPv4',
    endpoints: [
      {
        addresses: [address],
        conditions: { ready: true },
        nodeName: 'made-up',
        targetRef: { kind: 'Pod', name: 'db-0', namespace: 'shop', uid: 'uid-pod' },
      },
    ],
    ports: [{ name: '', port: 5432, protocol: 'TCP' }],
    ...change,
  };
}

function service(spec: Record<string, unknown> = {}, name = 'db', namespace = 'shop'): KubeObject {
  return {
    apiVersion: 'v1',
    kind: 'Service',
    metadata: { name, namespace },
    spec: { clusterIP: '10.112.4.30', ...spec },
  };
}

function pod(ip = '10.244.1.5'): KubeObject {
  return {
    apiVersion: 'v1',
    kind: 'Pod',
    metadata: { name: 'db-0', namespace: 'shop', uid: 'uid-pod' },
    status: { podIP: ip, podIPs: [{ ip }] },
  };
}

function superPod(
  ip = '10.244.1.5',
  spec: Record<string, unknown> = {},
  tenant = testTenant().uid,
): KubeObject {
  return {
    apiVersion: 'v1',
    kind: 'Pod',
    metadata: {
      name: 'db-0',
      namespace: superShop,
      uid: 'uid-super-pod',
      labels: { [labelKeys.tenant]: tenant },
      annotations: { [annotationKeys.uid]: 'uid-of-the-pod' },
    },
    spec: { nodeName: 'node-1', ...spec },
    status: { podIP: ip, podIPs: [{ ip }] },
  };
}

function context(tenantObjects: KubeObject[], superObjects: KubeObject[], tenant: Partial<TenantInfo> = {}) {
  return testContext({ tenant, tenantObjects, superObjects, kinds: allKinds });
}

const usual = () => context([service(), pod()], [superPod()]);

describe('EndpointSlices go down only for Services without selector', () => {
  it('with managed-by rewritten, the reference to T stripped, the node that of the pod', () => {
    expect(endpointSliceKind.admit?.(slice(), usual())).toEqual({ wanted: true });
    const object = endpointSliceKind.toSuper(slice(), usual());
    expect(object.metadata.labels).toMatchObject({
      'kubernetes.io/service-name': 'db',
      'endpointslice.kubernetes.io/managed-by': 'syncer.skerry.dev',
    });
    expect(object).toMatchObject({ metadata: { namespace: superShop, name: 'db-1' }, addressType: 'IPv4' });
    expect(object['endpoints']).toEqual([
      { addresses: ['10.244.1.5'], conditions: { ready: true }, nodeName: 'node-1' },
    ]);
    expect(object['ports']).toEqual([{ name: '', port: 5432, protocol: 'TCP' }]);
    expect(endpointSliceKind.down(slice(), object, usual())).toEqual([]);
  });

  it('not when the Service has a selector, is missing, or the slice names none', () => {
    const selecting = context([service({ selector: { app: 'db' } }), pod()], [superPod()]);
    expect(endpointSliceKind.admit?.(slice(), selecting)).toEqual({ wanted: false });
    expect(endpointSliceKind.admit?.(slice(), context([pod()], [superPod()]))).toEqual({ wanted: false });
    const nameless = slice();
    nameless.metadata.labels = {};
    expect(endpointSliceKind.admit?.(nameless, usual())).toEqual({ wanted: false });
  });

  it('not what is to stay in the tenant, and without a word', () => {
    const own = slice('192.0.2.1');
    own.metadata.labels = { ...own.metadata.labels, 'skerry.dev/sync': 'false' };
    expect(endpointSliceKind.admit?.(own, context([own, service()], []))).toEqual({ wanted: false });
  });

  it('not what the endpoint slice controller of the tenant has written', () => {
    const written = slice();
    written.metadata.labels = {
      'kubernetes.io/service-name': 'db',
      'endpointslice.kubernetes.io/managed-by': 'endpointslice-controller.k8s.io',
    };
    expect(endpointSliceKind.admit?.(written, usual())).toEqual({ wanted: false });
    const { byService, byAddress } = endpointSliceKind.indexes?.tenant ?? {};
    expect([byService?.(written), byAddress?.(written)]).toEqual([[], []]);
    expect([byService?.(slice()), byAddress?.(slice())]).toEqual([['shop/db'], ['10.244.1.5']]);
  });
});

describe("an endpoint has to be one of the tenant's own pods", () => {
  const refusal = { wanted: false, notice: { type: 'Warning', reason: 'EndpointNotAllowed' } };

  it('refuses any other address: nodes, API servers, link-local, other tenants', () => {
    for (const address of ['192.0.2.10', '169.254.169.254', '10.112.4.1', '10.244.9.9']) {
      expect(endpointSliceKind.admit?.(slice(address), usual())).toMatchObject(refusal);
    }
  });

  it("does not believe what the tenant's pod status says", () => {
    expect(
      endpointSliceKind.admit?.(slice('192.0.2.10'), context([service(), pod('192.0.2.10')], [superPod()])),
    ).toMatchObject(refusal);
    expect(endpointSliceKind.admit?.(slice(), context([service(), pod()], []))).toMatchObject(refusal);
    const stranger = superPod('10.244.1.5', {}, 'another-tenant');
    expect(endpointSliceKind.admit?.(slice(), context([service(), pod()], [stranger]))).toMatchObject(
      refusal,
    );
  });

  it('refuses the address of a pod that has finished: another tenant may have it by now', () => {
    const finished = superPod();
    finished['status'] = { ...(finished['status'] as object), phase: 'Succeeded' };
    expect(endpointSliceKind.admit?.(slice(), context([service(), pod()], [finished]))).toMatchObject(
      refusal,
    );
  });

  it('does not look through the many pods that a tenant says have the address', () => {
    const claimed = vi.fn(() => []);
    const there = usual();
    const asked = {
      ...there,
      tenantObjects: { get: there.tenantObjects.get.bind(there.tenantObjects), byIndex: claimed },
    };
    expect(endpointSliceKind.admit?.(slice(), asked)).toEqual({ wanted: true });
    expect(claimed).not.toHaveBeenCalled();
  });

  it('refuses the address of a pod on the host network: it is the node', () => {
    const tenant = context([service(), pod()], [superPod('10.244.1.5', { hostNetwork: true })]);
    expect(endpointSliceKind.admit?.(slice(), tenant)).toMatchObject(refusal);
  });

  it('keeps the allowed endpoints of a slice that has others, and says which are left out', () => {
    const mixed = slice('10.244.1.5', {
      endpoints: [{ addresses: ['10.244.1.5'] }, { addresses: ['192.0.2.10'] }],
    });
    expect(endpointSliceKind.admit?.(mixed, usual())).toMatchObject({
      wanted: true,
      notice: { message: expect.stringContaining('192.0.2.10') },
    });
    expect(endpointSliceKind.toSuper(mixed, usual())['endpoints']).toEqual([
      { addresses: ['10.244.1.5'], nodeName: 'node-1' },
    ]);
  });

  it('takes an endpoint out when its pod is gone', () => {
    const superObject = endpointSliceKind.toSuper(slice(), usual());
    const without = context([service()], []);
    expect(endpointSliceKind.down(slice(), superObject, without)).toEqual([
      { do: 'patchSuper', patch: { endpoints: [] } },
    ]);
  });

  it('refuses host names', () => {
    const names = slice('db.example', { addressType: 'FQDN', endpoints: [{ addresses: ['db.example'] }] });
    expect(endpointSliceKind.admit?.(names, usual())).toMatchObject(refusal);
  });
});

it('brings changed ports and labels down, and lets foreign labels be', () => {
  const superObject = endpointSliceKind.toSuper(slice(), usual());
  superObject.metadata.labels = { ...superObject.metadata.labels, theirs: 'x' };
  const changed = slice('10.244.1.5', { ports: [{ name: '', port: 5433, protocol: 'TCP' }] });
  expect(endpointSliceKind.down(changed, superObject, usual())).toEqual([
    { do: 'patchSuper', patch: { ports: [{ name: '', port: 5433, protocol: 'TCP' }] } },
  ]);
});

describe('rule 24: the slice of default/kubernetes', () => {
  const tenant = { apiServer: { address: '192.0.2.10', port: 21000 } };
  const kubernetes = () => {
    const object = slice('203.0.113.66', { ports: [{ name: 'evil', port: 22, protocol: 'TCP' }] });
    object.metadata = {
      name: 'kubernetes',
      namespace: 'default',
      uid: 'uid-k',
      labels: { 'kubernetes.io/service-name': 'other' },
    };
    return object;
  };

  it("holds the tenant's API server, whatever T says", () => {
    const there = context([service({}, 'kubernetes', 'default')], [], tenant);
    expect(endpointSliceKind.admit?.(kubernetes(), there)).toEqual({ wanted: true });
    const object = endpointSliceKind.toSuper(kubernetes(), there);
    expect(object).toMatchObject({
      addressType: 'IPv4',
      endpoints: [{ addresses: ['192.0.2.10'], conditions: { ready: true } }],
      ports: [{ name: 'https', port: 21000, protocol: 'TCP' }],
    });
    expect(object.metadata.labels).toMatchObject({ 'kubernetes.io/service-name': 'kubernetes' });
    expect(endpointSliceKind.down(kubernetes(), object, there)).toEqual([]);
  });

  it('does not go down where the manager leads to the API server itself', () => {
    const led = context([], [], { apiServer: { address: '10.96.0.7', port: 443, isService: true } });
    expect(endpointSliceKind.admit?.(kubernetes(), led)).toEqual({ wanted: false });
  });

  it('follows when the API server moves', () => {
    const object = endpointSliceKind.toSuper(kubernetes(), context([], [], tenant));
    const moved = context([], [], { apiServer: { address: '192.0.2.11', port: 21001 } });
    expect(endpointSliceKind.down(kubernetes(), object, moved)).toEqual([
      {
        do: 'patchSuper',
        patch: {
          endpoints: [{ addresses: ['192.0.2.11'], conditions: { ready: true } }],
          ports: [{ name: 'https', port: 21001, protocol: 'TCP' }],
        },
      },
    ]);
    const sixth = context([], [], { apiServer: { address: '2001:db8::1', port: 21000 } });
    expect(endpointSliceKind.down(kubernetes(), object, sixth)).toEqual([{ do: 'deleteSuper' }]);
  });

  it('is the only one of that Service', () => {
    const second = slice();
    second.metadata = {
      name: 'mine',
      namespace: 'default',
      labels: { 'kubernetes.io/service-name': 'kubernetes' },
    };
    const there = context([service({}, 'kubernetes', 'default'), pod()], [superPod()], tenant);
    expect(endpointSliceKind.admit?.(second, there)).toEqual({ wanted: false });
  });
});
