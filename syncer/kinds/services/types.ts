import { BlockList, isIP } from 'node:net';
import type { KubeObject } from '../../../kube/index.ts';

export interface ServicePort {
  name?: string;
  protocol?: string;
  port: number;
  targetPort?: number | string;
  nodePort?: number;
  appProtocol?: string;
  [field: string]: unknown;
}

export interface ServiceSpec {
  type?: string;
  clusterIP?: string;
  clusterIPs?: string[];
  ipFamilies?: string[];
  ipFamilyPolicy?: string;
  ports?: ServicePort[];
  selector?: Record<string, string>;
  healthCheckNodePort?: number;
  externalIPs?: string[];
  loadBalancerIP?: string;
  loadBalancerSourceRanges?: string[];
  loadBalancerClass?: string;
  externalTrafficPolicy?: string;
  [field: string]: unknown;
}

export interface Service extends KubeObject {
  spec?: ServiceSpec;
  status?: { loadBalancer?: Record<string, unknown>; [field: string]: unknown };
}

/** Where the same source ranges can be given as in `spec.loadBalancerSourceRanges`. */
export const sourceRangesAnnotation = 'service.beta.kubernetes.io/load-balancer-source-ranges';

/** Where implementations of load balancers let a Service choose, or share, an address, as in `spec.loadBalancerIP`. */
export const addressAnnotations: ReadonlySet<string> = new Set([
  'metallb.io/loadBalancerIPs',
  'metallb.io/address-pool',
  'metallb.io/allow-shared-ip',
  'metallb.universe.tf/loadBalancerIPs',
  'metallb.universe.tf/address-pool',
  'metallb.universe.tf/allow-shared-ip',
  'io.cilium/lb-ipam-ips',
  'io.cilium/lb-ipam-sharing-key',
  'io.cilium/lb-ipam-sharing-cross-namespace',
  'lbipam.cilium.io/ips',
  'lbipam.cilium.io/sharing-key',
  'lbipam.cilium.io/sharing-cross-namespace',
  'kube-vip.io/loadbalancerIPs',
  'purelb.io/addresses',
  'purelb.io/allow-shared-ip',
  'service.beta.kubernetes.io/aws-load-balancer-eip-allocations',
  'service.beta.kubernetes.io/aws-load-balancer-private-ipv4-addresses',
  'service.beta.kubernetes.io/azure-load-balancer-ipv4',
  'service.beta.kubernetes.io/azure-load-balancer-ipv6',
  'service.beta.kubernetes.io/azure-pip-name',
  'networking.gke.io/load-balancer-ip-addresses',
]);

export function specOf(service: KubeObject): ServiceSpec {
  return (service as Service).spec ?? {};
}

/**
 * Whether this is the Service through which pods reach their API server, or its EndpointSlice (sync rule
 * `kubernetes-service`): what is in them is not the tenant's to choose.
 */
export function isOfApiServer(tenantObject: KubeObject): boolean {
  return tenantObject.metadata.name === 'kubernetes' && tenantObject.metadata.namespace === 'default';
}

/** Whether a Service of this type has node ports. */
export function hasNodePorts(spec: ServiceSpec): boolean {
  return spec.type === 'NodePort' || spec.type === 'LoadBalancer';
}

/** Whether a Service has an address of its own: neither ExternalName nor headless. */
export function hasAddress(spec: ServiceSpec): boolean {
  return (
    spec.type !== 'ExternalName' &&
    spec.clusterIP !== undefined &&
    spec.clusterIP !== '' &&
    spec.clusterIP !== 'None'
  );
}

/** What tells one port of a Service from the others. */
export function portKey(port: ServicePort): string {
  return `${port.port}/${port.protocol ?? 'TCP'}`;
}

/** A test for whether an address is an IP inside one of the CIDRs; for many addresses, as it is made once. */
export function cidrMatcher(cidrs: Iterable<string>): (address: string) => boolean {
  const inside = new BlockList();
  for (const cidr of cidrs) {
    const [base = '', prefix = ''] = cidr.split('/');
    inside.addSubnet(base, Number(prefix), familyOf(base));
  }
  return (address) => isIP(address) !== 0 && inside.check(address, familyOf(address));
}

/** Whether every address is an IP inside one of the CIDRs. */
export function allInCidrs(addresses: readonly string[], cidrs: readonly string[]): boolean {
  return addresses.every(cidrMatcher(cidrs));
}

function familyOf(address: string): 'ipv4' | 'ipv6' {
  return isIP(address) === 6 ? 'ipv6' : 'ipv4';
}
