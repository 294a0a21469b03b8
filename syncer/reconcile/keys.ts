import { labelKeys } from '../../api/labels.ts';
import type { KubeObject } from '../../kube/index.ts';
import type { KeyRef, SyncContext } from '../context.ts';
import type { SuperObjects, SyncedKind, UpKind } from '../kinds/contract.ts';
import { originalUid } from '../mapping/labels.ts';

/** One unit of work: an object in the coordinates of its tenant. `tenant` is the VirtualCluster's UID. */
export interface SyncKey extends KeyRef {
  readonly tenant: string;
}

/** Unique within a tenant; namespace and name cannot hold a slash. */
export function keyId(key: KeyRef): string {
  return `${key.kind}/${key.namespace ?? ''}/${key.name}`;
}

/** The key of an object of the tenant. */
export function tenantKeyOf(kind: SyncedKind, object: KubeObject): KeyRef {
  const { namespace, name = '' } = object.metadata;
  return { kind: kind.name, namespace, name };
}

/** The key in its tenant's coordinates of a super object that carries our marks. */
export function downKeyOf(kind: SuperObjects, superObject: KubeObject): KeyRef | undefined {
  const namespace = superObject.metadata.labels?.[labelKeys.namespace];
  const name = superObject.metadata.name;
  if (namespace === undefined || name === undefined || originalUid(superObject) === undefined)
    return undefined;
  const tenantName = kind.tenantName?.(name, superObject) ?? name;
  return { kind: kind.name, namespace: kind.resource.namespaced ? namespace : undefined, name: tenantName };
}

/**
 * The key of a super object of which tenants get copies. One that has no place in this tenant still has a
 * key if it is cluster-scoped: there may be a copy from before.
 */
export function upKeyOf(kind: UpKind, superObject: KubeObject, context: SyncContext): KeyRef | undefined {
  const ref = kind.tenantRef(superObject, context);
  if (ref !== undefined) return { kind: kind.name, namespace: ref.namespace, name: ref.name };
  const { name } = superObject.metadata;
  if (kind.resource.namespaced || name === undefined) return undefined;
  return { kind: kind.name, name: kind.copyName?.(name, context) ?? name };
}
