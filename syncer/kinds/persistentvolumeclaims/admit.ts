import { type KubeObject, resources } from '../../../kube/index.ts';
import { isOurs, superNamespaceName, uidMark } from '../../mapping/index.ts';
import type { KeyRef, Notice } from '../action.ts';
import type { SyncContext } from '../context.ts';
import type { Admission } from '../kind.ts';
import { defaultClass, isClassOnItsWay, isOfferedClass } from '../storageclasses/index.ts';
import { classOf, type DataSource, specOf } from './model.ts';

/**
 * Whether a claim goes down. One that is there already stays, whatever its class or the tenant's edits
 * have become: there may be data behind it.
 */
export function admit(tenantObject: KubeObject, context: SyncContext): Admission {
  const { volumeName } = specOf(tenantObject);
  const there = superClaimOf(tenantObject, context);
  if (
    volumeName !== undefined &&
    volumeName !== (there === undefined ? undefined : specOf(there).volumeName)
  ) {
    return refused(
      'NotAllowed',
      'a claim cannot choose its volume (spec.volumeName); name a storage class instead',
    );
  }
  if (there !== undefined) return { wanted: true };

  const name = wantedClass(tenantObject, context);
  if (name === undefined) {
    return refused('NoStorageClass', 'the claim names no storage class, and none is the default here');
  }
  if (!isOfferedClass(name, context) && !isClassOnItsWay(name, context)) {
    return refused('StorageClassNotPublished', `storage class "${name}" is not one that this cluster offers`);
  }
  const source = dataSourceOf(tenantObject);
  if (source !== undefined && !isOwnClaim(source, tenantObject)) {
    return refused('NotSupported', 'only another claim of the same namespace can be a data source');
  }
  return { wanted: true };
}

/** The claim that S is to be filled from, and the tenant's copy of the class, which right after joining is on its way. */
export function requires(tenantObject: KubeObject, context: SyncContext): readonly KeyRef[] {
  const keys: KeyRef[] = [];
  const source = dataSourceOf(tenantObject);
  const { namespace } = tenantObject.metadata;
  if (source !== undefined) keys.push({ kind: 'persistentvolumeclaims', namespace, name: source.name });
  const name = wantedClass(tenantObject, context);
  if (name !== undefined && isClassOnItsWay(name, context)) keys.push({ kind: 'storageclasses', name });
  return keys;
}

function refused(reason: string, message: string): Admission {
  const notice: Notice = { type: 'Warning', reason, message };
  return { wanted: false, keep: true, notice };
}

/** The class that S is to name: T's, or the default of the tenant, never the super cluster's own choice. */
export function wantedClass(tenantObject: KubeObject, context: SyncContext): string | undefined {
  return classOf(tenantObject) ?? defaultClass(context);
}

export function dataSourceOf(tenantObject: KubeObject): DataSource | undefined {
  const { dataSource, dataSourceRef } = specOf(tenantObject);
  return dataSourceRef ?? dataSource;
}

function isOwnClaim(source: DataSource, tenantObject: KubeObject): boolean {
  const namespace = source.namespace ?? tenantObject.metadata.namespace;
  return (
    source.kind === 'PersistentVolumeClaim' &&
    (source.apiGroup ?? '') === '' &&
    namespace === tenantObject.metadata.namespace
  );
}

/** S of this very T, as the cache shows it. */
function superClaimOf(tenantObject: KubeObject, context: SyncContext): KubeObject | undefined {
  const { namespace = '', name = '', uid } = tenantObject.metadata;
  const ref = { namespace: superNamespaceName(context.tenant, namespace), name };
  const there = context.superObjects.get(resources.persistentVolumeClaims, ref);
  if (there === undefined || !isOurs(there, context.tenant) || uidMark(there) !== uid) return undefined;
  return there;
}
