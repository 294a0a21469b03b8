import type { Condition } from './types.ts';

export interface WantedCondition {
  type: string;
  status: Condition['status'];
  reason: string;
  message: string;
  observedGeneration?: number;
}

export function findCondition(
  conditions: readonly Condition[] | undefined,
  type: string,
): Condition | undefined {
  return conditions?.find((condition) => condition.type === type);
}

/**
 * The conditions with one of them set; the others and their order stay. `lastTransitionTime` moves
 * only when the status changes. Never changes its argument.
 */
export function setCondition(
  conditions: readonly Condition[] | undefined,
  wanted: WantedCondition,
  now: Date,
): Condition[] {
  const current = findCondition(conditions, wanted.type);
  const since = current?.status === wanted.status ? current.lastTransitionTime : undefined;
  const updated: Condition = {
    ...current,
    ...wanted,
    // metav1.Time has whole seconds: what is written must be what is read back.
    lastTransitionTime: since ?? now.toISOString().replace(/\.\d+Z$/, 'Z'),
  };
  if (current === undefined) return [...(conditions ?? []), updated];
  return (conditions ?? []).map((condition) => (condition === current ? updated : condition));
}
