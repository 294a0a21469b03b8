import { describe, expect, it } from 'vitest';
import { annotationKeys, labelKeys } from '../../api/labels.ts';
import { applyMergePatch, type KubeObject } from '../../kube/index.ts';
import { superNamespaceName } from '../mapping/names.ts';
import { persistentVolumeClaimKind as kind } from './persistent-volume-claims.ts';
import { allKinds } from './registry.ts';
import { carryOut, testContext, testTenant } from './testing.ts';

const superShop = superNamespaceName(testTenant(), 'shop');

function claim(
  spec: Record<string, unknown> = {},
  status: Record<string, unknown> = { phase: 'Pending' },
): KubeObject {
  return {
    apiVersion: 'v1',
    kind: 'PersistentVolumeClaim',
    metadata: {
      name: 'data',
      namespace: 'shop',
      uid: 'uid-claim',
      creationTimestamp: '2026-01-01T00:00:00Z',
    },
    spec: {
      accessModes: ['ReadWriteOnce'],
      resources: { requests: { storage: '1Gi' } },
      storageClassName: 'fast',
      volumeMode: 'Filesystem',
      ...spec,
    },
    status,
  };
}

function storageClass(name = 'fast', metadata: Partial<KubeObject['metadata']> = {}): KubeObject {
  return {
    apiVersion: 'storage.k8s.io/v1',
    kind: 'StorageClass',
    metadata: { name, uid: `uid-super-${name}`, labels: { [labelKeys.public]: 'true' }, ...metadata },
    provisioner: 'x.example/y',
  };
}

function copyOf(original: KubeObject, annotations: Record<string, string> = {}): KubeObject {
  return {
    ...original,
    metadata: {
      name: original.metadata.name ?? '',
      uid: `copy-${original.metadata.name}`,
      creationTimestamp: '2026-01-01T00:00:00Z',
      annotations: { [annotationKeys.uid]: original.metadata.uid ?? '', ...annotations },
    },
  };
}

function context(tenantObjects: KubeObject[] = [], superObjects: KubeObject[] = []) {
  return testContext({ tenantObjects, superObjects, kinds: allKinds });
}

/** A tenant to whom `fast` is published. */
function published(tenantObjects: KubeObject[] = [], superObjects: KubeObject[] = []) {
  return context([copyOf(storageClass()), ...tenantObjects], [storageClass(), ...superObjects]);
}

function created(
  tenantObject: KubeObject,
  spec: Record<string, unknown> = {},
  status: Record<string, unknown> = { phase: 'Pending' },
): KubeObject {
  const object = kind.toSuper(tenantObject, published());
  return {
    ...object,
    metadata: { ...object.metadata, uid: 'uid-super-claim' },
    spec: { ...(object['spec'] as object), ...spec },
    status,
  };
}

const refusal = (reason: string) => ({ wanted: false, keep: true, notice: { type: 'Warning', reason } });

describe('the class of a claim (sync rule `persistent-volume-claims`)', () => {
  it('must be published to the tenant, else no super object and an event', () => {
    expect(kind.admit?.(claim(), published())).toEqual({ wanted: true });
    expect(kind.admit?.(claim(), context())).toMatchObject(refusal('StorageClassNotPublished'));
  });

  it('is waited for without a word while its copy is on the way to the tenant', () => {
    const early = context([], [storageClass()]);
    expect(kind.admit?.(claim(), early)).toEqual({ wanted: true });
    expect(kind.requires?.(claim(), early)).toEqual([{ kind: 'storageclasses', name: 'fast' }]);
    expect(kind.requires?.(claim(), published())).toEqual([]);
  });

  it('is not published because the tenant has put a mark on a class of its own', () => {
    const forged = copyOf(storageClass());
    const hidden = storageClass('fast', { labels: {} });
    expect(kind.admit?.(claim(), context([forged], [hidden]))).toMatchObject(
      refusal('StorageClassNotPublished'),
    );
    const own = { ...copyOf(storageClass()), metadata: { name: 'fast', uid: 'own' } };
    expect(kind.admit?.(claim(), context([own], [storageClass()]))).toMatchObject(
      refusal('StorageClassNotPublished'),
    );
  });

  it('may not be "": that would bind any free volume of the super cluster', () => {
    expect(kind.admit?.(claim({ storageClassName: '' }), published())).toMatchObject(
      refusal('StorageClassNotPublished'),
    );
  });

  it("left open is the tenant's default, and comes up as in any cluster", () => {
    const open = claim({ storageClassName: undefined });
    expect(kind.admit?.(open, published())).toMatchObject(refusal('NoStorageClass'));
    const isDefault = { 'storageclass.kubernetes.io/is-default-class': 'true' };
    const withDefault = context([copyOf(storageClass(), isDefault)], [storageClass()]);
    expect(kind.admit?.(open, withDefault)).toEqual({ wanted: true });
    const object = kind.toSuper(open, withDefault);
    expect(object['spec']).toMatchObject({ storageClassName: 'fast' });
    expect(kind.up?.(open, { ...object, status: { phase: 'Pending' } }, withDefault)).toEqual([
      { do: 'patchTenant', patch: { spec: { storageClassName: 'fast' } } },
    ]);
  });

  it('left open is never the choice of the super cluster', () => {
    const open = claim({ storageClassName: undefined });
    const superDefault = storageClass('fast', {
      annotations: { 'storageclass.kubernetes.io/is-default-class': 'true' },
    });
    expect(kind.admit?.(open, context([], [superDefault]))).toMatchObject(refusal('NoStorageClass'));
  });

  it('can be given in the old annotation', () => {
    const old = claim({ storageClassName: undefined });
    old.metadata.annotations = { 'volume.beta.kubernetes.io/storage-class': 'fast' };
    const object = kind.toSuper(old, published());
    expect(object['spec']).toMatchObject({ storageClassName: 'fast' });
    expect(object.metadata.annotations).not.toHaveProperty(['volume.beta.kubernetes.io/storage-class']);
  });
});

describe('what a claim may not ask for (sync rule `persistent-volume-claims`)', () => {
  it('a volume of its choice', () => {
    expect(kind.admit?.(claim({ volumeName: 'pv-of-another' }), published())).toMatchObject(
      refusal('NotAllowed'),
    );
    expect(kind.toSuper(claim({ volumeName: 'pv' }), published())['spec']).not.toHaveProperty('volumeName');
  });

  it('data of anything but a claim of the same namespace', () => {
    const own = { kind: 'PersistentVolumeClaim', name: 'old' };
    const cloning = claim({ dataSource: own, dataSourceRef: own });
    expect(kind.admit?.(cloning, published())).toEqual({ wanted: true });
    expect(kind.requires?.(cloning, published())).toEqual([
      { kind: 'persistentvolumeclaims', namespace: 'shop', name: 'old' },
    ]);
    expect(kind.toSuper(cloning, published())['spec']).toMatchObject({ dataSource: own });
    const others = [
      { apiGroup: 'snapshot.storage.k8s.io', kind: 'VolumeSnapshot', name: 's' },
      { kind: 'PersistentVolumeClaim', name: 'old', namespace: 'kube-system' },
      { apiGroup: 'populator.example', kind: 'PersistentVolumeClaim', name: 'x' },
    ];
    for (const dataSourceRef of others) {
      expect(kind.admit?.(claim({ dataSourceRef }), published())).toMatchObject(refusal('NotSupported'));
    }
  });

  it.each([
    ['volumeAttributesClassName', { volumeAttributesClassName: 'fast' }, 'spec.volumeAttributesClassName'],
    ['what a newer Kubernetes has', { resources: { claims: [] } }, 'spec.resources.claims'],
    [
      'what a newer selector has',
      { selector: { matchExpressions: [{ key: 'a', fuzzy: 1 }] } },
      'spec.selector.matchExpressions[].fuzzy',
    ],
  ])('a field that is not known, which is refused by name: %s', (_what, spec, path) => {
    const refused = {
      wanted: false,
      keep: true,
      notice: { reason: 'UnknownField', message: expect.stringContaining(path) },
    };
    expect(kind.admit?.(claim(spec), published())).toMatchObject(refused);
    expect(kind.admit?.(claim(spec), published([], [created(claim())]))).toMatchObject(refused);
  });

  it('anything once there is a super object: it is kept, with its data', () => {
    const tenantObject = claim({ volumeName: 'pv-1' });
    const superObject = created(claim(), { volumeName: 'pv-1' });
    expect(kind.admit?.(tenantObject, context([], [superObject]))).toEqual({ wanted: true });
    expect(kind.admit?.(claim({ volumeName: 'pv-2' }), context([], [superObject]))).toMatchObject(
      refusal('NotAllowed'),
    );
    // The earlier claim of that name does not count.
    superObject.metadata.annotations = {
      ...superObject.metadata.annotations,
      [annotationKeys.uid]: 'uid-earlier',
    };
    expect(kind.admit?.(tenantObject, published([], [superObject]))).toMatchObject(refusal('NotAllowed'));
  });
});

describe('down', () => {
  it('creates the super object in the super namespace, bound to nothing', () => {
    const object = kind.toSuper(claim(), published());
    expect(object).toMatchObject({
      metadata: { name: 'data', namespace: superShop, annotations: { [annotationKeys.uid]: 'uid-claim' } },
      spec: {
        accessModes: ['ReadWriteOnce'],
        resources: { requests: { storage: '1Gi' } },
        storageClassName: 'fast',
        volumeMode: 'Filesystem',
      },
    });
    expect(kind.down(claim(), object, published())).toEqual([]);
  });

  it('annotations of volume controllers stay in the tenant', () => {
    const tenantObject = claim();
    tenantObject.metadata.annotations = {
      'volume.kubernetes.io/selected-node': 'node-1',
      'pv.kubernetes.io/bind-completed': 'yes',
      note: 'x',
    };
    const annotations = kind.toSuper(tenantObject, published()).metadata.annotations ?? {};
    expect(annotations).toMatchObject({ note: 'x' });
    expect(Object.keys(annotations).filter((key) => key.includes('kubernetes.io/'))).toEqual([]);
  });

  it('grows', () => {
    const bound = { phase: 'Bound', capacity: { storage: '1Gi' } };
    const superObject = created(claim(), { volumeName: 'pv-1' }, bound);
    const grown = claim({ resources: { requests: { storage: '2Gi' } } });
    expect(kind.down(grown, superObject, published())).toEqual([
      { do: 'patchSuper', patch: { spec: { resources: { requests: { storage: '2Gi' } } } } },
    ]);
    const same = claim({ resources: { requests: { storage: '1024Mi' } } });
    expect(kind.down(same, superObject, published())).toEqual([]);
    // Not before it is bound: the super cluster would refuse.
    expect(kind.down(grown, created(claim()), published())).toEqual([]);
  });

  it('shrinks only to get out of an expansion that failed', () => {
    const superObject = created(
      claim({ resources: { requests: { storage: '9Gi' } } }),
      {},
      { phase: 'Bound', capacity: { storage: '1Gi' } },
    );
    expect(
      kind.down(claim({ resources: { requests: { storage: '2Gi' } } }), superObject, published()),
    ).toHaveLength(1);
    expect(kind.down(claim(), superObject, published())).toEqual([]);
  });

  it('is deleted only after a live answer (sync rule `confirmed-delete`)', () => {
    expect(kind.deleteNeedsLiveCheck).toBe(true);
  });
});

describe('up', () => {
  const bound = { phase: 'Bound', accessModes: ['ReadWriteOnce'], capacity: { storage: '1Gi' } };

  function volume(uid: string): KubeObject {
    return {
      apiVersion: 'v1',
      kind: 'PersistentVolume',
      metadata: { name: 'pv-1' },
      spec: { claimRef: { uid } },
    };
  }

  it('waits until the tenant can see the volume, then volumeName, then status', () => {
    const superObject = created(claim(), { volumeName: 'pv-1' }, bound);
    superObject.metadata.annotations = {
      ...superObject.metadata.annotations,
      'pv.kubernetes.io/bind-completed': 'yes',
      'pv.kubernetes.io/bound-by-controller': 'yes',
      'volume.kubernetes.io/selected-node': 'node-1',
    };
    const wait = [{ do: 'require', keys: [{ kind: 'persistentvolumes', name: 'pv-1' }] }];
    expect(kind.up?.(claim(), superObject, context())).toEqual(wait);
    expect(kind.up?.(claim(), superObject, context([volume('uid-another')]))).toEqual(wait);

    const ready = context([volume('uid-claim')]);
    const actions = kind.up?.(claim(), superObject, ready) ?? [];
    expect(actions).toEqual([
      {
        do: 'patchTenant',
        patch: {
          metadata: {
            annotations: {
              'pv.kubernetes.io/bind-completed': 'yes',
              'pv.kubernetes.io/bound-by-controller': 'yes',
            },
          },
          spec: { volumeName: 'pv-1' },
        },
      },
      { do: 'patchTenant', subresource: 'status', patch: { status: bound } },
    ]);
    const { tenantObject } = carryOut({ tenantObject: claim(), superObject }, actions);
    expect(kind.up?.(tenantObject as KubeObject, superObject, ready)).toEqual([]);
    expect(kind.down(tenantObject as KubeObject, superObject, ready)).toEqual([]);
  });

  it('brings phase, capacity and conditions up, free of super names', () => {
    const conditions = [{ type: 'Resizing', status: 'True', message: `expanding ${superShop}/data` }];
    const superObject = created(
      claim(),
      { volumeName: 'pv-1' },
      { ...bound, capacity: { storage: '2Gi' }, conditions },
    );
    const tenantObject = claim({ volumeName: 'pv-1' }, bound);
    expect(kind.up?.(tenantObject, superObject, context())).toEqual([
      {
        do: 'patchTenant',
        subresource: 'status',
        patch: {
          status: {
            capacity: { storage: '2Gi' },
            conditions: [{ type: 'Resizing', status: 'True', message: 'expanding shop/data' }],
          },
        },
      },
    ]);
  });

  it("leaves the tenant's own condition alone that says that it waits for its quota", () => {
    const waiting = {
      type: 'skerry.dev/WithinQuota',
      status: 'False',
      reason: 'QuotaExceeded',
      message: 'm',
    };
    const resizing = { type: 'Resizing', status: 'True' };
    const status = { ...bound, conditions: [waiting] };
    const tenantObject = claim({ volumeName: 'pv-1' }, status);
    const there = (conditions?: object[]) =>
      created(claim(), { volumeName: 'pv-1' }, { ...bound, ...(conditions && { conditions }) });
    expect(kind.up?.(tenantObject, there(), context())).toEqual([]);
    const changed = kind.up?.(tenantObject, there([resizing]), context());
    expect(changed).toEqual([
      { do: 'patchTenant', subresource: 'status', patch: { status: { conditions: [resizing, waiting] } } },
    ]);
  });

  it('takes conditions away that are over', () => {
    const tenantObject = claim(
      { volumeName: 'pv-1' },
      { ...bound, conditions: [{ type: 'Resizing', status: 'True' }] },
    );
    const superObject = created(claim(), { volumeName: 'pv-1' }, bound);
    expect(kind.up?.(tenantObject, superObject, context())).toEqual([
      { do: 'patchTenant', subresource: 'status', patch: { status: { conditions: null } } },
    ]);
  });

  it('shows nothing of the super object when the tenant has named another volume', () => {
    const superObject = created(claim(), { volumeName: 'pv-1' }, bound);
    expect(kind.up?.(claim({ volumeName: 'pv-2' }), superObject, context([volume('uid-claim')]))).toEqual([]);
  });
});

describe('the super object gone behind the back of a bound tenant object', () => {
  it('makes the tenant object Lost instead of giving it a new, empty volume', () => {
    const tenantObject = claim({ volumeName: 'pv-1' }, { phase: 'Bound' });
    const [patch] = kind.superGone?.(tenantObject, context()) ?? [];
    expect(patch).toEqual({ do: 'patchTenant', subresource: 'status', patch: { status: { phase: 'Lost' } } });
    const lost = applyMergePatch(tenantObject, { status: { phase: 'Lost' } }) as KubeObject;
    expect(kind.superGone?.(lost, context())).toEqual([]);
  });

  it('is nothing to a claim that was never bound or is being deleted', () => {
    expect(kind.superGone?.(claim(), context())).toBeUndefined();
    expect(kind.superGone?.(claim({ volumeName: 'pv-1' }), context())).toBeUndefined();
    const deleting = claim({ volumeName: 'pv-1' }, { phase: 'Bound' });
    deleting.metadata.deletionTimestamp = '2026-01-01T00:00:00Z';
    expect(kind.superGone?.(deleting, context())).toBeUndefined();
  });
});

it('touches its volume from either side', () => {
  const key = [{ kind: 'persistentvolumes', name: 'pv-1' }];
  expect(kind.touches?.tenant?.(claim({ volumeName: 'pv-1' }), context())).toEqual(key);
  expect(kind.touches?.super?.(claim({ volumeName: 'pv-1' }), context())).toEqual(key);
  expect(kind.touches?.tenant?.(claim(), context())).toEqual([]);
});
