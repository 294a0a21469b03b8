import ipaddr from 'ipaddr.js';
import { resources } from '../../../kube/index.ts';
import { superNamespaceName, uidMark } from '../../mapping/index.ts';
import type { SyncContext } from '../context.ts';
import { hasAddress, type Service } from '../services/index.ts';

/** Where pods reach a Service of the tenant; undefined: it has no address of its own. */
export function serviceAddress(service: Service, context: SyncContext): string | undefined {
  return superAddress(service, context) ?? ownAddress(service);
}

/** Where pods reach the tenant's API server: on port 443 of this address (sync rules 8 and 24). */
export function apiServerAddress(context: SyncContext): string | undefined {
  const { apiServer, serviceIpMode } = context.tenant;
  // Where the tenant's own address leads nowhere, that of the API server's Service does.
  if (apiServer.isService && serviceIpMode === 'assigned') return apiServer.address;
  const service = context.tenantObjects.get<Service>(resources.services, {
    namespace: 'default',
    name: 'kubernetes',
  });
  const address = service === undefined ? undefined : serviceAddress(service, context);
  // An API server gives its Service the first address of its range, and makes the Service again when it is gone.
  return address ?? context.tenant.serviceCidrs.map(firstAddress)[0];
}

/** T is about to follow S, which was given its address; what is written into a pod stays there. */
function superAddress({ metadata }: Service, context: SyncContext): string | undefined {
  const { tenant, superObjects } = context;
  if (tenant.serviceIpMode !== 'assigned') return undefined;
  const { namespace = '', name = '', uid } = metadata;
  const ref = { namespace: superNamespaceName(tenant, namespace), name };
  const s = superObjects.get<Service>(resources.services, ref);
  return s !== undefined && uidMark(s) === uid ? ownAddress(s) : undefined;
}

function ownAddress({ spec = {} }: Service): string | undefined {
  return hasAddress(spec) ? spec.clusterIP : undefined;
}

/** The one behind the base of a CIDR, which an API server never hands out. */
function firstAddress(cidr: string): string {
  const bytes = ipaddr.parseCIDR(cidr)[0].toByteArray();
  bytes.push((bytes.pop() ?? 0) + 1);
  return ipaddr.fromByteArray(bytes).toString();
}
