export { linkedController, onAbort, runTogether, untilAborted } from './abort.ts';
export { type ShapeProblem, shapeProblems } from './api-shape.ts';
export { Backoff } from './backoff.ts';
export {
  type CallOptions,
  createIfAbsent,
  deleteIfPresent,
  KubeClient,
  type ListOptions,
  serverVersion,
  withClient,
} from './client.ts';
export {
  type Clock,
  type ClockReading,
  elapsedMs,
  readClock,
  repeatUntilAborted,
  systemClock,
} from './clock.ts';
export {
  authorizationOf,
  type CallRecord,
  Connection,
  type ConnectionOptions,
  tlsOptions,
} from './connection.ts';
export {
  ApiError,
  CodedError,
  ConnectionError,
  ignoreNotFound,
  isAlreadyExists,
  isConflict,
  isDeniedByAdmission,
  isForbidden,
  isNotFound,
  isUnauthorized,
  KubeconfigError,
  messageOf,
  printable,
  type Status,
} from './errors.ts';
export { PartPool, StringPool } from './interning.ts';
export { KeyedMutex } from './keyed-mutex.ts';
export {
  connectionFromSecret,
  leaveContext,
  loadKubeconfig,
  mergeKubeconfig,
  parseKubeconfig,
  rememberContext,
  renderKubeconfig,
} from './kubeconfig.ts';
export { type Lease, LeaseElection, microTime } from './lease.ts';
export { applyMergePatch, mergePatch } from './merge-patch.ts';
export { estimateBytes, estimateObjectBytes } from './object-size.ts';
export { formatQuantity, largestQuantity, nano, parseExactQuantity, parseQuantity } from './quantity.ts';
export { isTooLarge, type MemoryHold, type ReadMemory, type ReadMeter } from './read-limits.ts';
export { type ListMeter, Reflector, type ReflectorProblem } from './reflector.ts';
export { apiVersionOf, groupResource, resource, resources } from './resources.ts';
export { findCondition, metaTime, modifyStatus, setCondition } from './status.ts';
export { Store, type StoreEvent } from './store.ts';
export {
  type Condition,
  type ConfigMap,
  decodeSecretData,
  encodeSecretData,
  isRecord,
  type KubeList,
  type KubeObject,
  type MergePatch,
  namespacedName,
  type ObjectMeta,
  type ObjectRef,
  type OwnerReference,
  type Resource,
  type Secret,
  withoutUndefined,
} from './types.ts';
export { Wakeup } from './wakeup.ts';
export { isPartial } from './watch.ts';
