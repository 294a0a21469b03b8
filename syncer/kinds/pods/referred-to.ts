import { type Resource, resources } from '../../../kube/index.ts';
import type { KeyRef } from '../action.ts';
import type { SyncContext } from '../context.ts';
import { references } from './references.ts';
import type { Pod } from './types.ts';

const referredKinds: Readonly<Record<string, Resource>> = {
  serviceaccounts: resources.serviceAccounts,
  configmaps: resources.configMaps,
  secrets: resources.secrets,
  persistentvolumeclaims: resources.persistentVolumeClaims,
};

/** What a pod refers to, as far as the tenant has it: a pod may wait for the rest, as on any cluster. */
export function referredTo(pod: Pod, { tenantObjects }: SyncContext): readonly KeyRef[] {
  return references(pod).filter(({ kind, namespace, name }) => {
    const resource = referredKinds[kind];
    return resource !== undefined && tenantObjects.get(resource, { namespace, name }) !== undefined;
  });
}
