import { isControlPlaneName } from '../control-plane-names.ts';
import { invalidName } from '../errors.ts';

/** On everything of a control plane and on its namespace: its id. By it alone they are known as ours. */
export const idLabel = 'skerry.dev/id';
/** On what belongs to one component: its name. */
export const componentLabel = 'skerry.dev/component';
/** On a pod template: what its files were, so that others make new pods. */
export const filesHashAnnotation = 'skerry.dev/files-hash';
/** On a StatefulSet: the components that it needs. */
export const dependsOnAnnotation = 'skerry.dev/depends-on';
/** On the namespace: which VirtualCluster it is for, for people. */
export const virtualClusterAnnotation = 'skerry.dev/virtualcluster';

export const fieldManager = 'skerry-vc-manager';

export const apiServer = 'kube-apiserver';
export const datastore = 'etcd';
/** Where people and the tenant's pods expect an API server. */
export const apiServerPort = 443;

const prefix = 'skerry-tenant-';

/** The namespace that a control plane has to itself. Throws `InvalidName`. */
export function namespaceOf(id: string): string {
  const name = `${prefix}${id}`;
  if (!isControlPlaneName(id) || !isControlPlaneName(name)) throw invalidName('control plane', id);
  return name;
}

export function filesSecretOf(component: string): string {
  return `${component}-files`;
}

export function labelsOf(id: string, component?: string): Record<string, string> {
  return {
    'app.kubernetes.io/managed-by': 'skerry',
    [idLabel]: id,
    ...(component === undefined ? {} : { [componentLabel]: component, 'app.kubernetes.io/name': component }),
  };
}

export function isNamespaceOf(id: string, name: string | undefined): boolean {
  try {
    return namespaceOf(id) === name;
  } catch {
    return false;
  }
}
