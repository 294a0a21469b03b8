import { isIP } from 'node:net';
import { type KubeObject, resources } from '../../../kube/index.ts';
import type { SyncContext } from '../context.ts';
import { insideOf } from '../services/index.ts';

/** Never an endpoint, whatever an allow-list says: this host, link-local (where clouds keep credentials), groups. */
const reservedRanges = ['0.0.0.0/8', '127.0.0.0/8', '169.254.0.0/16', '224.0.0.0/3'];
/** The same, and IPv4 in the clothes of IPv6. Apart: to a list of ranges, the latter are IPv4. */
const reservedRangesV6 = [
  '::/127',
  '::ffff:0:0/96',
  '64:ff9b::/96',
  'fe80::/10',
  'fd00:ec2::/32',
  'ff00::/8',
];

/**
 * Whether the policy lets T point at an address that is no pod's of its own (sync rule 22): in a range of its list,
 * and nothing that is known to be the operator's or another tenant's. For one look at a slice, which may hold many
 * thousands of addresses: what they are compared with is put together once.
 */
export function allowListOf(context: SyncContext): (address: string) => boolean {
  const { endpointCIDRs } = context.tenant.policy;
  if (endpointCIDRs.length === 0) return () => false;
  const isListed = insideOf(endpointCIDRs);
  let isInfrastructure: ((address: string) => boolean) | undefined;
  return (address) => {
    if (!isListed(address)) return false;
    isInfrastructure ??= infrastructureOf(context);
    const plain = canonical(address);
    return !isInfrastructure(plain) && !isAnotherTenants(plain, context);
  };
}

/** Reserved ranges, what the syncer was told or has found, nodes and the pods on them. */
function infrastructureOf({ tenant, superObjects }: SyncContext): (address: string) => boolean {
  const isReserved = insideOf(reservedRanges);
  const isReservedV6 = insideOf(reservedRangesV6);
  const isProtected = insideOf(tenant.protectedCIDRs);
  // Pods of the operator's own are not watched, so all of what nodes give to pods counts.
  const nodes = superObjects.byIndex<Node>(resources.nodes, 'all', '');
  const isOnNode = insideOf(nodes.flatMap(({ spec }) => spec?.podCIDRs ?? []));
  const own = new Set([tenant.apiServer.address, tenant.kubelet.address].map(canonical));
  return (address) =>
    (isIP(address) === 6 ? isReservedV6 : isReserved)(address) ||
    isProtected(address) ||
    own.has(address) ||
    isOnNode(address) ||
    superObjects.get(resources.nodes, { name: address }) !== undefined ||
    superObjects.byIndex(resources.nodes, 'byAddress', address).length > 0;
}

interface Node extends KubeObject {
  spec?: { podCIDRs?: string[] };
}

/** The tenant's own pods have been asked for before. */
function isAnotherTenants(address: string, { superObjects }: SyncContext): boolean {
  return (
    superObjects.byIndex(resources.pods, 'byIP', address).length > 0 ||
    superObjects.byIndex(resources.services, 'byAddress', address).length > 0 ||
    superObjects.byIndex(resources.endpointSlices, 'byApiServer', address).length > 0
  );
}

/** As every part of Kubernetes writes an address, of which IPv6 has many forms. */
function canonical(address: string): string {
  if (isIP(address) !== 6) return address;
  return new URL(`http://[${address.replace(/%.*$/, '')}]`).hostname.slice(1, -1);
}
