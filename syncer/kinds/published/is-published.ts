import { labelKeys } from '../../../api/labels.ts';
import type { KubeObject, Resource } from '../../../kube/index.ts';
import { uidMark } from '../../mapping/index.ts';
import type { SyncContext } from '../context.ts';

/** Whether the operator offers this object of the super cluster to all tenants. */
export function isPublished(superObject: KubeObject | undefined): boolean {
  return superObject?.metadata.labels?.[labelKeys.public] === 'true';
}

/**
 * Whether an object of the tenant that names this one means something that the operator has published: the
 * tenant's object is the copy of it. Both sides are asked, as the tenant can write any mark on an object of
 * its own.
 */
export function isOffered(resource: Resource, name: string, context: SyncContext): boolean {
  const copy = context.tenantObjects.get(resource, { name });
  const original = context.superObjects.get(resource, { name });
  return copy !== undefined && isPublished(original) && uidMark(copy) === original?.metadata.uid;
}

/** Whether the operator offers an object of this name and the tenant's copy of it is still on its way. */
export function isOnItsWay(resource: Resource, name: string, context: SyncContext): boolean {
  return (
    isPublished(context.superObjects.get(resource, { name })) &&
    context.tenantObjects.get(resource, { name }) === undefined
  );
}
