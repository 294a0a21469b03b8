import { describe, expect, it } from 'vitest';
import { annotationKeys, labelKeys } from '../../api/labels.ts';
import type { KubeObject } from '../../kube/index.ts';
import { superNamespaceName } from '../mapping/names.ts';
import { shownNodeName } from '../mapping/node-names.ts';
import { persistentVolumeKind as kind } from './persistent-volumes.ts';
import { allKinds } from './registry.ts';
import { carryOut, testContext, testNamespace, testTenant } from './testing.ts';

const tenant = testTenant();
const superShop = superNamespaceName(tenant, 'shop');

function volume(
  spec: Record<string, unknown> = {},
  status: Record<string, unknown> = { phase: 'Bound' },
): KubeObject {
  return {
    apiVersion: 'v1',
    kind: 'PersistentVolume',
    metadata: {
      name: 'pv-1',
      uid: 'uid-super-pv',
      labels: { zone: 'a' },
      annotations: { 'volume.kubernetes.io/provisioner-deletion-secret-name': 'root-of-all' },
      finalizers: ['kubernetes.io/pv-protection', 'external-provisioner.volume.kubernetes.io/finalizer'],
    },
    spec: {
      accessModes: ['ReadWriteOnce'],
      capacity: { storage: '1Gi' },
      claimRef: {
        apiVersion: 'v1',
        kind: 'PersistentVolumeClaim',
        namespace: superShop,
        name: 'data',
        uid: 'uid-super-claim',
        resourceVersion: '42',
      },
      persistentVolumeReclaimPolicy: 'Delete',
      storageClassName: 'fast',
      volumeMode: 'Filesystem',
      nodeAffinity: { required: { nodeSelectorTerms: [] } },
      csi: {
        driver: 'x.example',
        volumeHandle: 'handle-1',
        volumeAttributes: { path: `/exports/${superShop}/data` },
        nodeStageSecretRef: { name: 'secret', namespace: 'storage' },
        controllerExpandSecretRef: { name: 'secret', namespace: 'storage' },
      },
      ...spec,
    },
    status,
  };
}

function superClaim(uid = 'uid-super-claim', mark = 'uid-claim'): KubeObject {
  return {
    apiVersion: 'v1',
    kind: 'PersistentVolumeClaim',
    metadata: { name: 'data', namespace: superShop, uid, annotations: { [annotationKeys.uid]: mark } },
  };
}

const ownClaim: KubeObject = {
  apiVersion: 'v1',
  kind: 'PersistentVolumeClaim',
  metadata: { name: 'data', namespace: 'shop', uid: 'uid-claim' },
};

function superNamespace(uid = tenant.uid): KubeObject {
  return testNamespace(superShop, { [labelKeys.tenant]: uid, [labelKeys.namespace]: 'shop' });
}

function context(
  superObjects: KubeObject[] = [superNamespace(), superClaim()],
  tenantObjects: KubeObject[] = [ownClaim],
) {
  return testContext({ superObjects, tenantObjects, kinds: allKinds });
}

/** The copy as the tenant's API server has it. */
function copy(): KubeObject {
  const object = kind.toTenant(volume(), context());
  return { ...object, metadata: { ...object.metadata, uid: 'uid-copy' }, status: { phase: 'Bound' } };
}

describe('which volumes come up (sync rule `persistent-volumes`)', () => {
  it("those bound to one of the tenant's claims", () => {
    expect(kind.tenantRef(volume(), context())).toEqual({ name: 'pv-1' });
    expect(kind.superNamespaceOf?.(volume())).toBe(superShop);
  });

  it('no others: free, of another tenant, of no tenant', () => {
    expect(kind.tenantRef(volume({ claimRef: undefined }), context())).toBeUndefined();
    expect(kind.tenantRef(volume(), context([superNamespace('another'), superClaim()]))).toBeUndefined();
    expect(kind.tenantRef(volume(), context([testNamespace(superShop), superClaim()]))).toBeUndefined();
    expect(kind.tenantRef(volume(), context([superClaim()]))).toBeUndefined();
  });

  it('not once the claim is gone, or is another one of that name', () => {
    expect(kind.tenantRef(volume(), context(undefined, []))).toBeUndefined();
    expect(kind.tenantRef(volume(), context([superNamespace()]))).toBeUndefined();
    expect(kind.tenantRef(volume(), context([superNamespace(), superClaim('uid-later')]))).toBeUndefined();
    expect(
      kind.tenantRef(volume(), context([superNamespace(), superClaim('uid-super-claim', 'uid-earlier')])),
    ).toBeUndefined();
  });

  it('not while only reserved for a name', () => {
    expect(
      kind.tenantRef(volume({ claimRef: { namespace: superShop, name: 'data' } }), context()),
    ).toBeUndefined();
  });
});

describe('the copy', () => {
  it("has claimRef rewritten to the tenant object's claim", () => {
    expect(copy()['spec']).toMatchObject({
      capacity: { storage: '1Gi' },
      storageClassName: 'fast',
      volumeMode: 'Filesystem',
      nodeAffinity: { required: { nodeSelectorTerms: [] } },
    });
    expect((copy()['spec'] as Record<string, unknown>)['claimRef']).toEqual({
      apiVersion: 'v1',
      kind: 'PersistentVolumeClaim',
      namespace: 'shop',
      name: 'data',
      uid: 'uid-claim',
    });
  });

  it('shows neither super names nor Secrets, carries the mark of a copy and no finalizers', () => {
    const object = kind.toTenant(volume(), context());
    expect((object['spec'] as Record<string, unknown>)['csi']).toEqual({
      driver: 'x.example',
      volumeHandle: 'handle-1',
      volumeAttributes: { path: '/exports/shop/data' },
    });
    expect(object.metadata).toEqual({
      name: 'pv-1',
      labels: { zone: 'a' },
      annotations: { [annotationKeys.uid]: 'uid-super-pv' },
    });
    expect(JSON.stringify(object)).not.toContain(superShop);
  });

  it('keeps any kind of source', () => {
    const local = volume({ csi: undefined, hostPath: { path: `/data/${superShop}_data`, type: '' } });
    expect(kind.toTenant(local, context())['spec']).toMatchObject({
      hostPath: { path: '/data/shop_data', type: '' },
    });
  });

  it('is written no more when both sides agree', () => {
    expect(kind.up(copy(), volume(), context())).toEqual([]);
  });

  it('is Bound once the super object is', () => {
    const fresh = { ...copy(), status: { phase: 'Pending' } };
    const actions = kind.up(fresh, volume(), context());
    expect(actions).toEqual([
      { do: 'patchTenant', subresource: 'status', patch: { status: { phase: 'Bound' } } },
    ]);
  });

  it('follows growth', () => {
    expect(kind.up(copy(), volume({ capacity: { storage: '2Gi' } }), context())).toEqual([
      { do: 'patchTenant', patch: { spec: { capacity: { storage: '2Gi' } } } },
    ]);
  });

  it('an edit of the tenant is put back', () => {
    const edited = copy();
    edited.metadata.labels = { zone: 'b', mine: 'x' };
    edited['spec'] = {
      ...(edited['spec'] as object),
      persistentVolumeReclaimPolicy: 'Retain',
      mountOptions: ['ro'],
      claimRef: {
        namespace: 'shop',
        name: 'data',
        uid: 'uid-claim',
        kind: 'PersistentVolumeClaim',
        apiVersion: 'v1',
        resourceVersion: '1',
      },
    };
    const actions = kind.up(edited, volume(), context());
    expect(actions).toEqual([
      {
        do: 'patchTenant',
        patch: {
          metadata: { labels: { zone: 'a', mine: null } },
          spec: {
            persistentVolumeReclaimPolicy: 'Delete',
            mountOptions: null,
            claimRef: { resourceVersion: null },
          },
        },
      },
    ]);
    const { tenantObject } = carryOut({ tenantObject: edited, superObject: volume() }, actions);
    expect(kind.up(tenantObject as KubeObject, volume(), context())).toEqual([]);
  });
});

describe('removed when the claim is gone (sync rule `persistent-volumes`)', () => {
  it('is first no longer Bound, else its protection would never end', () => {
    expect(kind.superGone?.(copy(), context())).toEqual([
      { do: 'patchTenant', subresource: 'status', patch: { status: { phase: 'Released' } } },
      { do: 'deleteTenant' },
    ]);
    expect(kind.superGone?.({ ...copy(), status: { phase: 'Released' } }, context())).toEqual([
      { do: 'deleteTenant' },
    ]);
  });

  it('lets one go that the tenant has deleted before', () => {
    const deleting = copy();
    deleting.metadata.deletionTimestamp = '2026-01-01T00:00:00Z';
    expect(kind.superGone?.(deleting, context())).toEqual([
      { do: 'patchTenant', subresource: 'status', patch: { status: { phase: 'Released' } } },
    ]);
  });
});

it("a copy touches the claim that waits for it; the tenant's own volumes touch nothing", () => {
  expect(kind.touches?.tenant?.(copy(), context())).toEqual([
    { kind: 'persistentvolumeclaims', namespace: 'shop', name: 'data' },
  ]);
  const own = copy();
  own.metadata.annotations = {};
  expect(kind.touches?.tenant?.(own, context())).toEqual([]);
});

it('names no real node where nodes are hidden (sync rule `virtual-nodes`)', () => {
  const node = { apiVersion: 'v1', kind: 'Node', metadata: { name: 'n1' } };
  const expression = { key: 'kubernetes.io/hostname', operator: 'In', values: ['n1'] };
  const local = volume({
    nodeAffinity: { required: { nodeSelectorTerms: [{ matchExpressions: [expression] }] } },
    local: { path: '/mnt/n1/disk' },
  });
  local.metadata.labels = { 'kubernetes.io/hostname': 'n1' };
  local.metadata.annotations = { 'local.example/node': 'n1' };
  const hidden = testContext({
    tenant: { hideNodes: true },
    superObjects: [superNamespace(), superClaim(), node],
    tenantObjects: [ownClaim],
    kinds: allKinds,
  });
  const object = kind.toTenant(local, hidden);
  const shown = shownNodeName(testTenant({ hideNodes: true }), 'n1');
  expect(object.metadata.labels).toEqual({ 'kubernetes.io/hostname': shown });
  expect(JSON.stringify(object['spec'])).toContain(`"values":["${shown}"]`);
  expect(JSON.stringify(object)).not.toMatch(/\bn1\b/);
  expect(kind.up(object, local, hidden)).toEqual([
    { do: 'patchTenant', subresource: 'status', patch: { status: { phase: 'Bound' } } },
  ]);
});
