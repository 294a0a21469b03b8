import { ingressClassKind, priorityClassKind, runtimeClassKind, storageClassKind } from './classes.ts';
import { configMapKind, lateConfigMapKind } from './config-maps.ts';
import type { SyncedKind } from './contract.ts';
import { customResourceDefinitionKind } from './custom-resource-definitions.ts';
import { endpointSliceKind } from './endpoint-slices.ts';
import { ingressKind } from './ingresses.ts';
import { namespaceKind } from './namespaces.ts';
import { networkPolicyKind } from './network-policies.ts';
import { nodeKind } from './nodes.ts';
import { persistentVolumeClaimKind } from './persistent-volume-claims.ts';
import { persistentVolumeKind } from './persistent-volumes.ts';
import { podDisruptionBudgetKind } from './pod-disruption-budgets.ts';
import { podKind } from './pods/pods.ts';
import { lateSecretKind, secretKind } from './secrets.ts';
import { serviceAccountKind } from './service-accounts.ts';
import { serviceKind } from './services/services.ts';

/** Every kind that is mirrored. A new one is a file beside this one and a line here. */
export const allKinds: readonly SyncedKind[] = [
  namespaceKind,
  serviceAccountKind,
  configMapKind,
  secretKind,
  persistentVolumeClaimKind,
  networkPolicyKind,
  podDisruptionBudgetKind,
  podKind,
  lateConfigMapKind,
  lateSecretKind,
  serviceKind,
  endpointSliceKind,
  ingressKind,
  persistentVolumeKind,
  storageClassKind,
  priorityClassKind,
  runtimeClassKind,
  ingressClassKind,
  customResourceDefinitionKind,
  nodeKind,
];

/** Whether objects of this kind have no field but their metadata's own that could be called `managedFields`. */
export function hasKnownFields(kind: SyncedKind): boolean {
  return allKinds.includes(kind) && kind !== customResourceDefinitionKind;
}
