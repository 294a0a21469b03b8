import type { VirtualClusterPolicy } from '../../../api/policy.ts';

/**
 * The policy that limits VirtualClusters of a namespace: one that names it goes before one for `*`, and of
 * several the first by name. Undefined: none does, and the defaults are all that can be had.
 */
export function ceilingOf(
  namespace: string,
  policies: Iterable<VirtualClusterPolicy>,
): VirtualClusterPolicy | undefined {
  let best: VirtualClusterPolicy | undefined;
  for (const policy of policies) {
    if (rank(policy, namespace) === 0) continue;
    if (best === undefined || goesBefore(policy, best, namespace)) best = policy;
  }
  return best;
}

function goesBefore(one: VirtualClusterPolicy, other: VirtualClusterPolicy, namespace: string): boolean {
  const difference = rank(one, namespace) - rank(other, namespace);
  return difference === 0 ? (one.metadata.name ?? '') < (other.metadata.name ?? '') : difference > 0;
}

function rank({ spec }: VirtualClusterPolicy, namespace: string): number {
  if (spec?.namespaces.includes(namespace)) return 2;
  return spec?.namespaces.includes('*') ? 1 : 0;
}
