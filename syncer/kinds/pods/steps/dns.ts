import { resources } from '../../../../kube/index.ts';
import type { SyncContext } from '../../context.ts';
import type { Service } from '../../services/index.ts';
import { serviceAddress } from '../service-address.ts';
import type { PodStep } from '../translate.ts';
import type { DnsConfig, DnsOption, PodSpec } from '../types.ts';

/** What kubelet and the API server take: https://kubernetes.io/docs/concepts/services-networking/dns-pod-service/ */
const maxNameservers = 3;
const maxSearches = 32;
const maxSearchLength = 253;
const maxSearchesLength = 2048;

/**
 * Sync rule 11: kubelet would send a pod to the super cluster's DNS. What it would write for a node of
 * the tenant's is written here; without a DNS Service, the node's own resolver has to do.
 */
export const dns: PodStep = (spec, pod, context) => {
  if (!asksForClusterDns(spec)) return spec;
  const service = context.tenantObjects.get<Service>(resources.services, {
    namespace: 'kube-system',
    name: 'kube-dns',
  });
  const address = service === undefined ? undefined : serviceAddress(service, context);
  if (address === undefined) return { ...spec, dnsPolicy: 'Default' };
  const dnsConfig = merged(address, searchesOf(pod.metadata.namespace ?? '', context), spec.dnsConfig);
  return { ...spec, dnsPolicy: 'None', dnsConfig };
};

/** A pod in its node's network means the node's DNS by `ClusterFirst`. */
function asksForClusterDns({ dnsPolicy = 'ClusterFirst', hostNetwork }: PodSpec): boolean {
  if (dnsPolicy === 'ClusterFirst') return hostNetwork !== true;
  return dnsPolicy === 'ClusterFirstWithHostNet';
}

function searchesOf(namespace: string, { tenant }: SyncContext): string[] {
  const { clusterDomain } = tenant;
  return [`${namespace}.svc.${clusterDomain}`, `svc.${clusterDomain}`, clusterDomain];
}

function merged(address: string, searches: readonly string[], own: DnsConfig = {}): DnsConfig {
  return {
    ...own,
    nameservers: unique([address, ...(own.nameservers ?? [])]).slice(0, maxNameservers),
    searches: fitting(unique([...searches, ...(own.searches ?? [])])),
    options: byName([{ name: 'ndots', value: '5' }, ...(own.options ?? [])]),
  };
}

function fitting(searches: readonly string[]): string[] {
  const kept = searches.slice(0, maxSearches).filter(({ length }) => length <= maxSearchLength);
  while (kept.join(' ').length > maxSearchesLength) kept.pop();
  return kept;
}

/** The last of a name counts, in the place of the first. */
function byName(options: readonly DnsOption[]): DnsOption[] {
  return [...new Map(options.map((option) => [option.name, option])).values()];
}

function unique(values: readonly string[]): string[] {
  return [...new Set(values)];
}
