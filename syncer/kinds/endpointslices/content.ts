import { isIPv6 } from 'node:net';
import { type KubeObject, resources } from '../../../kube/index.ts';
import { isOurs, superNamespaceName } from '../../mapping/index.ts';
import type { SyncContext } from '../kind.ts';
import { isOnAllowList } from './allow-list.ts';

export interface Endpoint {
  addresses: string[];
  conditions?: Record<string, unknown>;
  hostname?: string;
  nodeName?: string;
  zone?: string;
  [field: string]: unknown;
}

export interface EndpointSlice extends KubeObject {
  addressType?: string;
  endpoints?: Endpoint[];
  ports?: Record<string, unknown>[];
}

/** What S holds, and which of T's addresses may not be in it. */
export interface Content {
  readonly addressType: string;
  readonly endpoints: readonly Endpoint[];
  readonly ports: readonly Record<string, unknown>[];
  readonly refused: readonly string[];
}

/** The slice through which pods reach their API server (sync rule 24); its content is not the tenant's to choose. */
export function isApiServerSlice(tenantObject: KubeObject): boolean {
  return tenantObject.metadata.name === 'kubernetes' && tenantObject.metadata.namespace === 'default';
}

export function wantedContent(tenantObject: KubeObject, context: SyncContext): Content {
  if (isApiServerSlice(tenantObject)) return apiServerContent(context);
  const { addressType = 'IPv4', endpoints = [], ports = [] } = tenantObject as EndpointSlice;
  const refused: string[] = [];
  const allowed: Endpoint[] = [];
  for (const endpoint of endpoints ?? []) {
    const pods = endpoint.addresses.map((address) => superPodAt(address, context));
    const foreign = endpoint.addresses.filter(
      (address, index) => pods[index] === undefined && !isOnAllowList(address, context),
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
 * The tenant's pod that has this address in the super cluster. What T's status says is only a hint: the
 * tenant can write it. A pod on the host's network has the address of a node.
 */
function superPodAt(address: string, context: SyncContext): KubeObject | undefined {
  for (const pod of context.tenantObjects.byIndex(resources.pods, 'byIP', address)) {
    const namespace = superNamespaceName(context.tenant, pod.metadata.namespace ?? '');
    const there = context.superObjects.get<Pod>(resources.pods, { namespace, name: pod.metadata.name ?? '' });
    if (there === undefined || !isOurs(there, context.tenant) || there.spec?.hostNetwork === true) continue;
    const { podIP, podIPs } = there.status ?? {};
    if (podIP === address || podIPs?.some(({ ip }) => ip === address)) return there;
  }
  return undefined;
}

interface Pod extends KubeObject {
  spec?: { hostNetwork?: boolean; nodeName?: string };
  status?: { podIP?: string; podIPs?: { ip?: string }[] };
}

/** The endpoint as S has it: on the node where the pod is, if it is one, and without a reference to T's object. */
function translated(endpoint: Endpoint, pod: KubeObject | undefined): Endpoint {
  const nodeName = (pod as Pod | undefined)?.spec?.nodeName;
  return {
    addresses: endpoint.addresses,
    ...(endpoint.conditions === undefined ? {} : { conditions: endpoint.conditions }),
    ...(endpoint.hostname === undefined ? {} : { hostname: endpoint.hostname }),
    ...(nodeName === undefined ? {} : { nodeName }),
    ...(endpoint.zone === undefined ? {} : { zone: endpoint.zone }),
  };
}
