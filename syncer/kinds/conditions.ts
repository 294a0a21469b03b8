import { type Condition, findCondition, isRecord, type KubeObject, setCondition } from '../../kube/index.ts';

const mostConditions = 50;
const mostCharacters = 16_384;

/**
 * Whether a list of conditions of a tenant object is larger than any that means something. A patch that adds one to it, or
 * takes one away, repeats all of it, so there is none.
 */
export function isTooLargeToRepeat(conditions: readonly Condition[]): boolean {
  return conditions.length > mostConditions || JSON.stringify(conditions).length > mostCharacters;
}

/**
 * On a tenant object of a kind that `hasConditions`: `False` while a write of its super object waits for room in the
 * tenant's quota. There is none otherwise.
 */
export const withinQuotaCondition = 'skerry.dev/WithinQuota';

/** A list of conditions as a tenant's server may send it. */
export function conditionsOf({ status }: KubeObject): readonly Condition[] {
  const conditions = isRecord(status) ? status['conditions'] : undefined;
  return Array.isArray(conditions) ? conditions.filter(isRecord as (item: unknown) => item is Condition) : [];
}

/** Merge patch of the status of what has no room, guarded by its resourceVersion; undefined: it says so, or cannot. */
export function overQuotaStatus(
  tenantObject: KubeObject,
  message: string,
  nowMs: number,
): { conditions: Condition[] } | undefined {
  const conditions = conditionsOf(tenantObject);
  const before = findCondition(conditions, withinQuotaCondition);
  if (before?.status === 'False' && isAsMuch(before.message, message)) return undefined;
  if (isTooLargeToRepeat(conditions)) return undefined;
  const wanted = { type: withinQuotaCondition, status: 'False', reason: 'QuotaExceeded', message } as const;
  return { conditions: setCondition(conditions, wanted, new Date(nowMs)) };
}

/** What else is used is another sum each time, and not worth a write. */
function isAsMuch(before: unknown, message: string): boolean {
  return typeof before === 'string' && withoutUsed(before) === withoutUsed(message);
}

function withoutUsed(message: string): string {
  return message.replace(/used: \S+ /, '');
}

/** Merge patch of the status of what waits no longer; undefined: it does not say that it does, or too much beside. */
export function withinQuotaStatus(tenantObject: KubeObject): { conditions: Condition[] } | undefined {
  const conditions = conditionsOf(tenantObject);
  const kept = conditions.filter(({ type }) => type !== withinQuotaCondition);
  return kept.length === conditions.length || isTooLargeToRepeat(kept) ? undefined : { conditions: kept };
}
