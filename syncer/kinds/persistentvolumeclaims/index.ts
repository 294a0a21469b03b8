import { type KubeObject, type MergePatch, parseQuantity, resources } from '../../../kube/index.ts';
import { superMetadata, superMetadataPatch } from '../../mapping/index.ts';
import type { Action, KeyRef } from '../action.ts';
import type { SyncContext } from '../context.ts';
import type { DownKind } from '../kind.ts';
import { admit, dataSourceOf, requires, wantedClass } from './admit.ts';
import { type ClaimSpec, classKey, specOf, statusOf } from './model.ts';
import { superGone, up } from './up.ts';

/** PersistentVolumeClaim: asks the super cluster for storage of a class that was published to the tenant. */
export const persistentVolumeClaimKind: DownKind = {
  name: 'persistentvolumeclaims',
  resource: resources.persistentVolumeClaims,
  direction: 'down',
  deleteNeedsLiveCheck: true,
  indexes: { tenant: { byClass: (claim) => [classKey(claim)] } },
  touches: { tenant: volumeOf, super: volumeOf },
  admit,
  requires,
  toSuper(tenantObject, context) {
    return {
      apiVersion: 'v1',
      kind: 'PersistentVolumeClaim',
      metadata: superMetadata(tenantObject, context),
      spec: superSpec(tenantObject, context),
    };
  },
  down,
  up,
  superGone,
};

/** The tenant's copy of the volume comes and goes with the claim. */
function volumeOf(claim: KubeObject): readonly KeyRef[] {
  const { volumeName } = specOf(claim);
  return volumeName === undefined ? [] : [{ kind: 'persistentvolumes', name: volumeName }];
}

function superSpec(tenantObject: KubeObject, context: SyncContext): ClaimSpec {
  const { accessModes, resources: amounts, volumeMode, selector } = specOf(tenantObject);
  const storageClassName = wantedClass(tenantObject, context);
  const source = dataSourceOf(tenantObject);
  return {
    ...(accessModes === undefined ? {} : { accessModes }),
    ...(amounts === undefined ? {} : { resources: amounts }),
    ...(storageClassName === undefined ? {} : { storageClassName }),
    ...(volumeMode === undefined ? {} : { volumeMode }),
    ...(selector === undefined ? {} : { selector }),
    ...(source === undefined ? {} : { dataSource: { kind: source.kind, name: source.name } }),
  };
}

function down(tenantObject: KubeObject, superObject: KubeObject, context: SyncContext): readonly Action[] {
  const metadata = superMetadataPatch(tenantObject, superObject, context);
  const storage = wantedStorage(tenantObject, superObject);
  if (metadata === undefined && storage === undefined) return [];
  const patch: MergePatch = {
    ...metadata,
    ...(storage === undefined ? {} : { spec: { resources: { requests: { storage } } } }),
  };
  return [{ do: 'patchSuper', patch }];
}

/**
 * What S has to ask for instead of what it does: more, or, when an expansion failed, less but still
 * more than there is.
 */
function wantedStorage(tenantObject: KubeObject, superObject: KubeObject): string | undefined {
  const text = specOf(tenantObject).resources?.requests?.['storage'];
  const wanted = parseQuantity(text);
  const present = parseQuantity(specOf(superObject).resources?.requests?.['storage']);
  const { phase, capacity } = statusOf(superObject);
  if (wanted === undefined || present === undefined || wanted === present || phase !== 'Bound')
    return undefined;
  if (wanted > present) return text;
  return wanted > (parseQuantity(capacity?.['storage']) ?? Number.POSITIVE_INFINITY) ? text : undefined;
}
