import { describe, expect, it } from 'vitest';
import { annotationKeys, labelKeys } from '../../../api/labels.ts';
import type { KubeObject } from '../../../kube/index.ts';
import { allKinds } from '../index.ts';
import { carryOut, testContext } from '../testing.ts';
import { defaultClass, storageClassKind as kind } from './index.ts';

function storageClass(
  change: Partial<KubeObject> = {},
  metadata: Partial<KubeObject['metadata']> = {},
): KubeObject {
  return {
    apiVersion: 'storage.k8s.io/v1',
    kind: 'StorageClass',
    metadata: {
      name: 'fast',
      uid: 'uid-super',
      labels: { [labelKeys.public]: 'true', tier: 'gold' },
      ...metadata,
    },
    provisioner: 'x.example/y',
    parameters: {
      pool: 'ssd',
      'csi.storage.k8s.io/provisioner-secret-name': 'admin',
      restuserkey: 'hunter2',
    },
    reclaimPolicy: 'Delete',
    volumeBindingMode: 'WaitForFirstConsumer',
    allowVolumeExpansion: true,
    ...change,
  };
}

const context = (tenantObjects: KubeObject[] = []) => testContext({ tenantObjects, kinds: allKinds });

function copy(): KubeObject {
  const object = kind.toTenant(storageClass(), context());
  return { ...object, metadata: { ...object.metadata, uid: 'uid-copy' } };
}

it('those labelled skerry.dev/public=true come up, no others', () => {
  expect(kind.tenantRef(storageClass(), context())).toEqual({ name: 'fast' });
  expect(
    kind.tenantRef(storageClass({}, { labels: { [labelKeys.public]: 'false' } }), context()),
  ).toBeUndefined();
  expect(kind.tenantRef(storageClass({}, { labels: {} }), context())).toBeUndefined();
  expect(kind.superRef({ name: 'fast' }, context())).toEqual({ name: 'fast' });
});

describe('the copy', () => {
  it('is complete but for credentials', () => {
    const object = kind.toTenant(
      storageClass({}, { annotations: { 'storageclass.kubernetes.io/is-default-class': 'true' } }),
      context(),
    );
    expect(object).toEqual({
      apiVersion: 'storage.k8s.io/v1',
      kind: 'StorageClass',
      metadata: {
        name: 'fast',
        labels: { tier: 'gold' },
        annotations: {
          'storageclass.kubernetes.io/is-default-class': 'true',
          [annotationKeys.uid]: 'uid-super',
        },
      },
      provisioner: 'x.example/y',
      parameters: { pool: 'ssd' },
      reclaimPolicy: 'Delete',
      volumeBindingMode: 'WaitForFirstConsumer',
      allowVolumeExpansion: true,
    });
  });

  it('is written no more when both sides agree', () => {
    expect(kind.up(copy(), storageClass(), context())).toEqual([]);
  });

  it('an edit of the tenant is put back', () => {
    const edited: KubeObject = { ...copy(), allowVolumeExpansion: false, mountOptions: ['ro'] };
    edited.metadata = { ...edited.metadata, labels: { tier: 'lead', mine: 'x' } };
    const actions = kind.up(edited, storageClass(), context());
    expect(actions).toEqual([
      {
        do: 'patchTenant',
        patch: {
          metadata: { labels: { tier: 'gold', mine: null } },
          allowVolumeExpansion: true,
          mountOptions: null,
        },
      },
    ]);
    const { tenantObject } = carryOut({ tenantObject: edited, superObject: storageClass() }, actions);
    expect(kind.up(tenantObject as KubeObject, storageClass(), context())).toEqual([]);
  });

  it('is made anew when a field differs that cannot be changed', () => {
    for (const change of [
      { provisioner: 'z' },
      { parameters: { pool: 'disk' } },
      { reclaimPolicy: 'Retain' },
    ]) {
      expect(kind.up(copy(), storageClass(change), context())).toEqual([{ do: 'deleteTenant' }]);
    }
  });
});

describe("the tenant's default", () => {
  const named = (name: string, creationTimestamp: string, isDefault = 'true'): KubeObject =>
    storageClass(
      {},
      { name, creationTimestamp, annotations: { 'storageclass.kubernetes.io/is-default-class': isDefault } },
    );

  it('is the youngest of several', () => {
    const classes = [
      named('old', '2026-01-01T00:00:00Z'),
      named('new', '2026-01-02T00:00:00Z'),
      named('no', '2026-01-03T00:00:00Z', 'false'),
    ];
    expect(defaultClass(context(classes))).toBe('new');
    expect(
      defaultClass(context([named('b', '2026-01-01T00:00:00Z'), named('a', '2026-01-01T00:00:00Z')])),
    ).toBe('a');
    expect(defaultClass(context())).toBeUndefined();
  });
});

it('claims that wait for a class are looked at again when it appears', () => {
  const claim = (name: string, spec: Record<string, unknown>): KubeObject => ({
    apiVersion: 'v1',
    kind: 'PersistentVolumeClaim',
    metadata: { name, namespace: 'shop' },
    spec,
  });
  const claims = [
    claim('waits', { storageClassName: 'fast' }),
    claim('bound', { storageClassName: 'fast', volumeName: 'pv-1' }),
    claim('other', { storageClassName: 'slow' }),
    claim('open', {}),
  ];
  const touched = (object: KubeObject) =>
    kind.touches?.tenant?.(object, context(claims)).map(({ name }) => name);
  expect(touched(copy())).toEqual(['waits']);
  const asDefault = copy();
  asDefault.metadata.annotations = { 'storageclass.kubernetes.io/is-default-class': 'true' };
  expect(touched(asDefault)).toEqual(['waits', 'open']);
});
