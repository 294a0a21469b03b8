import { type Condition, findCondition, type KubeObject } from '../../../kube/index.ts';

interface BudgetStatus {
  observedGeneration?: number;
  desiredHealthy?: number;
  expectedPods?: number;
  conditions?: Condition[];
}

/** More than there will ever be, so that no disruption is allowed. */
export const all = 2_147_483_647;

/**
 * How many pods have to stay healthy, in S. Pods of the super cluster have no owners there, so a share of
 * them cannot be computed from S: the tenant's disruption controller has done so. Where it has not yet, or
 * has failed, or has found nobody who keeps up a number of pods, its API server allows no eviction; nor does S.
 */
export function minAvailable({ metadata, status }: KubeObject): number {
  const {
    observedGeneration = 0,
    desiredHealthy,
    expectedPods = 0,
    conditions,
  } = (status ?? {}) as BudgetStatus;
  if (desiredHealthy === undefined || observedGeneration < (metadata.generation ?? 0)) return all;
  if (expectedPods <= 0) return all;
  return findCondition(conditions ?? [], 'DisruptionAllowed')?.reason === 'SyncFailed' ? all : desiredHealthy;
}
