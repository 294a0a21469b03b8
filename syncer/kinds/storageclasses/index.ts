import { deepEqual } from 'fast-equals';
import { type KubeObject, type MergePatch, resources } from '../../../kube/index.ts';
import { copyMetadata, marks } from '../../mapping/index.ts';
import { exactMetadataPatch } from '../copy.ts';
import type { Action, KeyRef, SyncContext, UpKind } from '../kind.ts';
import { isDefaultClass } from './published.ts';

export { defaultClass, isOnItsWay, isPublished } from './published.ts';

const mutableFields = ['allowVolumeExpansion', 'mountOptions', 'allowedTopologies'] as const;
const immutableFields = ['provisioner', 'parameters', 'reclaimPolicy', 'volumeBindingMode'] as const;

/** StorageClass: a copy of each that the operator has published. */
export const storageClassKind: UpKind = {
  name: 'storageclasses',
  resource: resources.storageClasses,
  direction: 'up',
  watchTenant: true,
  superScope: 'all',
  indexes: { tenant: { byDefault: (object) => (isDefaultClass(object) ? ['true'] : []) } },
  touches: { tenant: waitingClaims },
  tenantRef(superObject) {
    const { name, labels } = superObject.metadata;
    return name !== undefined && labels?.[marks.public] === 'true' ? { name } : undefined;
  },
  superRef: ({ name }) => ({ name }),
  toTenant(superObject) {
    return {
      apiVersion: 'storage.k8s.io/v1',
      kind: 'StorageClass',
      metadata: copyMetadata(superObject),
      ...wantedFields(superObject),
    };
  },
  up,
};

/** Claims that may have waited for this class to appear, or for a default. */
function waitingClaims(object: KubeObject, context: SyncContext): readonly KeyRef[] {
  const byClass = (value: string) =>
    context.tenantObjects.byIndex(resources.persistentVolumeClaims, 'byClass', value);
  const claims = [
    ...byClass(`class/${object.metadata.name}`),
    ...(isDefaultClass(object) ? byClass('none') : []),
  ];
  return claims
    .filter((claim) => (claim['spec'] as { volumeName?: string } | undefined)?.volumeName === undefined)
    .map(({ metadata }) => ({
      kind: 'persistentvolumeclaims',
      namespace: metadata.namespace,
      name: metadata.name ?? '',
    }));
}

function wantedFields(superObject: KubeObject): Record<string, unknown> {
  const wanted: Record<string, unknown> = {};
  for (const field of [...immutableFields, ...mutableFields]) {
    if (superObject[field] !== undefined) wanted[field] = superObject[field];
  }
  const parameters = superObject['parameters'] as Record<string, string> | undefined;
  if (parameters !== undefined) {
    const shown = Object.entries(parameters).filter(([key]) => !isCredential(key));
    if (shown.length > 0) wanted['parameters'] = Object.fromEntries(shown);
    else delete wanted['parameters'];
  }
  return wanted;
}

/** Names of Secrets and passwords are the provisioner's business; nothing in the tenant needs them. */
function isCredential(key: string): boolean {
  return /secret|password|userkey|token/i.test(key);
}

function up(tenantObject: KubeObject, superObject: KubeObject): readonly Action[] {
  if (tenantObject.metadata.deletionTimestamp !== undefined) return [];
  const wanted = wantedFields(superObject);
  for (const field of immutableFields) {
    if (!deepEqual(tenantObject[field], wanted[field])) return [{ do: 'deleteTenant' }];
  }
  const patch: MergePatch = { ...exactMetadataPatch(tenantObject, copyMetadata(superObject)) };
  for (const field of mutableFields) {
    if (!deepEqual(tenantObject[field], wanted[field])) patch[field] = wanted[field] ?? null;
  }
  return Object.keys(patch).length === 0 ? [] : [{ do: 'patchTenant', patch }];
}
