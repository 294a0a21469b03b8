import { type KubeObject, resources } from '../../kube/index.ts';
import type { KeyRef, SyncContext } from './contract.ts';
import { ingressesOfClass } from './ingresses.ts';
import { isOffered, isOnItsWay, isPublished, publishedKind } from './published-kind.ts';

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
    .filter((original) => isPublished(original) && original.metadata.name !== object.metadata.name)
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
  touches: { tenant: ingressesOfClass },
  shown({ spec }) {
    const { controller } = (spec ?? {}) as { controller?: string };
    return { spec: controller === undefined ? {} : { controller } };
  },
});

/** The tenant's default class; of several, the youngest, as the API server chooses. */
export function defaultClass(context: SyncContext): string | undefined {
  const classes = context.tenantObjects.byIndex(resources.storageClasses, 'byDefault', 'true');
  const [youngest] = classes.toSorted((a, b) => compareAge(b, a) || compareNames(a, b));
  return youngest?.metadata.name;
}

function isDefaultClass(object: KubeObject): boolean {
  const { annotations } = object.metadata;
  return (
    annotations?.['storageclass.kubernetes.io/is-default-class'] === 'true' ||
    annotations?.['storageclass.beta.kubernetes.io/is-default-class'] === 'true'
  );
}

function compareAge(a: KubeObject, b: KubeObject): number {
  return Date.parse(a.metadata.creationTimestamp ?? '') - Date.parse(b.metadata.creationTimestamp ?? '');
}

function compareNames(a: KubeObject, b: KubeObject): number {
  return (a.metadata.name ?? '') < (b.metadata.name ?? '') ? -1 : 1;
}

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
