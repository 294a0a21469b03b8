import type { KubeObject } from '../../../kube/index.ts';
import { at, type CheckedKind, type SuperKind, type SuperSide, type TenantSide, type View } from './view.ts';

/** Two agreeing sides, copied, so that a test may spoil them. */
export class Copy {
  readonly own: Record<CheckedKind, KubeObject[]>;
  readonly superSide: Record<SuperKind, KubeObject[]>;

  constructor(own: TenantSide, superSide: SuperSide) {
    this.own = structuredClone(own) as Record<CheckedKind, KubeObject[]>;
    this.superSide = structuredClone(superSide) as Record<SuperKind, KubeObject[]>;
  }

  /** T, by the beginning of its name. */
  tenantObject(kind: CheckedKind, prefix: string, inNamespace = 'shop'): KubeObject {
    const object = this.own[kind].find(
      ({ metadata }) =>
        metadata.name?.startsWith(prefix) &&
        (metadata.namespace === undefined || metadata.namespace === inNamespace),
    );
    if (object === undefined) throw new Error(`no ${kind} ${prefix} in the tenant`);
    return object;
  }

  /** S of the same T. */
  superObject(kind: CheckedKind, prefix: string, inNamespace = 'shop'): KubeObject {
    const { uid, annotations } = this.tenantObject(kind, prefix, inNamespace).metadata;
    const object = this.superSide[kind].find(
      ({ metadata }) =>
        metadata.annotations?.['skerry.dev/uid'] === uid || metadata.uid === annotations?.['skerry.dev/uid'],
    );
    if (object === undefined) throw new Error(`no ${kind} ${prefix} in the super cluster`);
    return object;
  }

  remove(side: 'own' | 'superSide', kind: CheckedKind, object: KubeObject): void {
    const list = this[side][kind];
    list.splice(list.indexOf(object), 1);
  }
}

export function setField(object: KubeObject, path: readonly (string | number)[], value: unknown): void {
  const parent = at<Record<string, unknown>>(object, ...path.slice(0, -1).map(String));
  if (parent === undefined) throw new Error(`no ${path.join('.')} in ${object.metadata.name}`);
  parent[String(path.at(-1))] = value;
}

export function setLabel(object: KubeObject, key: string, value: string): void {
  object.metadata.labels = { ...object.metadata.labels, [key]: value };
}

export function setAnnotation(object: KubeObject, key: string, value: string): void {
  object.metadata.annotations = { ...object.metadata.annotations, [key]: value };
}

/** What is done to two sides that agree, and what the checker must say of it. */
export interface SeededDifference {
  what: string;
  plant(copy: Copy): void;
  /** What the checker has to say. */
  message: RegExp;
}

/** What is compared of some kinds, and what a test spoils of them. */
export interface KindChecks {
  readonly compare: readonly ((view: View) => string[])[];
  readonly seeded: readonly SeededDifference[];
}

/** In what all kinds have. */
export const inMetadata: readonly SeededDifference[] = [
  {
    what: 'a mark names another tenant',
    plant: (c) => setLabel(c.superObject('services', 'web'), 'skerry.dev/tenant', 'other'),
    message: /label skerry.dev\/tenant is other/,
  },
  {
    what: 'there is no such bucket',
    plant: (c) => setLabel(c.superObject('services', 'web'), 'skerry.dev/bucket', '64'),
    message: /bucket is "64"/,
  },
  {
    what: 'a label did not go down',
    plant: (c) => setLabel(c.tenantObject('pods', 'web'), 'more', 'x'),
    message: /labels more/,
  },
  {
    what: 'a label was removed in T only',
    plant: (c) => setLabel(c.superObject('pods', 'web'), 'more', 'x'),
    message: /labels more is not the tenant's/,
  },
  {
    what: 'a label that is none of those allowed went down',
    plant(c) {
      setLabel(c.tenantObject('services', 'web'), 'cis.f5.com/as3-pool', 'x');
      setLabel(c.superObject('services', 'web'), 'cis.f5.com/as3-pool', 'x');
    },
    message: /labels cis\.f5\.com\/as3-pool went down although it is denied/,
  },
  {
    what: 'a denied annotation went down',
    plant(c) {
      setAnnotation(c.tenantObject('pods', 'web'), 'external-dns.alpha.kubernetes.io/hostname', 'x');
      setAnnotation(c.superObject('pods', 'web'), 'external-dns.alpha.kubernetes.io/hostname', 'x');
    },
    message: /although it is denied/,
  },
  {
    what: 'S has owners',
    plant: (c) => setField(c.superObject('pods', 'web'), ['metadata', 'ownerReferences'], [{}]),
    message: /ownerReferences/,
  },
  {
    what: "S has T's finalizer",
    plant(c) {
      setField(c.tenantObject('pods', 'web'), ['metadata', 'finalizers'], ['example.com/mine']);
      setField(c.superObject('pods', 'web'), ['metadata', 'finalizers'], ['example.com/mine']);
    },
    message: /the tenant's finalizer example.com\/mine/,
  },
  {
    what: 'T names a super namespace',
    plant: (c) =>
      setAnnotation(
        c.tenantObject('pods', 'web'),
        'leak',
        c.superObject('namespaces', 'shop').metadata.name ?? '',
      ),
    message: /shows the super namespace/,
  },
  {
    what: 'something is left of a deleted tenant',
    plant(c) {
      const left = structuredClone(c.superObject('configmaps', 'settings'));
      setLabel(left, 'skerry.dev/tenant', 'long-gone');
      c.superSide.configmaps.push(left);
    },
    message: /left of the deleted tenant long-gone/,
  },
];
