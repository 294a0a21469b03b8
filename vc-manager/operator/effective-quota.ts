import { defaultQuota, isLimitedResource, type Quota } from '../../api/quota.ts';
import { parseExactQuantity } from '../../kube/index.ts';

export interface QuotaDecision {
  quota: Record<string, string>;
  /** What was requested and is not granted, a clause for each. */
  restrictions: string[];
}

/**
 * How much of each resource a tenant may have: what it asks for, or the default, and never more than the ceiling, which
 * is the default where the ceiling does not name a resource. Without a default and a ceiling, a resource is not limited.
 */
export function effectiveQuota(asked: Quota = {}, ceiling: Quota = {}): QuotaDecision {
  const quota = new Map<string, string>();
  const restrictions: string[] = [];
  const names = new Set([...Object.keys(defaultQuota), ...Object.keys(ceiling), ...Object.keys(asked)]);
  for (const name of [...names].sort()) {
    if (!isLimitedResource(name)) {
      restrictions.push(`quota names ${name.slice(0, 64)}, which is not a resource that is limited`);
      continue;
    }
    const most = own(ceiling, name) ?? own(defaultQuota, name) ?? '*';
    const wanted = own(asked, name);
    const granted = less(wanted ?? own(defaultQuota, name) ?? '*', most);
    if (wanted !== undefined && granted !== wanted)
      restrictions.push(`quota of ${name} is ${granted}, not ${wanted}`);
    if (granted !== '*') quota.set(name, granted);
  }
  return { quota: Object.fromEntries(quota), restrictions };
}

function own(quota: Quota, name: string): string | undefined {
  return Object.hasOwn(quota, name) ? quota[name] : undefined;
}

/** The lesser of two quantities, the first where they are the same; `*` is more than any. What is none is nothing. */
function less(one: string, other: string): string {
  if (one === '*') return other;
  if (other === '*') return one;
  return (parseExactQuantity(one) ?? 0n) <= (parseExactQuantity(other) ?? 0n) ? one : other;
}
