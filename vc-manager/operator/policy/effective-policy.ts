import {
  defaultPolicy,
  type EffectivePolicy,
  type PodSecurityLevel,
  podSecurityLevels,
  type VirtualClusterPolicy,
  type VirtualClusterPolicySpec,
} from '../../../api/policy.ts';
import type { VirtualClusterSpec } from '../../../api/virtual-cluster.ts';
import { coversHost, coversRange, namesIt } from './covers.ts';

export interface PolicyQuestion {
  /** What the VirtualCluster asks for. */
  wish: Pick<VirtualClusterSpec, 'policy' | 'nodes' | 'weight'>;
  /** What limits it; undefined: the defaults. */
  ceiling: VirtualClusterPolicy | undefined;
  /** Whether the runtime class that it asks for is one that every tenant may use. */
  isPublishedRuntimeClass: boolean;
}

export interface PolicyAnswer {
  policy: EffectivePolicy;
  /** What was asked for and is not granted, one sentence part each. */
  cuts: string[];
}

/**
 * What a tenant may: its wish, cut to its ceiling. Nobody gets what they did not ask for, but for what
 * tightens: a stricter Pod Security level, a forced runtime class, a pool of nodes, hidden nodes.
 */
export function effectivePolicy({ wish, ceiling, isPublishedRuntimeClass }: PolicyQuestion): PolicyAnswer {
  const asked = wish.policy ?? {};
  const limit: Partial<VirtualClusterPolicySpec> = ceiling?.spec ?? {};
  const cuts: string[] = [];
  const podSecurity = stricter(
    asked.podSecurity ?? defaultPolicy.podSecurity,
    limit.podSecurity ?? defaultPolicy.podSecurity,
  );
  if (asked.podSecurity !== undefined && podSecurity !== asked.podSecurity)
    cuts.push(`podSecurity is ${podSecurity}, not ${asked.podSecurity}`);
  const granted = (field: 'externalIPs' | 'loadBalancerOptions'): boolean => {
    if (asked[field] === true && limit[field] !== true) cuts.push(`${field} is false`);
    return asked[field] === true && limit[field] === true;
  };
  const among = <T extends string>(
    field: string,
    wanted: readonly T[] = [],
    isAllowed: (item: T) => boolean,
  ): T[] => {
    const refused = wanted.filter((item) => !isAllowed(item));
    if (refused.length > 0) cuts.push(`${field} is without ${refused.join(', ')}`);
    return wanted.filter(isAllowed);
  };
  if (asked.daemonSets === 'allow' && limit.daemonSets !== 'allow') cuts.push('daemonSets is deny');
  const runtimeClassName = runtimeClass(
    asked.runtimeClassName,
    limit.runtimeClassName,
    isPublishedRuntimeClass,
  );
  if (asked.runtimeClassName !== undefined && runtimeClassName !== asked.runtimeClassName) {
    cuts.push(
      runtimeClassName === undefined
        ? `runtimeClassName is not set, as ${asked.runtimeClassName} is not published (skerry.dev/public=true)`
        : `runtimeClassName is ${runtimeClassName}, not ${asked.runtimeClassName}`,
    );
  }
  const weight = Math.min(wish.weight ?? 1, limit.maxWeight ?? Number.POSITIVE_INFINITY);
  if (wish.weight !== undefined && weight !== wish.weight)
    cuts.push(`weight is ${weight}, not ${wish.weight}`);
  const policy: EffectivePolicy = {
    ...(ceiling?.metadata.name === undefined ? {} : { ceiling: ceiling.metadata.name }),
    podSecurity,
    daemonSets: asked.daemonSets === 'allow' && limit.daemonSets === 'allow' ? 'allow' : 'deny',
    volumeTypes: among('volumeTypes', asked.volumeTypes, (type) => namesIt(limit.volumeTypes ?? [], type)),
    schedulerNames: among('schedulerNames', asked.schedulerNames, (name) =>
      namesIt(limit.schedulerNames ?? [], name),
    ),
    ...(runtimeClassName === undefined ? {} : { runtimeClassName }),
    externalIPs: granted('externalIPs'),
    loadBalancerOptions: granted('loadBalancerOptions'),
    endpointCIDRs: among('endpointCIDRs', asked.endpointCIDRs, (range) =>
      coversRange(limit.endpointCIDRs ?? [], range),
    ),
    ingressHosts: among('ingressHosts', asked.ingressHosts, (host) =>
      coversHost(limit.ingressHosts ?? [], host),
    ),
    nodeSelector: { ...wish.nodes?.selector, ...limit.nodeSelector },
    hideNodes: wish.nodes?.hidden === true || limit.hideNodes === true,
    weight,
  };
  for (const [key, value] of Object.entries(limit.nodeSelector ?? {})) {
    const wanted = wish.nodes?.selector?.[key];
    if (wanted !== undefined && wanted !== value)
      cuts.push(`nodeSelector has ${key}=${value}, not ${wanted}`);
  }
  return { policy, cuts };
}

function stricter(one: PodSecurityLevel, other: PodSecurityLevel): PodSecurityLevel {
  return podSecurityLevels.indexOf(one) > podSecurityLevels.indexOf(other) ? one : other;
}

/** A forced one wins; else a tenant may force upon itself what each of its pods could ask for. */
function runtimeClass(
  asked: string | undefined,
  forced: string | undefined,
  isPublished: boolean,
): string | undefined {
  return forced ?? (isPublished ? asked : undefined);
}
