import { lookup } from 'node:dns/promises';
import { isIP, isIPv6 } from 'node:net';
import { isDeepStrictEqual } from 'node:util';
import ipaddr from 'ipaddr.js';
import type { Logger } from 'pino';
import { networkPolicyEngine } from '../api/network-policy-engines.ts';
import { type Clock, ignoreNotFound, type KubeClient, type KubeObject, resources } from '../kube/index.ts';
import type { NetworkIsolation } from './context.ts';
import type { NetworkPolicyEnforcement, SyncerOptions } from './settings.ts';

interface EndpointSlice extends KubeObject {
  endpoints?: { addresses: string[] }[];
}

interface ServiceCidr extends KubeObject {
  spec?: { cidrs?: string[] };
}

/**
 * Where the super cluster's own API servers and Services are, as ranges: by the address that the syncer calls, by what its
 * `default/kubernetes` leads to, and by its ServiceCIDRs. Nodes are not among them; they come and go.
 */
export async function protectedRanges(superClient: KubeClient, signal: AbortSignal): Promise<string[]> {
  const [apiServers, cidrs] = await Promise.all([
    apiServerRanges(superClient, signal),
    serviceCidrs(superClient, signal),
  ]);
  // In one order, so that two looks can be compared.
  return [...new Set([...apiServers, ...cidrs])].sort();
}

/** Each address as a range. */
async function apiServerRanges(superClient: KubeClient, signal: AbortSignal): Promise<string[]> {
  const { hostname } = new URL(superClient.connection.server);
  const [own, slices] = await Promise.all([
    lookup(hostname.replace(/^\[|\]$/g, ''), { all: true }),
    superClient.list<EndpointSlice>(resources.endpointSlices, {
      namespace: 'default',
      labelSelector: 'kubernetes.io/service-name=kubernetes',
      signal,
    }),
  ]);
  const addresses = [
    ...own.map(({ address }) => address),
    ...slices.items.flatMap(({ endpoints }) => (endpoints ?? []).flatMap((endpoint) => endpoint.addresses)),
  ];
  return [...new Set(addresses.map(asRange))].sort();
}

function asRange(address: string): string {
  return `${address}/${isIPv6(address) ? 128 : 32}`;
}

interface Node extends KubeObject {
  spec?: { podCIDRs?: string[] };
  status?: { addresses?: { type: string; address: string }[] };
}

/** More nodes than that are not listed one by one in policies: their range is to be given by `--protect-cidr`. */
const maxNodes = 256;

/** Addresses of nodes, and the ranges that they give to pods (sync rule `tenant-isolation`). */
function nodeRanges(nodes: Iterable<KubeObject>): { addresses: string[]; podCIDRs: string[] } {
  const all = [...nodes] as Node[];
  const addresses = all.flatMap(({ status }) => (status?.addresses ?? []).map(({ address }) => address));
  return {
    addresses:
      all.length > maxNodes
        ? []
        : [...new Set(addresses.filter((each) => isIP(each) !== 0))].sort().map(asRange),
    podCIDRs: covering(all.flatMap(({ spec }) => spec?.podCIDRs ?? [])),
  };
}

/** The shortest prefix that a common range may have; beyond that it would cover what is not pods'. */
const shortestPrefix = { ipv4: 12, ipv6: 40 };

/**
 * One range per family that covers all, so that policies do not change with every node; where such a range would be
 * too wide, all as they are.
 */
function covering(cidrs: readonly string[]): string[] {
  const parsed = [...new Set(cidrs)]
    .filter((cidr) => ipaddr.isValidCIDR(cidr))
    .map((cidr) => ipaddr.parseCIDR(cidr));
  return (['ipv4', 'ipv6'] as const).flatMap((family) => {
    const ofFamily = parsed.filter(([address]) => address.kind() === family);
    const [first, ...rest] = ofFamily;
    if (first === undefined) return [];
    let [, length] = first;
    for (const [address, prefix] of rest) {
      length = Math.min(length, prefix);
      while (length > 0 && !address.match([first[0], length] as never)) length -= 1;
    }
    if (length < shortestPrefix[family])
      return ofFamily.map(([address, prefix]) => `${address}/${prefix}`).sort();
    const whole = `${first[0]}/${length}`;
    const base = (family === 'ipv4' ? ipaddr.IPv4 : ipaddr.IPv6).networkAddressFromCIDR(whole);
    return [`${base}/${length}`];
  });
}

/** Older super clusters have none. */
async function serviceCidrs(superClient: KubeClient, signal: AbortSignal): Promise<string[]> {
  const list = await ignoreNotFound(superClient.list<ServiceCidr>(resources.serviceCidrs, { signal }));
  return list?.items.flatMap(({ spec }) => spec?.cidrs ?? []) ?? [];
}

/** What the syncer finds out about the super cluster. */
export interface SuperClusterFacts {
  readonly networkPoliciesEnforced: boolean;
  readonly protectedCIDRs: readonly string[];
  /** Not all of it has been found out yet: some stands for the worst, and takes nothing away that is there. */
  readonly isSuperClusterUnknown?: true;
  /** Undefined: nothing keeps tenants apart. */
  readonly isolation?: NetworkIsolation | undefined;
}

interface SuperClusterFactsOptions {
  options: Pick<SyncerOptions, 'networkPolicies' | 'protectedCIDRs' | 'isolateTenants' | 'podCIDRs'>;
  /** Those of the super cluster. */
  nodes: () => Iterable<KubeObject>;
  superClient: KubeClient;
  clock: Clock;
  logger: Pick<Logger, 'info' | 'warn'>;
}

/** API servers move, ServiceCIDRs are added, engines installed: rarely, and without a notification. */
const lookEveryMs = 60_000;

const everything = ['0.0.0.0/0', '::/0'];
const worst: SuperClusterFacts = {
  networkPoliciesEnforced: false,
  protectedCIDRs: everything,
  isSuperClusterUnknown: true,
};

/**
 * What cannot be found out is what it was before; at first it is taken to be as bad as it can be. Throws only the
 * signal's reason.
 */
export async function findSuperClusterFacts(
  { options, superClient, nodes, logger }: SuperClusterFactsOptions,
  signal: AbortSignal,
  before: SuperClusterFacts = worst,
): Promise<SuperClusterFacts> {
  let hasFailed = false as boolean;
  const or = async <T>(finding: Promise<T>, otherwise: T, message: string): Promise<T> => {
    try {
      return await finding;
    } catch (error) {
      if (signal.aborted) throw error;
      hasFailed = true;
      logger.warn({ err: error }, message);
      return otherwise;
    }
  };
  const [networkPoliciesEnforced, protectedCIDRs, apiServers] = await Promise.all([
    or(
      networkPoliciesAreEnforced(options.networkPolicies, superClient, signal),
      before.networkPoliciesEnforced,
      'cannot find out what enforces NetworkPolicies; the last result is kept, at first that nothing does',
    ),
    or(
      protectedRanges(superClient, signal).then((found) => [...options.protectedCIDRs, ...found]),
      before.protectedCIDRs,
      'cannot find out where the super cluster itself is; what was found before holds, at first that tenants may point no EndpointSlice beyond their own pods',
    ),
    or(
      apiServerRanges(superClient, signal),
      before.isolation?.closedCIDRs ?? everything,
      'cannot find out where the API servers of the super cluster are; what was found before is closed to pods, at first everything but the own tenant',
    ),
  ]);
  const found = {
    networkPoliciesEnforced,
    protectedCIDRs,
    ...(hasFailed && before.isSuperClusterUnknown === true && { isSuperClusterUnknown: true as const }),
  };
  if (!options.isolateTenants || !networkPoliciesEnforced) return found;
  const { addresses, podCIDRs } = nodeRanges(nodes());
  const closed = [...options.protectedCIDRs, ...apiServers, ...addresses];
  const isolation = {
    podCIDRs: options.podCIDRs.length > 0 ? options.podCIDRs : podCIDRs,
    closedCIDRs: [...new Set(closed)].sort(),
  };
  return { ...found, isolation };
}

/** Looks again once a minute until aborted, and tells what has changed. */
export async function followSuperClusterFacts(
  options: SuperClusterFactsOptions,
  first: SuperClusterFacts,
  onChange: (superClusterFacts: SuperClusterFacts) => void,
  signal: AbortSignal,
): Promise<void> {
  const { clock, logger } = options;
  let known = first;
  for (;;) {
    await clock.sleep(lookEveryMs, signal).catch(() => undefined);
    if (signal.aborted) return;
    const found = await findSuperClusterFacts(options, signal, known);
    if (isDeepStrictEqual(found, known)) continue;
    known = found;
    logger.info(found, 'the super cluster has changed: all tenants are looked at');
    onChange(found);
  }
}

export async function networkPoliciesAreEnforced(
  enforcement: NetworkPolicyEnforcement,
  superClient: Pick<KubeClient, 'raw'>,
  signal: AbortSignal,
): Promise<boolean> {
  if (enforcement !== 'auto') return enforcement === 'enforced';
  return networkPolicyEngine(await superClient.raw('GET', '/apis', { signal })) !== undefined;
}
