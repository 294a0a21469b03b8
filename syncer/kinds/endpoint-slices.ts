import { isIP, isIPv6 } from 'node:net';
import { deepEqual } from 'fast-equals';
import { type KubeObject, type MergePatch, resources, withoutUndefined } from '../../kube/index.ts';
import type { SyncContext } from '../context.ts';
import { isOurs, staysInTenant, tenantNamespaceOf } from '../mapping/labels.ts';
import {
  allAnnotations,
  isListed,
  labelGoesDown,
  type SuperMetadataOptions,
  superMetadata,
  superMetadataPatch,
} from '../mapping/metadata.ts';
import type { Action, Admission, DownKind } from './contract.ts';
import { type Shape, unknownRefusal } from './known-fields.ts';
import type { Pod } from './pods/types.ts';
import { cidrMatcher, isOfApiServer } from './services/types.ts';
import { refusedButKept, warning } from './validation.ts';

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
 * Whether the policy lets the tenant object point at an address that is no pod's of its own (sync rule
 * `endpoint-slices`): in a range of its list,
 * and nothing that is known to be the operator's or another tenant's. For one look at a slice, which may hold many
 * thousands of addresses: what they are compared with is put together once.
 */
function allowListOf(context: SyncContext): (address: string) => boolean {
  const { endpointCIDRs } = context.tenant.policy;
  if (endpointCIDRs.length === 0) return () => false;
  const isListed = cidrMatcher(endpointCIDRs);
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
  const isReserved = cidrMatcher(reservedRanges);
  const isReservedV6 = cidrMatcher(reservedRangesV6);
  const isProtected = cidrMatcher(tenant.protectedCIDRs);
  // Pods of the operator's own are not watched, so all of what nodes give to pods counts.
  const nodes = superObjects.byIndex<Node>(resources.nodes, 'all', '');
  const isOnNode = cidrMatcher(nodes.flatMap(({ spec }) => spec?.podCIDRs ?? []));
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
  return new URL(`http://[${address.split('%', 1)[0]}]`).hostname.slice(1, -1);
}

interface Endpoint {
  addresses: string[];
  conditions?: Record<string, unknown>;
  hostname?: string;
  nodeName?: string;
  zone?: string;
  [field: string]: unknown;
}

interface EndpointSlice extends KubeObject {
  addressType?: string;
  endpoints?: Endpoint[] | null;
  ports?: Record<string, unknown>[];
}

/** What the super object holds, and which of the tenant object's addresses may not be in it. */
interface Content {
  readonly addressType: string;
  readonly endpoints: readonly Endpoint[];
  readonly ports: readonly Record<string, unknown>[];
  readonly refused: readonly string[];
}

function wantedContent(tenantObject: KubeObject, context: SyncContext): Content {
  if (isOfApiServer(tenantObject)) return apiServerContent(context);
  const { addressType = 'IPv4', endpoints = [], ports = [] } = tenantObject as EndpointSlice;
  const refused: string[] = [];
  const allowed: Endpoint[] = [];
  const isOnAllowList = allowListOf(context);
  for (const endpoint of endpoints ?? []) {
    const pods = endpoint.addresses.map((address) => superPodAt(address, context));
    const foreign = endpoint.addresses.filter(
      (address, index) => pods[index] === undefined && !isOnAllowList(address),
    );
    if (foreign.length > 0) refused.push(...foreign);
    else allowed.push(translated(endpoint, pods[0]));
  }
  return { addressType, endpoints: allowed, ports: ports ?? [], refused };
}

function apiServerContent(context: SyncContext): Content {
  const { address, port } = context.tenant.apiServer;
  return {
    addressType: isIPv6(address) ? 'IPv6' : 'IPv4',
    endpoints: [{ addresses: [address], conditions: { ready: true } }],
    ports: [{ name: 'https', port, protocol: 'TCP' }],
    refused: [],
  };
}

/**
 * The tenant's pod that has this address in the super cluster. What the tenant object's status says does not count: the
 * tenant can write it, on as many pods as it likes.
 */
function superPodAt(address: string, { tenant, superObjects }: SyncContext): KubeObject | undefined {
  return superObjects.byIndex(resources.pods, 'byIP', address).find((pod) => isOurs(pod, tenant));
}

/** Endpoints that are not allowed any more are taken out: another tenant may have the address by now. */
function enforce(
  superObject: KubeObject,
  _: KubeObject | undefined,
  context: SyncContext,
): readonly Action[] {
  if (tenantNamespaceOf(superObject) === 'default' && superObject.metadata.name === 'kubernetes') return [];
  const isOnAllowList = allowListOf(context);
  const isAllowed = (address: string): boolean =>
    superPodAt(address, context) !== undefined || isOnAllowList(address);
  // An API server that has stored an empty list answers with null.
  const endpoints = (superObject as EndpointSlice).endpoints ?? [];
  const kept = endpoints.filter(({ addresses }) => addresses.every((address) => isAllowed(address)));
  return kept.length === endpoints.length ? [] : [{ do: 'patchSuper', patch: { endpoints: kept } }];
}

/**
 * The endpoint as the super object has it: on the node where the pod is, if it is one, and without the reference to
 * the tenant's own object.
 */
function translated(endpoint: Endpoint, pod: KubeObject | undefined): Endpoint {
  const nodeName = (pod as Pod | undefined)?.spec?.nodeName;
  const { addresses, conditions, hostname, zone } = endpoint;
  return withoutUndefined({ addresses, conditions, hostname, nodeName, zone });
}

const serviceNameLabel = 'kubernetes.io/service-name';
const managedByLabel = 'endpointslice.kubernetes.io/managed-by';
/** Makes the super cluster's own controllers leave the super object alone. */
const managedBy = 'syncer.skerry.dev';
/** Writes the slices of Services with a selector, on either side for itself. */
const selectorController = 'endpointslice-controller.k8s.io';

/** EndpointSlice: those of Services without a selector, with the tenant's own pods in them. */
export const endpointSliceKind: DownKind = {
  name: 'endpointslices',
  resource: resources.endpointSlices,
  direction: 'down',
  // Slices that either side's own controllers write are ignored; there are very many.
  selector: { tenant: `${managedByLabel}!=${selectorController}`, super: `${managedByLabel}=${managedBy}` },
  indexes: { tenant: { byService, byAddress }, super: { byApiServer, byAddress } },
  compact: { tenant: withinLimits },
  admit,
  enforce,
  toSuper(tenantObject, context) {
    const { addressType, endpoints, ports } = wantedContent(tenantObject, context);
    return {
      apiVersion: 'discovery.k8s.io/v1',
      kind: 'EndpointSlice',
      metadata: superMetadata(relabelled(tenantObject), context, metadataOptions(context)),
      addressType,
      endpoints,
      ports,
    };
  },
  down,
};

/** As Kubernetes bounds them. */
const maxEndpoints = 1_000;
const maxAddresses = 100;
/** Of a slice that came with more. No JSON has such a key. */
const tooMany = Symbol('tooMany');

/** The slice without its endpoints where no API server would have taken so many: each address has a place in an index. */
function withinLimits(slice: KubeObject): KubeObject {
  const endpoints: unknown = slice['endpoints'];
  if (!Array.isArray(endpoints)) return slice;
  const fits =
    endpoints.length <= maxEndpoints &&
    endpoints.every(
      (endpoint: Partial<Endpoint> | null) => !((endpoint?.addresses?.length ?? 0) > maxAddresses),
    );
  return fits ? slice : ({ ...slice, endpoints: [], [tooMany]: true } as KubeObject);
}

/** `namespace/name` of the Service, for slices that can go down at all. */
function byService(slice: KubeObject): readonly string[] {
  const service = slice.metadata.labels?.[serviceNameLabel];
  return service === undefined || isSelectorsOwn(slice) ? [] : [`${slice.metadata.namespace}/${service}`];
}

/** Addresses in slices that can go down at all: whether they may depends on the pods that have them. */
function byAddress(slice: KubeObject): readonly string[] {
  if (isSelectorsOwn(slice) || isOfApiServer(slice)) return [];
  return ((slice as EndpointSlice).endpoints ?? []).flatMap((endpoint) => endpoint.addresses);
}

/** Where tenants' API servers are, by the slices that lead their pods there. */
function byApiServer(slice: KubeObject): readonly string[] {
  if (slice.metadata.name !== 'kubernetes' || tenantNamespaceOf(slice) !== 'default') return [];
  return ((slice as EndpointSlice).endpoints ?? []).flatMap((endpoint) => endpoint.addresses);
}

function isSelectorsOwn(slice: KubeObject): boolean {
  return slice.metadata.labels?.[managedByLabel] === selectorController;
}

/** What goes down, and what is the super cluster's to say (`targetRef`, `hints`, nodes). */
const endpointShape: Shape = {
  addresses: true,
  conditions: { ready: true, serving: true, terminating: true },
  deprecatedTopology: true,
  hints: true,
  hostname: true,
  nodeName: true,
  targetRef: true,
  zone: true,
};
const sliceShape: Shape = {
  apiVersion: true,
  kind: true,
  metadata: true,
  status: true,
  addressType: true,
  endpoints: [endpointShape],
  ports: [{ appProtocol: true, name: true, port: true, protocol: true }],
};

function admit(tenantObject: KubeObject, context: SyncContext): Admission {
  if (isOfApiServer(tenantObject)) return { wanted: !context.tenant.apiServer.isService };
  if (isSelectorsOwn(tenantObject) || staysInTenant(tenantObject)) return { wanted: false };
  const { labels, namespace } = tenantObject.metadata;
  const name = labels?.[serviceNameLabel];
  if (name === undefined || (namespace === 'default' && name === 'kubernetes')) return { wanted: false };
  const service = context.tenantObjects.get(resources.services, { namespace, name });
  const selector = (service?.['spec'] as { selector?: Record<string, string> } | undefined)?.selector;
  if (service === undefined || Object.keys(selector ?? {}).length > 0) return { wanted: false };
  if (tooMany in tenantObject) return tooManyRefusal;
  const unknown = unknownRefusal(tenantObject, sliceShape, '');
  if (unknown !== undefined) return { wanted: false, keep: true, notice: unknown };
  if ((tenantObject as EndpointSlice).addressType === 'FQDN')
    return refusal(['addresses of type FQDN'], false);

  const { endpoints, refused } = wantedContent(tenantObject, context);
  if (refused.length === 0) return { wanted: true };
  return refusal(refused, endpoints.length > 0);
}

/** What is in the super cluster stays. */
const tooManyRefusal = refusedButKept(
  'InvalidField',
  `endpoints are more than ${maxEndpoints}, or addresses of one more than ${maxAddresses}`,
);

/** Endpoints that are the tenant's own pods stay reachable while others are refused. */
function refusal(refused: readonly string[], wanted: boolean): Admission {
  const shown = refused.length > 5 ? [...refused.slice(0, 5), '…'] : refused;
  const message = `not allowed as endpoints: ${shown.join(', ')}; an endpoint has to be one of your own pods, or an address that this cluster allows (policy: endpointCIDRs)`;
  return { wanted, notice: warning('EndpointNotAllowed', message) };
}

/** Labels by which proxies and controllers know what a slice is. */
const ownLabels = ['endpointslice.kubernetes.io/', serviceNameLabel, 'service.kubernetes.io/headless'];

function metadataOptions(context: SyncContext): SuperMetadataOptions {
  return {
    ...allAnnotations(context),
    goesDown: (key) => isListed(key, ownLabels) || labelGoesDown(key, context.tenant),
  };
}

function relabelled(tenantObject: KubeObject): KubeObject {
  const labels: Record<string, string> = { ...tenantObject.metadata.labels, [managedByLabel]: managedBy };
  if (isOfApiServer(tenantObject)) labels[serviceNameLabel] = 'kubernetes';
  return { ...tenantObject, metadata: { ...tenantObject.metadata, labels } };
}

function down(tenantObject: KubeObject, superObject: KubeObject, context: SyncContext): readonly Action[] {
  const wanted = wantedContent(tenantObject, context);
  const there = superObject as EndpointSlice;
  if (there.addressType !== wanted.addressType) return [{ do: 'deleteSuper' }];
  const patch: MergePatch = {
    ...superMetadataPatch(relabelled(tenantObject), superObject, context, metadataOptions(context)),
  };
  if (!deepEqual(there.endpoints ?? [], wanted.endpoints)) patch['endpoints'] = wanted.endpoints;
  if (!deepEqual(there.ports ?? [], wanted.ports)) patch['ports'] = wanted.ports;
  return Object.keys(patch).length === 0 ? [] : [{ do: 'patchSuper', patch }];
}
