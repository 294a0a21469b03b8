import type { KubeObject } from '../../kube/index.ts';
import type { KeyRef, Lookup, SyncContext } from '../context.ts';
import type { DownKind, SyncedKind } from './contract.ts';

/** Index in the tenant's store of every kind that declares `references`: the ids of what an object refers to. */
export const referencesIndex = 'references';

/** What the index `referencesIndex` has for an object: one id for each object that it refers to. */
export function referenceIds(kind: DownKind, tenantObject: KubeObject): readonly string[] {
  return (kind.references?.of(tenantObject) ?? []).map(referenceId);
}

/**
 * Whether an object of the tenant that is in the super cluster, or is to be, needs this one there too (sync rule
 * `write-order`).
 */
export function isReferenced(kinds: readonly SyncedKind[], to: KeyRef, context: SyncContext): boolean {
  return kinds.some((kind) => {
    if (kind.direction !== 'down' || kind.references?.needed?.includes(to.kind) !== true) return false;
    const { needs } = kind.references;
    return context.tenantObjects
      .byIndex(kind.resource, referencesIndex, referenceId(to))
      .some((tenantObject) => needs?.(tenantObject, context) !== false);
  });
}

/** What goes down because this object refers to it, and stays behind without it. */
export function neededBy(kind: SyncedKind, tenantObject: KubeObject): readonly KeyRef[] {
  const needed = kind.direction === 'down' ? kind.references?.needed : undefined;
  if (needed === undefined) return [];
  return (kind as DownKind).references?.of(tenantObject).filter((to) => needed.includes(to.kind)) ?? [];
}

/** Objects of the tenant that refer to this one and are reconciled when it appears, changes or goes. */
export function referrersOf(
  kinds: readonly SyncedKind[],
  kind: SyncedKind,
  object: KubeObject,
  tenantObjects: Lookup,
): readonly KeyRef[] {
  const { namespace, name = '' } = object.metadata;
  return kinds.flatMap((referrer) => {
    if (referrer.direction !== 'down' || referrer.references?.followed?.includes(kind.name) !== true)
      return [];
    return tenantObjects
      .byIndex(referrer.resource, referencesIndex, referenceId({ kind: kind.name, namespace, name }))
      .map(
        ({ metadata }): KeyRef => ({
          kind: referrer.name,
          namespace: metadata.namespace,
          name: metadata.name ?? '',
        }),
      );
  });
}

/** What the index `referencesIndex` has for an object that is referred to. */
export function referenceId({ kind, namespace = '', name }: KeyRef): string {
  return `${kind}/${namespace}/${name}`;
}
