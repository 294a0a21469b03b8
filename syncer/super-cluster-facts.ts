import { lookup } from 'node:dns/promises';
import { isIPv6 } from 'node:net';
import { isDeepStrictEqual } from 'node:util';
import type { Logger } from 'pino';
import { type Clock, isNotFound, type KubeClient, type KubeObject, resources } from '../kube/index.ts';
import { networkPoliciesAreEnforced } from './network-policy-engine.ts';
import type { SyncerOptions } from './settings.ts';

interface EndpointSlice extends KubeObject {
  endpoints?: { addresses: string[] }[];
}

interface ServiceCidr extends KubeObject {
  spec?: { cidrs?: string[] };
}

/**
 * Where the super cluster's own API servers and Services are, as ranges: by whom we talk to, by what its
 * `default/kubernetes` leads to, and by its ServiceCIDRs. Nodes are not among them; they come and go.
 */
export async function protectedRanges(superClient: KubeClient, signal: AbortSignal): Promise<string[]> {
  const { hostname } = new URL(superClient.connection.server);
  const [own, slices, cidrs] = await Promise.all([
    lookup(hostname.replace(/^\[|\]$/g, ''), { all: true }),
    superClient.list<EndpointSlice>(resources.endpointSlices, {
      namespace: 'default',
      labelSelector: 'kubernetes.io/service-name=kubernetes',
      signal,
    }),
    serviceCidrs(superClient, signal),
  ]);
  const addresses = [
    ...own.map(({ address }) => address),
    ...slices.items.flatMap(({ endpoints }) => (endpoints ?? []).flatMap((endpoint) => endpoint.addresses)),
  ];
  // In one order, so that two looks can be compared.
  return [
    ...new Set([...addresses.map((address) => `${address}/${isIPv6(address) ? 128 : 32}`), ...cidrs]),
  ].sort();
}

/** Older super clusters have none. */
async function serviceCidrs(superClient: KubeClient, signal: AbortSignal): Promise<string[]> {
  try {
    const { items } = await superClient.list<ServiceCidr>(resources.serviceCidrs, { signal });
    return items.flatMap(({ spec }) => spec?.cidrs ?? []);
  } catch (error) {
    if (isNotFound(error)) return [];
    throw error;
  }
}

/** What the syncer finds out about the super cluster. */
export interface SuperClusterFacts {
  readonly networkPoliciesEnforced: boolean;
  readonly protectedCIDRs: readonly string[];
}

interface SuperClusterFactsOptions {
  options: Pick<SyncerOptions, 'networkPolicies' | 'protectedCIDRs'>;
  superClient: KubeClient;
  clock: Clock;
  logger: Pick<Logger, 'info' | 'warn'>;
}

/** API servers move, ServiceCIDRs are added, engines installed: rarely, and without a notification. */
const lookEveryMs = 60_000;

const worst: SuperClusterFacts = { networkPoliciesEnforced: false, protectedCIDRs: ['0.0.0.0/0', '::/0'] };

/**
 * What cannot be found out is what it was before; at first it is taken to be as bad as it can be. Throws only the
 * signal's reason.
 */
export async function findSuperClusterFacts(
  { options, superClient, logger }: SuperClusterFactsOptions,
  signal: AbortSignal,
  before: SuperClusterFacts = worst,
): Promise<SuperClusterFacts> {
  const or = async <T>(finding: Promise<T>, otherwise: T, message: string): Promise<T> => {
    try {
      return await finding;
    } catch (error) {
      if (signal.aborted) throw error;
      logger.warn({ err: error }, message);
      return otherwise;
    }
  };
  const [networkPoliciesEnforced, protectedCIDRs] = await Promise.all([
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
  ]);
  return { networkPoliciesEnforced, protectedCIDRs };
}

/** Looks again once a minute until aborted, and tells what has changed. */
export async function followSuperClusterFacts(
  options: SuperClusterFactsOptions,
  first: SuperClusterFacts,
  onChange: (surroundings: SuperClusterFacts) => void,
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
