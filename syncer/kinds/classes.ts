import { type KubeObject, resources } from '../../kube/index.ts';
import type { KeyRef, SyncContext } from '../context.ts';
import { isDefaultStorageClass, isPublishedTo, publishedKind } from './published-kind.ts';
import { referenceId, referencesIndex } from './references.ts';

/**
 * PriorityClass: a copy of each that the operator has published. Nothing in a tenant preempts by it: value and
 * policy are there to be read, the super cluster fills them in for the super object from its own class of that name.
 */
export const priorityClassKind = publishedKind({
  resource: resources.priorityClasses,
  fields: ['value', 'globalDefault', 'description', 'preemptionPolicy'],
  frozen: ['value', 'preemptionPolicy'],
  // Every API server makes these itself, and reserves names like them.
  offers: (name) => !name.startsWith('system-'),
  shown(fields, superObject, context) {
    const { globalDefault, ...rest } = fields;
    return globalDefault === true && !hasOtherDefault(superObject, context) ? fields : rest;
  },
  indexes: { tenant: { byDefault }, super: { byDefault } },
  touches: { tenant: waitingDefaults },
});

/** API servers have one default class at most: while the tenant has chosen another, ours steps back. */
function hasOtherDefault(superObject: KubeObject, context: SyncContext): boolean {
  return context.tenantObjects
    .byIndex(resources.priorityClasses, 'byDefault', 'true')
    .some(({ metadata }) => metadata.name !== superObject.metadata.name);
}

/** The published default may have waited for this class to be the default no longer. */
function waitingDefaults(object: KubeObject, context: SyncContext): readonly KeyRef[] {
  if (object['globalDefault'] !== true) return [];
  return context.superObjects
    .byIndex(resources.priorityClasses, 'byDefault', 'true')
    .filter(
      (original) =>
        isPublishedTo(resources.priorityClasses, original, context) &&
        original.metadata.name !== object.metadata.name,
    )
    .map(({ metadata }) => ({ kind: resources.priorityClasses.plural, name: metadata.name ?? '' }));
}

function byDefault(object: KubeObject): readonly string[] {
  return object['globalDefault'] === true ? ['true'] : [];
}

/**
 * RuntimeClass: a copy of each that the operator has published. Its `scheduling` stays behind: it speaks of the
 * super cluster's nodes, which adds it to the super object itself. In the tenant object it would only make pods that
 * go out of date.
 */
export const runtimeClassKind = publishedKind({
  resource: resources.runtimeClasses,
  fields: ['handler', 'overhead', 'scheduling'],
  frozen: ['handler'],
  shown: ({ scheduling: _scheduling, ...rest }) => rest,
});

/**
 * IngressClass: a copy of each that the operator has published. Its parameters are objects of the super
 * cluster, and stay there.
 */
export const ingressClassKind = publishedKind({
  resource: resources.ingressClasses,
  fields: ['spec'],
  frozen: ['spec.controller'],
  shown({ spec }) {
    const { controller } = (spec ?? {}) as { controller?: string };
    return { spec: controller === undefined ? {} : { controller } };
  },
});

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
  indexes: { tenant: { byDefault: (object) => (isDefaultStorageClass(object) ? ['true'] : []) } },
  touches: { tenant: claimsOfDefault },
});

/** Claims without a class get the default one: they refer to it by an empty name. */
function claimsOfDefault(object: KubeObject, { tenantObjects }: SyncContext): readonly KeyRef[] {
  if (!isDefaultStorageClass(object)) return [];
  const id = referenceId({ kind: resources.storageClasses.plural, name: '' });
  return tenantObjects
    .byIndex(resources.persistentVolumeClaims, referencesIndex, id)
    .map(({ metadata: { namespace, name = '' } }) => ({ kind: 'persistentvolumeclaims', namespace, name }));
}

/** Names of Secrets and passwords are the provisioner's business; nothing in the tenant needs them. */
function isCredential(key: string): boolean {
  return /secret|password|userkey|token/i.test(key);
}
