import { isIP } from 'node:net';
import ipaddr from 'ipaddr.js';
import { defaultPolicy, defaultQuota } from '../../api/default-policy.ts';
import {
  type EffectivePolicy,
  type PodSecurityLevel,
  podSecurityLevels,
  type RestrictingList,
  type VirtualClusterPolicy,
  type VirtualClusterPolicySpec,
} from '../../api/policy.ts';
import { isPortRangeListed, isRepositoryListed, isTaintKeyListed } from '../../api/policy-lists.ts';
import { isLimitedResource, type Quota } from '../../api/quota.ts';
import type { VirtualClusterSpec } from '../../api/virtual-cluster.ts';
import { parseExactQuantity } from '../../kube/index.ts';

/**
 * The policy that limits VirtualClusters of a namespace: one that names it goes before one for `*`, and of
 * several the first by name. Undefined: none does, and the defaults are the limit.
 */
export function limitingPolicy(
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

interface PolicyInput {
  /** What the VirtualCluster asks for. */
  requested: Pick<VirtualClusterSpec, 'policy' | 'nodes' | 'weight' | 'quota'>;
  /** What limits it; undefined: the defaults. */
  ceiling: VirtualClusterPolicy | undefined;
  /** Whether the runtime class that it asks for is one that every tenant may use. */
  isPublishedRuntimeClass: boolean;
}

export interface PolicyDecision {
  policy: EffectivePolicy;
  /** What was requested and is not granted, a clause for each. */
  restrictions: string[];
}

/**
 * What a tenant may: what it requests, within its ceiling. It gets nothing that it does not request, except what
 * tightens: a stricter Pod Security level, a forced runtime class, a pool of nodes, hidden nodes.
 */
export function effectivePolicy({
  requested,
  ceiling,
  isPublishedRuntimeClass,
}: PolicyInput): PolicyDecision {
  const asked = requested.policy ?? {};
  const limit: Partial<VirtualClusterPolicySpec> = ceiling?.spec ?? {};
  const restrictions: string[] = [];
  const podSecurity = stricter(
    asked.podSecurity ?? defaultPolicy.podSecurity,
    limit.podSecurity ?? defaultPolicy.podSecurity,
  );
  if (asked.podSecurity !== undefined && podSecurity !== asked.podSecurity)
    restrictions.push(`podSecurity is ${podSecurity}, not ${asked.podSecurity}`);
  const granted = (field: 'externalIPs' | 'loadBalancerOptions'): boolean => {
    if (asked[field] === true && limit[field] !== true) restrictions.push(`${field} is false`);
    return asked[field] === true && limit[field] === true;
  };
  const among = <T extends string>(
    field: string,
    wanted: readonly T[] = [],
    isAllowed: (item: T) => boolean,
  ): T[] => {
    const refused = wanted.filter((item) => !isAllowed(item));
    if (refused.length > 0) restrictions.push(`${field} is without ${refused.join(', ')}`);
    return wanted.filter(isAllowed);
  };
  const tightened = (
    field: RestrictingList,
    isAllowed: (allowed: readonly string[], item: string) => boolean,
  ): { [K in RestrictingList]?: string[] } => {
    const most = limit[field];
    if (asked[field] === undefined) return most === undefined ? {} : { [field]: most };
    return { [field]: among(field, asked[field], (item) => most === undefined || isAllowed(most, item)) };
  };
  if (asked.alwaysPullImages === false && limit.alwaysPullImages === true)
    restrictions.push('alwaysPullImages is true');
  if (asked.daemonSets === 'allow' && limit.daemonSets !== 'allow') restrictions.push('daemonSets is deny');
  const runtimeClassName = runtimeClass(
    asked.runtimeClassName,
    limit.runtimeClassName,
    isPublishedRuntimeClass,
  );
  if (asked.runtimeClassName !== undefined && runtimeClassName !== asked.runtimeClassName) {
    restrictions.push(
      runtimeClassName === undefined
        ? `runtimeClassName is not set, as ${asked.runtimeClassName} is not published (skerry.dev/public=true)`
        : `runtimeClassName is ${runtimeClassName}, not ${asked.runtimeClassName}`,
    );
  }
  const weight = Math.min(requested.weight ?? 1, limit.maxWeight ?? Number.POSITIVE_INFINITY);
  if (requested.weight !== undefined && weight !== requested.weight)
    restrictions.push(`weight is ${weight}, not ${requested.weight}`);
  const quota = effectiveQuota(requested.quota, limit.quota);
  restrictions.push(...quota.restrictions);
  const policy: EffectivePolicy = {
    ...(ceiling?.metadata.name === undefined ? {} : { ceiling: ceiling.metadata.name }),
    podSecurity,
    daemonSets: asked.daemonSets === 'allow' && limit.daemonSets === 'allow' ? 'allow' : 'deny',
    volumeTypes: among('volumeTypes', asked.volumeTypes, (type) => isListed(limit.volumeTypes ?? [], type)),
    schedulerNames: among('schedulerNames', asked.schedulerNames, (name) =>
      isListed(limit.schedulerNames ?? [], name),
    ),
    ...(runtimeClassName === undefined ? {} : { runtimeClassName }),
    externalIPs: granted('externalIPs'),
    loadBalancerOptions: granted('loadBalancerOptions'),
    endpointCIDRs: among('endpointCIDRs', asked.endpointCIDRs, (range) =>
      isRangeAllowed(limit.endpointCIDRs ?? [], range),
    ),
    ingressHosts: among('ingressHosts', asked.ingressHosts, (host) =>
      isHostAllowed(limit.ingressHosts ?? [], host),
    ),
    ...(asked.tolerations === undefined
      ? {}
      : {
          tolerations: among('tolerations', asked.tolerations, (key) =>
            isTaintKeyListed(limit.tolerations ?? [], key),
          ),
        }),
    ...(asked.alwaysPullImages === true || limit.alwaysPullImages === true ? { alwaysPullImages: true } : {}),
    ...tightened('imageRegistries', isRepositoryListed),
    ...tightened('capabilities', isNamed),
    ...tightened('hostPorts', isPortRangeListed),
    ...tightened('priorityClasses', isNamed),
    ...tightened('storageClasses', isNamed),
    ...tightened('runtimeClasses', isNamed),
    ...tightened('ingressClasses', isNamed),
    nodeSelector: { ...requested.nodes?.selector, ...limit.nodeSelector },
    hideNodes: requested.nodes?.hidden === true || limit.hideNodes === true,
    weight,
    ...(limit.cacheMiB === undefined ? {} : { cacheMiB: limit.cacheMiB }),
    quota: quota.quota,
  };
  for (const [key, value] of Object.entries(limit.nodeSelector ?? {})) {
    const wanted = requested.nodes?.selector?.[key];
    if (wanted !== undefined && wanted !== value)
      restrictions.push(`nodeSelector has ${key}=${value}, not ${wanted}`);
  }
  return { policy, restrictions };
}

function stricter(one: PodSecurityLevel, other: PodSecurityLevel): PodSecurityLevel {
  return podSecurityLevels.indexOf(one) > podSecurityLevels.indexOf(other) ? one : other;
}

/** The limit's class goes first; a tenant may only choose one that is published, as each of its pods may. */
function runtimeClass(
  asked: string | undefined,
  forced: string | undefined,
  isPublished: boolean,
): string | undefined {
  return forced ?? (isPublished ? asked : undefined);
}

function isNamed(allowed: readonly string[], item: string): boolean {
  return allowed.includes(item);
}

/** Whether a list of what is allowed, in which `*` stands for everything, holds an item. */
function isListed(allowed: readonly string[], item: string): boolean {
  return allowed.includes(item) || allowed.includes('*');
}

/** Whether a host name, or all names that one like `*.example.com` stands for, are among those allowed. */
export function isHostAllowed(allowed: readonly string[], host: string): boolean {
  return allowed.some((each) => {
    if (each === '*' || each === host) return true;
    return each.startsWith('*.') && host.endsWith(each.slice(1));
  });
}

/** Whether a range lies within one of those allowed. False for a text that is not a range. */
export function isRangeAllowed(allowed: readonly string[], range: string): boolean {
  const inner = parseRange(range);
  if (inner === undefined) return false;
  return allowed.some((each) => {
    const outer = parseRange(each);
    if (outer === undefined || outer[0].kind() !== inner[0].kind()) return false;
    return outer[1] <= inner[1] && inner[0].match(outer);
  });
}

/** Stricter than ipaddr.js, which takes `10.1/16` too. */
function parseRange(range: string): ReturnType<typeof ipaddr.parseCIDR> | undefined {
  return isIP(range.split('/')[0] ?? '') !== 0 && ipaddr.isValidCIDR(range)
    ? ipaddr.parseCIDR(range)
    : undefined;
}

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
