import { describe, expect, it } from 'vitest';
import { annotationKeys, labelKeys } from '../../api/labels.ts';
import type { KubeObject } from '../../kube/index.ts';
import { ingressClassKind, priorityClassKind, runtimeClassKind, storageClassKind } from './classes.ts';
import { defaultStorageClass } from './published-kind.ts';
import { referrersOf } from './references.ts';
import { allKinds } from './registry.ts';
import { carryOut, testContext } from './testing.ts';

describe('priority classes', () => {
  const kind = priorityClassKind;

  function priorityClass(change: Partial<KubeObject> = {}, name = 'batch'): KubeObject {
    return {
      apiVersion: 'scheduling.k8s.io/v1',
      kind: 'PriorityClass',
      metadata: { name, uid: `uid-of-${name}`, labels: { [labelKeys.public]: 'true' } },
      value: 1000,
      preemptionPolicy: 'Never',
      description: 'waits its turn',
      ...change,
    };
  }

  const context = (tenantObjects: KubeObject[] = [], superObjects: KubeObject[] = []) =>
    testContext({ tenantObjects, superObjects, kinds: allKinds });

  describe('a published PriorityClass', () => {
    it('comes up with its value and with its policy of preemption, so that nobody preempts who may not', () => {
      expect(kind.toTenant(priorityClass(), context())).toEqual({
        apiVersion: 'scheduling.k8s.io/v1',
        kind: 'PriorityClass',
        metadata: { name: 'batch', annotations: { [annotationKeys.uid]: 'uid-of-batch' } },
        value: 1000,
        preemptionPolicy: 'Never',
        description: 'waits its turn',
      });
    });

    it('is made anew when its value or its policy has changed, and patched when only its words have', () => {
      const copy = kind.toTenant(priorityClass(), context());
      expect(kind.up(copy, priorityClass({ value: 1001 }), context())).toEqual([{ do: 'deleteTenant' }]);
      const preempts = priorityClass({ preemptionPolicy: 'PreemptLowerPriority' });
      expect(kind.up(copy, preempts, context())).toEqual([{ do: 'deleteTenant' }]);
      const reworded = priorityClass({ description: 'waits' });
      expect(kind.up(copy, reworded, context())).toEqual([
        { do: 'patchTenant', patch: { description: 'waits' } },
      ]);
    });

    it('is not one of those that every API server makes itself', () => {
      const system = priorityClass({ value: 2_000_000_000 }, 'system-cluster-critical');
      expect(kind.tenantRef(system, context())).toBeUndefined();
      expect(kind.tenantRef(priorityClass(), context())).toEqual({ name: 'batch' });
      expect(kind.tenantRef(priorityClass({ metadata: { name: 'batch' } }), context())).toBeUndefined();
    });
  });

  describe('the published default', () => {
    const original = priorityClass({ globalDefault: true });
    const own = priorityClass({ metadata: { name: 'mine' }, globalDefault: true });

    it('is the default of the tenant too: its API server gives its pods what the super cluster would', () => {
      const copy = kind.toTenant(original, context());
      expect(copy['globalDefault']).toBe(true);
      const edited = { ...copy, globalDefault: false };
      const actions = kind.up(edited, original, context([edited]));
      expect(carryOut({ tenantObject: edited, superObject: original }, actions).tenantObject).toEqual(copy);
    });

    it('steps back while the tenant has a default of its own, as an API server bears only one', () => {
      expect(kind.toTenant(original, context([own]))['globalDefault']).toBeUndefined();
      const copy = kind.toTenant(original, context());
      expect(kind.up(copy, original, context([own, copy]))).toEqual([
        { do: 'patchTenant', patch: { globalDefault: null } },
      ]);
    });

    it('is looked at again when that one comes and when it goes', () => {
      const both = context([own], [original, priorityClass({}, 'other')]);
      expect(kind.touches?.tenant?.(own, both)).toEqual([{ kind: 'priorityclasses', name: 'batch' }]);
      expect(kind.touches?.tenant?.(kind.toTenant(original, context()), both)).toEqual([]);
    });
  });
});

describe('runtime classes', () => {
  const kind = runtimeClassKind;

  const original: KubeObject = {
    apiVersion: 'node.k8s.io/v1',
    kind: 'RuntimeClass',
    metadata: { name: 'kata', uid: 'uid-super', labels: { [labelKeys.public]: 'true' } },
    handler: 'kata-qemu',
    overhead: { podFixed: { memory: '120Mi' } },
    scheduling: { nodeSelector: { 'kata.example/ready': 'true' } },
  };

  it('a published RuntimeClass comes up without what it says of the nodes of the super cluster', () => {
    const copy = kind.toTenant(original, testContext());
    expect(copy).toEqual({
      apiVersion: 'node.k8s.io/v1',
      kind: 'RuntimeClass',
      metadata: { name: 'kata', annotations: { [annotationKeys.uid]: 'uid-super' } },
      handler: 'kata-qemu',
      overhead: { podFixed: { memory: '120Mi' } },
    });
    expect(kind.up(copy, original, testContext())).toEqual([]);
  });

  it('what a tenant adds to it is taken off again, and another handler makes it anew', () => {
    const copy = kind.toTenant(original, testContext());
    const edited = { ...copy, scheduling: { nodeSelector: { mine: 'true' } } };
    expect(kind.up(edited, original, testContext())).toEqual([
      { do: 'patchTenant', patch: { scheduling: null } },
    ]);
    expect(kind.up(copy, { ...original, handler: 'kata-clh' }, testContext())).toEqual([
      { do: 'deleteTenant' },
    ]);
  });
});

describe('ingress classes', () => {
  const kind = ingressClassKind;

  const isDefault = { 'ingressclass.kubernetes.io/is-default-class': 'true' };

  const original: KubeObject = {
    apiVersion: 'networking.k8s.io/v1',
    kind: 'IngressClass',
    metadata: {
      name: 'public',
      uid: 'uid-super',
      labels: { [labelKeys.public]: 'true' },
      annotations: isDefault,
    },
    spec: {
      controller: 'example.com/ingress',
      parameters: { kind: 'Settings', name: 's', namespace: 'infra', scope: 'Namespace' },
    },
  };

  it('a published IngressClass comes up, the mark of a default included, without parameters of the super cluster', () => {
    const copy = kind.toTenant(original, testContext());
    expect(copy).toEqual({
      apiVersion: 'networking.k8s.io/v1',
      kind: 'IngressClass',
      metadata: { name: 'public', annotations: { ...isDefault, [annotationKeys.uid]: 'uid-super' } },
      spec: { controller: 'example.com/ingress' },
    });
    expect(kind.up(copy, original, testContext())).toEqual([]);
  });

  it('parameters that a tenant adds are taken off again, and another controller makes it anew', () => {
    const copy = kind.toTenant(original, testContext());
    const edited = {
      ...copy,
      spec: { controller: 'example.com/ingress', parameters: { kind: 'X', name: 'x' } },
    };
    expect(kind.up(edited, original, testContext())).toEqual([
      { do: 'patchTenant', patch: { spec: { parameters: null } } },
    ]);
    const other = { ...original, spec: { controller: 'example.com/other' } };
    expect(kind.up(copy, other, testContext())).toEqual([{ do: 'deleteTenant' }]);
  });
});

describe('storage classes (sync rule `published-kinds`)', () => {
  const kind = storageClassKind;

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
        {
          name,
          creationTimestamp,
          annotations: { 'storageclass.kubernetes.io/is-default-class': isDefault },
        },
      );

    it('is the youngest of several', () => {
      const classes = [
        named('old', '2026-01-01T00:00:00Z'),
        named('new', '2026-01-02T00:00:00Z'),
        named('no', '2026-01-03T00:00:00Z', 'false'),
      ];
      expect(defaultStorageClass(context(classes))).toBe('new');
      expect(
        defaultStorageClass(
          context([named('b', '2026-01-01T00:00:00Z'), named('a', '2026-01-01T00:00:00Z')]),
        ),
      ).toBe('a');
      expect(defaultStorageClass(context())).toBeUndefined();
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
    const referrers = referrersOf(allKinds, kind, copy(), context(claims).tenantObjects);
    expect(referrers.map(({ name }) => name)).toEqual(['waits']);
    const touched = (object: KubeObject) => kind.touches?.tenant?.(object, context(claims));
    expect(touched(copy())).toEqual([]);
    const asDefault = copy();
    asDefault.metadata.annotations = { 'storageclass.kubernetes.io/is-default-class': 'true' };
    expect(touched(asDefault)).toEqual([{ kind: 'persistentvolumeclaims', namespace: 'shop', name: 'open' }]);
  });
});
