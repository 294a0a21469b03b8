export { crdManifests } from './crds.ts';
export { type EnsureCrdsOptions, ensureCrds } from './ensure-crds.ts';
export { ApiRoomError, type ApiRoomErrorCode } from './errors.ts';
export {
  type CurrentJob,
  type EndedJob,
  type JobKind,
  type JobStatus,
  jobHistoryLimit,
} from './job-status.ts';
export {
  apiVersion,
  finalizer,
  group,
  idPattern,
  keys,
  kubeconfigKey,
  secretNames,
  validateName,
} from './names.ts';
export {
  daemonSetPolicies,
  type EffectivePolicy,
  type PodSecurityLevel,
  type PolicyWish,
  podSecurityLevels,
} from './policy.ts';
export { validateVirtualCluster } from './validate.ts';
export {
  type DnsChoice,
  type DriverName,
  dnsChoices,
  type VirtualCluster,
  type VirtualClusterPhase,
  type VirtualClusterSpec,
  type VirtualClusterStatus,
} from './virtual-cluster.ts';
export type { VirtualClusterPolicy, VirtualClusterPolicySpec } from './virtual-cluster-policy.ts';
