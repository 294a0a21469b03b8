import { labelKeys } from '../../api/labels.ts';
import { type KubeObject, resources } from '../../kube/index.ts';
import { allKinds, type DownKind, type SyncContext, type SyncedKind, type UpKind } from '../kinds/index.ts';
import { isOurs, uidMark } from '../mapping/index.ts';
import { byTenantIndex, type Caches } from './caches.ts';
import type { Missing } from './deletion-guard.ts';
import { keyId } from './key.ts';
import { downKeyOf, tenantKeyOf } from './locate.ts';
import type { TenantState } from './tenant-state.ts';

/**
 * Super objects that have lost their tenant object. Those whose deletion was watched do not count, nor do
 * those of a namespace that is itself gone: that is one deletion, checked live on its own.
 */
export function missingInTenant(tenant: TenantState, superCaches: Caches): Missing {
  const uids: string[] = [];
  let total = 0;
  for (const kind of kindsOf(tenant)) {
    // What stands beside another kind's S is not counted again: it goes with it.
    if (kind.direction !== 'down' || kind.superResource !== undefined) continue;
    for (const object of superCaches.byIndex(kind.resource, byTenantIndex, tenant.info.uid)) {
      if (object.metadata.deletionTimestamp !== undefined) continue;
      const key = downKeyOf(kind, object);
      if (key === undefined) continue;
      total += 1;
      const own = tenant.caches.get(kind.resource, key);
      if (own !== undefined) {
        if (kind.unwantedIsMissing === true && isToGo(kind, own, tenant.context()))
          uids.push(object.metadata.uid ?? '');
        continue;
      }
      if (tenant.tombstones.tenant.get(keyId(key))?.uid === uidMark(object)) continue;
      const namespace = object.metadata.labels?.[labelKeys.namespace];
      const namespaceIsThere =
        key.namespace === undefined ||
        (namespace !== undefined &&
          tenant.caches.get(resources.namespaces, { name: namespace }) !== undefined);
      if (namespaceIsThere) uids.push(object.metadata.uid ?? '');
    }
  }
  return { uids, total };
}

/**
 * Tenant objects that would be given up because the super object that they had, or that they are a copy of,
 * is gone. Those whose super object was seen going do not count, nor do those that the tenant deletes itself.
 */
export function missingInSuper(tenant: TenantState, superCaches: Caches): Missing {
  const context = tenant.context();
  const uids: string[] = [];
  let total = 0;
  for (const kind of allKinds) {
    if (kind.direction === 'up' ? !kind.watchTenant : kind.superGone === undefined) continue;
    for (const object of tenant.caches.store(kind.resource).list()) {
      const key = tenantKeyOf(kind, object);
      const ref = tenant.superRef(kind, key);
      const superObject = ref === undefined ? undefined : superCaches.get(kind.resource, ref);
      if (
        kind.direction === 'up'
          ? uidMark(object) === undefined
          : superObject && !isOurs(superObject, context.tenant)
      ) {
        continue;
      }
      if (superObject !== undefined) total += 1;
      else if (isLost(tenant, kind, object, keyId(key), context)) {
        total += 1;
        uids.push(object.metadata.uid ?? '');
      }
    }
  }
  return { uids, total };
}

/** Whether S of this T would be deleted, because it should not be there. */
function isToGo(kind: DownKind, own: KubeObject, context: SyncContext): boolean {
  const { wanted = true, keep = false } = kind.admit?.(own, context) ?? {};
  return !wanted && !keep;
}

function kindsOf(tenant: TenantState): readonly SyncedKind[] {
  return [...allKinds, ...[...tenant.customKinds.values()].map(({ kind }) => kind)];
}

function isLost(
  tenant: TenantState,
  kind: DownKind | UpKind,
  object: KubeObject,
  id: string,
  context: SyncContext,
): boolean {
  const { uid, deletionTimestamp } = object.metadata;
  if (deletionTimestamp !== undefined) return false;
  const tombstone = tenant.tombstones.super.get(id);
  if (kind.direction === 'up') {
    if (tombstone !== undefined && tombstone.uid === uidMark(object)) return false;
    return kind.superGone === undefined || kind.superGone(object, context).length > 0;
  }
  if (tombstone !== undefined && uidMark(tombstone.object) === uid) return false;
  if (tenant.memory.super.createdUid(id) !== undefined) return false;
  return (kind.superGone?.(object, context) ?? []).length > 0;
}
