import { findCondition } from '../../../kube/index.ts';
import type { Pod } from './types.ts';

/** How long the node has for its first word on a pod; times of conditions are whole seconds, so at least one. */
const firstWordMs = 2_000;

/**
 * How long T's status may wait, because all that is new in S's is that a node was found: T has learned that by
 * its own Binding, and what the node says next comes within a moment and takes the same write. 0: no reason to.
 */
export function restBeforeFirstWord(superPod: Pod, nowMs: number): number {
  const { phase, conditions, podIP, containerStatuses, initContainerStatuses, reason, message } =
    superPod.status ?? {};
  if (phase !== 'Pending') return 0;
  const said = [podIP, containerStatuses, initContainerStatuses, reason, message];
  if (said.some((part) => part !== undefined)) return 0;
  const scheduled = findCondition(conditions, 'PodScheduled');
  if (scheduled?.status !== 'True') return 0;
  const restMs = Date.parse(String(scheduled.lastTransitionTime)) + firstWordMs - nowMs;
  // Clocks that disagree must not make it wait.
  return restMs > 0 && restMs <= firstWordMs ? restMs : 0;
}
