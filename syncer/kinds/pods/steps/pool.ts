import type { TenantInfo } from '../../context.ts';
import { matches } from '../selectors.ts';
import type { PodStep } from '../translate.ts';
import type { PodSpec } from '../types.ts';

/** Sync rule 15: pods stay on the nodes that the tenant has. */
export const pool: PodStep = (spec, _pod, { tenant }) => {
  if (Object.keys(tenant.nodeSelector).length === 0) return spec;
  return { ...spec, nodeSelector: { ...spec.nodeSelector, ...tenant.nodeSelector } };
};

/** Why none of the tenant's nodes can ever be one for this pod; undefined: one may be. */
export function outsidePool(spec: PodSpec, { nodeSelector }: TenantInfo): string | undefined {
  const own = spec.nodeSelector ?? {};
  for (const [key, value] of Object.entries(nodeSelector)) {
    const asked = own[key];
    if (asked !== undefined && asked !== value)
      return `spec.nodeSelector asks for ${key}=${asked}; the nodes of this cluster have ${key}=${value}`;
  }
  const terms =
    spec.affinity?.nodeAffinity?.requiredDuringSchedulingIgnoredDuringExecution?.nodeSelectorTerms ?? [];
  const isOutside = terms.map(({ matchExpressions = [] }) => {
    const known = matchExpressions.filter(({ key }) => key in nodeSelector);
    return !matches({ matchExpressions: known }, nodeSelector);
  });
  if (isOutside.length === 0 || isOutside.includes(false)) return undefined;
  const nodes = Object.entries(nodeSelector).map(([key, value]) => `${key}=${value}`);
  return `spec.affinity.nodeAffinity asks for other nodes than this cluster has: those with ${nodes.join(', ')}`;
}
