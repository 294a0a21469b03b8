/**
 * Types of pod conditions that kubelet, scheduler and controllers of Kubernetes set themselves. A readiness gate of that
 * name would have the syncer write what they write.
 * https://github.com/kubernetes/kubernetes/blob/v1.36.3/staging/src/k8s.io/api/core/v1/types.go (PodConditionType)
 */
export const ownedConditionTypes: ReadonlySet<string> = new Set([
  'AllContainersRestarting',
  'ContainersReady',
  'DisruptionTarget',
  'Initialized',
  'PodReadyToStartContainers',
  'PodResizeInProgress',
  'PodResizePending',
  'PodScheduled',
  'Ready',
]);
