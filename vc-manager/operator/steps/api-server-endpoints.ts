import { isIPv6 } from 'node:net';
import { type KubeObject, type Resource, resources } from '../../../kube/index.ts';
import type { Tenant } from '../tenant.ts';

const ref = { namespace: 'default', name: 'kubernetes' };

/**
 * Where the Service `kubernetes` of a tenant leads. The API server's own reconciler is off, as it would
 * publish the address it is bound to. Both forms are written, the old one marked so that the tenant's
 * controllers do not mirror it into a third.
 */
export function apiServerEndpoints(tenant: Tenant): { resource: Resource; object: KubeObject }[] {
  const address = tenant.required(tenant.vc.status?.advertisedAddress, 'address');
  const port = tenant.required(tenant.vc.status?.advertisedPort, 'port');
  const ports = [{ name: 'https', port, protocol: 'TCP' }];
  return [
    {
      resource: resources.endpoints,
      object: {
        metadata: { ...ref, labels: { 'endpointslice.kubernetes.io/skip-mirror': 'true' } },
        subsets: [{ addresses: [{ ip: address }], ports }],
      },
    },
    {
      resource: resources.endpointSlices,
      object: {
        metadata: { ...ref, labels: { 'kubernetes.io/service-name': ref.name } },
        addressType: isIPv6(address) ? 'IPv6' : 'IPv4',
        endpoints: [{ addresses: [address], conditions: { ready: true } }],
        ports,
      },
    },
  ];
}
