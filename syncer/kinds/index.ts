import { configMapKind } from './configmaps/index.ts';
import { endpointSliceKind } from './endpointslices/index.ts';
import { eventKind } from './events/index.ts';
import type { SyncedKind } from './kind.ts';
import { namespaceKind } from './namespaces/index.ts';
import { nodeKind } from './nodes/index.ts';
import { persistentVolumeClaimKind } from './persistentvolumeclaims/index.ts';
import { persistentVolumeKind } from './persistentvolumes/index.ts';
import { podKind } from './pods/index.ts';
import { secretKind } from './secrets/index.ts';
import { serviceAccountKind } from './serviceaccounts/index.ts';
import { serviceKind } from './services/index.ts';
import { storageClassKind } from './storageclasses/index.ts';

/** Every kind that is synced. A new one is a folder beside this file and a line here. */
export const allKinds: readonly SyncedKind[] = [
  namespaceKind,
  serviceAccountKind,
  configMapKind,
  secretKind,
  persistentVolumeClaimKind,
  podKind,
  serviceKind,
  endpointSliceKind,
  persistentVolumeKind,
  storageClassKind,
  nodeKind,
  eventKind,
];

export type {
  Action,
  Admission,
  DownKind,
  KeyRef,
  Lookup,
  Notice,
  RefusedWrite,
  SyncContext,
  SyncedKind,
  TenantInfo,
  TenantPolicy,
  UpKind,
} from './kind.ts';
export { defaultPolicy } from './kind.ts';
