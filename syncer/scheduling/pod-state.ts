import type { Condition, KubeObject } from '../../kube/index.ts';

/**
 * What the super cluster's scheduler has to do with a pod.
 *
 * - `waiting`: it has yet to look at it.
 * - `placed`: it has a node.
 * - `refused`: it was looked at, and no node would do, or something holds it back; looked at again some time.
 * - `none`: nothing (any more): the pod has ended, is on its way out, or another scheduler looks after it.
 */
export type PodState = 'waiting' | 'placed' | 'refused' | 'none';

interface SchedulingFields extends KubeObject {
  spec?: { nodeName?: string; schedulerName?: string };
  status?: { phase?: string; conditions?: Condition[] };
}

export function podStateOf(superPod: KubeObject): PodState {
  const { metadata, spec, status } = superPod as SchedulingFields;
  if ((spec?.nodeName ?? '') !== '') return 'placed';
  if (metadata.deletionTimestamp !== undefined || !isWindowed(superPod)) return 'none';
  if (status?.phase === 'Succeeded' || status?.phase === 'Failed') return 'none';
  for (const { type, status: is } of status?.conditions ?? [])
    if (type === 'PodScheduled' && is === 'False') return 'refused';
  return 'waiting';
}

/** Whether the pod goes to the scheduler that the window guards. Others have queues, and orders, of their own. */
export function isWindowed(pod: KubeObject): boolean {
  const { schedulerName = '' } = (pod as SchedulingFields).spec ?? {};
  return schedulerName === '' || schedulerName === 'default-scheduler';
}
