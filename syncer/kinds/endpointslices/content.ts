import { isIPv6 } from 'node:net';
import { type KubeObject, resources } from '../../../kube/index.ts';
import { isOurs } from '../../mapping/index.ts';
import type { SyncContext } from '../context.ts';
import { allowListOf } from './allow-list.ts';

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
 * The tenant's pod that has this address in the super cluster. What T's status says does not count: the tenant can
 * write it, on as many pods as it likes.
 */
function superPodAt(address: string, { tenant, superObjects }: SyncContext): KubeObject | undefined {
  return superObjects.byIndex(resources.pods, 'byIP', address).find((pod) => isOurs(pod, tenant));
}

interface Pod extends KubeObject {
  spec?: { nodeName?: string };
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
