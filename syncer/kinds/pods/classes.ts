import { resources } from '../../../kube/index.ts';
import type { SyncContext } from '../../context.ts';
import type { Notice } from '../contract.ts';
import { isOffered } from '../published-kind.ts';
import type { PodSpec } from './types.ts';

/** Kubernetes' own, for what a cluster itself cannot do without. */
const systemPrefix = 'system-';

/**
 * The priority class of the super object: the tenant object's, if it is one that the operator has published. Others are
 * the tenant's own affair, and no pod of a tenant is the super cluster's system.
 */
export function superPriorityClass(
  { priorityClassName = '' }: PodSpec,
  context: SyncContext,
): string | undefined {
  if (priorityClassName === '' || priorityClassName.startsWith(systemPrefix)) return undefined;
  return isOffered(resources.priorityClasses, priorityClassName, context) ? priorityClassName : undefined;
}

/** A notice that the user would not expect otherwise: a pod with a class of its own runs as if it had none. */
export function priorityNotice(spec: PodSpec, context: SyncContext): Notice | undefined {
  const { priorityClassName = '' } = spec;
  if (priorityClassName === '' || priorityClassName.startsWith(systemPrefix)) return undefined;
  if (superPriorityClass(spec, context) !== undefined) return undefined;
  return {
    type: 'Normal',
    reason: 'PriorityClassNotPublished',
    message: `the pod is scheduled without the priority class ${priorityClassName}: it is not one that this cluster offers`,
  };
}

/**
 * The runtime class of the super object: the one that the policy forces on every pod, else the tenant object's, which
 * has to be published.
 */
export function superRuntimeClass(
  { runtimeClassName = '' }: PodSpec,
  { tenant }: SyncContext,
): string | undefined {
  return tenant.policy.runtimeClassName ?? (runtimeClassName === '' ? undefined : runtimeClassName);
}

/** Why the tenant object may not have its runtime class; undefined: it may. */
export function refusedRuntimeClass(spec: PodSpec, context: SyncContext): string | undefined {
  const { runtimeClassName = '' } = spec;
  if (runtimeClassName === '' || context.tenant.policy.runtimeClassName !== undefined) return undefined;
  if (isOffered(resources.runtimeClasses, runtimeClassName, context)) return undefined;
  return `the runtime class ${runtimeClassName} is not one that this cluster offers`;
}
