export { onAbort } from './abort.ts';
export { Backoff, type BackoffOptions } from './backoff.ts';
export { type CallOptions, KubeClient, type PatchType } from './client.ts';
export { type Clock, systemClock } from './clock.ts';
export { CodedError } from './coded-error.ts';
export { findCondition, setCondition, type WantedCondition } from './conditions.ts';
export { type CallRecord, Connection, type ConnectionOptions, type Verb } from './connection.ts';
export {
  ApiError,
  ConnectionError,
  isAlreadyExists,
  isConflict,
  isForbidden,
  isNotFound,
  isUnauthorized,
  KubeconfigError,
  type Status,
  type StatusCause,
} from './errors.ts';
export { elapsedMs, type Instant, instantOf } from './instant.ts';
export {
  connectionFromSecret,
  type Kubeconfig,
  mergeKubeconfig,
  parseKubeconfig,
  type RenderedKubeconfig,
  renderKubeconfig,
} from './kubeconfig.ts';
export { loadKubeconfig } from './kubeconfig-files.ts';
export { type Lease, LeaseElection, type LeaseOptions, microTime } from './lease.ts';
export type { ListOptions } from './list.ts';
export { applyMergePatch, mergePatch } from './merge-patch.ts';
export { parseQuantity } from './quantity.ts';
export { Reflector, type ReflectorOptions, type ReflectorProblem } from './reflector.ts';
export { apiVersionOf, resource, resources } from './resources.ts';
export { Store, type StoreEvent, type StoreOptions } from './store.ts';
export type {
  Condition,
  KubeList,
  KubeObject,
  MergePatch,
  ObjectMeta,
  ObjectRef,
  OwnerReference,
  Resource,
} from './types.ts';
export { modifyStatus } from './update-status.ts';
export type { WatchEvent, WatchOptions } from './watch.ts';
