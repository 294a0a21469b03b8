import type { KubeObject } from '../../../kube/index.ts';
import type { SyncContext } from '../context.ts';
import { hasAddress, isApiServerService, type ServiceSpec, specOf } from './model.ts';
import { allowedOptions } from './options.ts';

/**
 * What T asks of S. The address is in it where T's is to be asked for; what the super cluster assigns
 * and what a tenant may not choose are not.
 */
export function wantedSpec(tenantObject: KubeObject, context: SyncContext): ServiceSpec {
  const own = specOf(tenantObject);
  if (isApiServerService(tenantObject)) return apiServerSpec(own, context);
  const {
    clusterIP,
    clusterIPs,
    ipFamilies,
    ipFamilyPolicy,
    externalIPs: _externalIPs,
    loadBalancerIP: _loadBalancerIP,
    loadBalancerSourceRanges: _loadBalancerSourceRanges,
    ...rest
  } = own;
  const spec = { ...rest, ...allowedOptions(tenantObject, context.tenant.policy) };
  if (clusterIP === 'None') return { ...spec, clusterIP };
  if (!hasAddress(own) || context.tenant.serviceIpMode === 'assigned') return spec;
  if (clusterIPs === undefined || clusterIPs.length < 2) return { ...spec, clusterIP: clusterIP as string };
  // Two addresses can only be asked for together with their families.
  return {
    ...spec,
    clusterIP: clusterIP as string,
    clusterIPs,
    ...(ipFamilies === undefined ? {} : { ipFamilies }),
    ...(ipFamilyPolicy === undefined ? {} : { ipFamilyPolicy }),
  };
}

/** Pods reach their API server and nothing else there, whatever the tenant makes of that Service. */
function apiServerSpec(own: ServiceSpec, context: SyncContext): ServiceSpec {
  const asked = hasAddress(own) && context.tenant.serviceIpMode === 'slice';
  return {
    type: 'ClusterIP',
    ...(asked ? { clusterIP: own.clusterIP as string } : {}),
    ports: [{ name: 'https', port: 443, protocol: 'TCP', targetPort: context.tenant.apiServer.port }],
    sessionAffinity: 'None',
    internalTrafficPolicy: 'Cluster',
  };
}
