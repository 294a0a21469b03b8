import { configMapKind } from './configmaps/index.ts';
import { customResourceDefinitionKind } from './custom-resource-definitions.ts';
import { endpointSliceKind } from './endpointslices/index.ts';
import { ingressClassKind } from './ingressclasses/index.ts';
import { ingressKind } from './ingresses/index.ts';
import type { SyncedKind } from './kind.ts';
import { namespaceKind } from './namespaces/index.ts';
import { networkPolicyKind } from './networkpolicies/index.ts';
import { nodeKind } from './nodes/index.ts';
import { persistentVolumeClaimKind } from './persistentvolumeclaims/index.ts';
import { persistentVolumeKind } from './persistentvolumes/index.ts';
import { podDisruptionBudgetKind } from './poddisruptionbudgets/index.ts';
import { podKind } from './pods/index.ts';
import { priorityClassKind } from './priorityclasses/index.ts';
import { runtimeClassKind } from './runtimeclasses/index.ts';
import { secretKind } from './secrets/index.ts';
import { serviceAccountKind } from './serviceaccounts/index.ts';
import { serviceKind } from './services/index.ts';
import { storageClassKind } from './storageclasses/index.ts';
import { tokenKind } from './tokens.ts';

/** Every kind that is synced. A new one is a folder beside this file and a line here. */
export const allKinds: readonly SyncedKind[] = [
  namespaceKind,
  serviceAccountKind,
  configMapKind,
  secretKind,
  persistentVolumeClaimKind,
  networkPolicyKind,
  podDisruptionBudgetKind,
  podKind,
  tokenKind,
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

export type { Action, IssuedToken, KeyRef, Notice, RefusedWrite, TokenAsk } from './action.ts';
export type { Lookup, SyncContext, TenantInfo } from './context.ts';
export {
  type Definition,
  isEstablished,
  preferredVersion,
  resourceOf,
  servedVersion,
  versionsOf,
} from './custom-resource-definitions.ts';
export { type CustomResource, customResourceKind } from './custom-resources.ts';
export type { Admission, DownKind, SyncedKind, UpKind } from './kind.ts';
export { superResourceOf } from './kind.ts';
export { tokenSecretName } from './pod-tokens.ts';
export { isPublished } from './published/index.ts';
