import { type KubeObject, resources } from '../../../kube/index.ts';
import type { KeyRef } from '../action.ts';
import type { SyncContext } from '../context.ts';
import { isPublished, publishedKind } from '../published/index.ts';

/**
 * PriorityClass: a copy of each that the operator has published. Nothing in a tenant preempts by it: value and
 * policy are there to be read, the super cluster fills them in for S from its own class of that name.
 */
export const priorityClassKind = publishedKind({
  resource: resources.priorityClasses,
  fields: ['value', 'globalDefault', 'description', 'preemptionPolicy'],
  frozen: ['value', 'preemptionPolicy'],
  // Every API server makes these itself, and lets nobody else have a name like them.
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
