import { type KubeObject, resources } from '../../../kube/index.ts';
import { marks, uidMark } from '../../mapping/index.ts';
import type { SyncContext } from '../kind.ts';

/**
 * Whether a claim that names this class means one that the operator has published: the tenant's object
 * is the copy of it. Both sides are asked, as the tenant can write any mark on an object of its own.
 */
export function isPublished(name: string, context: SyncContext): boolean {
  const copy = context.tenantObjects.get(resources.storageClasses, { name });
  const original = context.superObjects.get(resources.storageClasses, { name });
  return (
    copy !== undefined &&
    original?.metadata.labels?.[marks.public] === 'true' &&
    uidMark(copy) === original.metadata.uid
  );
}

/** Whether the operator offers this class and the tenant's copy of it is still on its way. */
export function isOnItsWay(name: string, context: SyncContext): boolean {
  const original = context.superObjects.get(resources.storageClasses, { name });
  return (
    original?.metadata.labels?.[marks.public] === 'true' &&
    context.tenantObjects.get(resources.storageClasses, { name }) === undefined
  );
}

/** The tenant's default class; of several, the youngest, as the API server chooses. */
export function defaultClass(context: SyncContext): string | undefined {
  const classes = context.tenantObjects.byIndex(resources.storageClasses, 'byDefault', 'true');
  const [youngest] = classes.toSorted((a, b) => compareAge(b, a) || compareNames(a, b));
  return youngest?.metadata.name;
}

export function isDefaultClass(object: KubeObject): boolean {
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
