import type { VirtualCluster } from './virtual-cluster.ts';

/** Types of the conditions of a VirtualCluster that vc-manager writes. Of others it touches `Synced` alone, see `noSyncerReason`. */
export type ManagerConditionType =
  | 'ServiceSliceReady'
  | 'CertificatesReady'
  | 'DatastoreReady'
  | 'DatastoreWithinQuota'
  | 'APIServerReady'
  | 'ControllerManagerReady'
  | 'PolicyLimited'
  | 'DNSReady'
  | 'VersionCurrent'
  | 'SnapshotTaken'
  | 'Placed'
  | 'Ready';

/** Types of the conditions of a VirtualCluster that the syncer writes. */
export type SyncerConditionType =
  | 'Synced'
  | 'IdentityMismatch'
  | 'DeletionHeld'
  | 'NetworkPoliciesEnforced'
  | 'TenantsIsolated'
  | 'CustomResourcesSynced';

/** Of `Synced`, which is `Unknown` then: vc-manager sees no syncer. The only condition of the syncer's that it writes. */
export const noSyncerReason = 'NoSyncer';

/** Of `NetworkPoliciesEnforced` and `TenantsIsolated`: nothing is known to act on NetworkPolicies. */
export const noEngineReason = 'NoEngine';

/** Of `TenantsIsolated`: the operator wants it so. */
export const switchedOffReason = 'SwitchedOff';

/** Of both, which are `Unknown` then: the syncer could not look yet, and makes no new pods of isolated tenants. */
export const superClusterUnknownReason = 'SuperClusterUnknown';

/** Reason of the condition `Synced` by which the syncer says that it has left the tenant for good. */
export const leftReason = 'Left';

/** Whether the syncer has taken the tenant up, as it says before it writes anything, and has not said that it has left. */
export function isJoined({ status }: VirtualCluster): boolean {
  const synced = status?.conditions?.find(({ type }) => type === 'Synced');
  return synced !== undefined && synced.reason !== leftReason;
}

/** Whether the manager waits for the syncer to leave this tenant before it removes its control plane. */
export function isWaitingForSyncer(vc: VirtualCluster): boolean {
  const isLeaving = vc.metadata.deletionTimestamp !== undefined || vc.status?.phase === 'Deleting';
  return isLeaving && isJoined(vc);
}

/** Of `Ready`: programs of the tenant's version are being downloaded or built, which may take many minutes. */
export const fetchingReason = 'FetchingPrograms';

/** What the message begins with then; of a tenant that runs it is the message of its job. */
export const fetchingText = 'Fetching Kubernetes';

/** Of `Ready`: the namespace has as many VirtualClusters as its policy allows. */
export const tooManyVirtualClustersReason = 'TooManyVirtualClusters';

/** Whether a tenant waits until another of its namespace is gone or its policy allows more. */
export function isOverVirtualClusterLimit({ status }: VirtualCluster): boolean {
  return status?.conditions?.find(({ type }) => type === 'Ready')?.reason === tooManyVirtualClustersReason;
}

/** Whether programs for a tenant are being downloaded or built. */
export function isFetching({ status }: VirtualCluster): boolean {
  const ready = status?.conditions?.find(({ type }) => type === 'Ready');
  return (
    ready?.reason === fetchingReason || status?.jobs?.current?.message?.startsWith(fetchingText) === true
  );
}
