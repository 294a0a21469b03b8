import { type KubeObject, resources } from '../../../kube/index.ts';
import type { SyncContext } from '../context.ts';

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
