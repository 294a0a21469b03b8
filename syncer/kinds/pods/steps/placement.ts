import { superPriorityClass, superRuntimeClass } from '../classes.ts';
import type { PodStep } from '../translate.ts';
import type { PodSpec } from '../types.ts';

/**
 * Sync rules 5 and 15: leaves behind what the super cluster decides itself. Its API server refuses a
 * priority and an overhead that no class of its own gives, and takes those of a class from there.
 * Ephemeral containers cannot be created with a pod.
 */
export const placement: PodStep = (spec, _pod, context) => {
  const {
    nodeName: _nodeName,
    serviceAccount: _alias,
    priority: _priority,
    priorityClassName: _priorityClassName,
    preemptionPolicy: _preemptionPolicy,
    runtimeClassName: _runtimeClassName,
    schedulerName = '',
    overhead: _overhead,
    ephemeralContainers: _ephemeralContainers,
    ...rest
  } = spec;
  const priorityClassName = superPriorityClass(spec, context);
  const runtimeClassName = superRuntimeClass(spec, context);
  const { schedulerNames } = context.tenant.policy;
  const placed: PodSpec = {
    ...rest,
    ...(priorityClassName === undefined ? {} : { priorityClassName }),
    ...(runtimeClassName === undefined ? {} : { runtimeClassName }),
    ...(schedulerNames.includes(schedulerName) ? { schedulerName } : {}),
  };
  return placed;
};
