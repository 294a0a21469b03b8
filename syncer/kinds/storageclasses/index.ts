import { type KubeObject, resources } from '../../../kube/index.ts';
import type { KeyRef } from '../action.ts';
import type { SyncContext } from '../context.ts';
import { isOffered, isOnItsWay, publishedKind } from '../published/index.ts';
import { isDefaultClass } from './default-class.ts';

export { defaultClass } from './default-class.ts';

/** StorageClass: a copy of each that the operator has published. */
export const storageClassKind = publishedKind({
  resource: resources.storageClasses,
  fields: [
    'provisioner',
    'parameters',
    'reclaimPolicy',
    'volumeBindingMode',
    'allowVolumeExpansion',
    'mountOptions',
    'allowedTopologies',
  ],
  frozen: ['provisioner', 'parameters', 'reclaimPolicy', 'volumeBindingMode'],
  shown({ parameters, ...rest }) {
    const shown = Object.entries(parameters ?? {}).filter(([key]) => !isCredential(key));
    return shown.length === 0 ? rest : { ...rest, parameters: Object.fromEntries(shown) };
  },
  indexes: { tenant: { byDefault: (object) => (isDefaultClass(object) ? ['true'] : []) } },
  touches: { tenant: waitingClaims },
});

/** Whether a claim that names this class means one that the operator has published. */
export function isOfferedClass(name: string, context: SyncContext): boolean {
  return isOffered(resources.storageClasses, name, context);
}

/** Whether the operator offers this class and the tenant's copy of it is still on its way. */
export function isClassOnItsWay(name: string, context: SyncContext): boolean {
  return isOnItsWay(resources.storageClasses, name, context);
}

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

/** Names of Secrets and passwords are the provisioner's business; nothing in the tenant needs them. */
function isCredential(key: string): boolean {
  return /secret|password|userkey|token/i.test(key);
}
