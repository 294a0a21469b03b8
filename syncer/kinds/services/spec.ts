import type { KubeObject } from '../../../kube/index.ts';
import type { SyncContext } from '../kind.ts';
import { hasAddress, isApiServerService, type ServiceSpec, sourceRangesAnnotation, specOf } from './model.ts';

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
    ...spec
  } = own;
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

/** What of T does not go down because it would act on more than the tenant's own traffic (sync rule 22). */
export function droppedFields(tenantObject: KubeObject): readonly string[] {
  const { externalIPs, loadBalancerIP, loadBalancerSourceRanges } = specOf(tenantObject);
  const dropped: string[] = [];
  if (externalIPs !== undefined && externalIPs.length > 0) dropped.push('externalIPs');
  if (loadBalancerIP !== undefined && loadBalancerIP !== '') dropped.push('loadBalancerIP');
  const annotated = tenantObject.metadata.annotations?.[sourceRangesAnnotation] !== undefined;
  if (annotated || (loadBalancerSourceRanges !== undefined && loadBalancerSourceRanges.length > 0)) {
    dropped.push('loadBalancerSourceRanges');
  }
  return dropped;
}

/** T without the annotation that says the same as a field that is dropped. */
export function withoutDropped(tenantObject: KubeObject): KubeObject {
  const annotations = tenantObject.metadata.annotations;
  if (annotations?.[sourceRangesAnnotation] === undefined) return tenantObject;
  const { [sourceRangesAnnotation]: _dropped, ...rest } = annotations;
  return { ...tenantObject, metadata: { ...tenantObject.metadata, annotations: rest } };
}
