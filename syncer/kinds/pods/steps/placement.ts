import type { PodStep } from '../translate.ts';
import type { PodSpec } from '../types.ts';

/**
 * Sync rules 5 and 15: leaves behind what the super cluster decides itself. Its API server refuses a
 * priority that no class of its own gives; ephemeral containers cannot be created with a pod.
 */
export const placement: PodStep = (spec) => {
  const {
    nodeName: _nodeName,
    serviceAccount: _alias,
    priority: _priority,
    priorityClassName: _priorityClassName,
    preemptionPolicy: _preemptionPolicy,
    schedulerName: _schedulerName,
    overhead: _overhead,
    ephemeralContainers: _ephemeralContainers,
    ...rest
  } = spec;
  return rest as PodSpec;
};
