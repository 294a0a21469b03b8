import { lookup } from 'node:dns/promises';
import { isIPv6 } from 'node:net';
import { isNotFound, type KubeClient, type KubeObject, resources } from '../kube/index.ts';

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
