import { defaultPolicy, defaultQuota } from '../../api/default-policy.ts';
import { isExposedByService, podEndpoint } from '../../api/tenant-state.ts';
import type { VirtualCluster } from '../../api/virtual-cluster.ts';
import type { TenantInfo } from '../context.ts';
import {
  defaultAllowedAnnotations,
  defaultAllowedLabels,
  defaultDeniedKeyPrefixes,
} from '../mapping/metadata.ts';
import type { SyncerOptions } from '../settings.ts';

/** The same for all tenants of this syncer. */
type SharedInfo = Pick<
  TenantInfo,
  | 'kubelet'
  | 'nodeLabels'
  | 'protectedCIDRs'
  | 'isSuperClusterUnknown'
  | 'isIsolationUnknown'
  | 'allowedAnnotations'
  | 'allowedLabels'
  | 'deniedKeyPrefixes'
  | 'transparentKeyPrefixes'
  | 'networkPoliciesEnforced'
  | 'isolation'
  | 'ingressAnnotations'
>;

/** What the syncer itself adds to each tenant's settings. */
export type SyncerSettings = SharedInfo & Pick<SyncerOptions, 'tenantCacheMiB' | 'totalCacheMiB'>;

/** How much memory the objects of this tenant may take in the syncer. */
export function cacheLimitBytes(
  { status }: VirtualCluster,
  { tenantCacheMiB }: Pick<SyncerSettings, 'tenantCacheMiB'>,
): number {
  return (status?.policy?.cacheMiB ?? tenantCacheMiB) * 1024 * 1024;
}

/**
 * The settings of one VirtualCluster as kinds read them. Throws for one that `isServed` refuses. A replica that does not
 * see the objects of all tenants lets none point at addresses beyond its own: they may be another one's.
 */
export function tenantInfo(vc: VirtualCluster, settings: SyncerSettings, seesAll = true): TenantInfo {
  const { metadata, spec, status } = vc;
  if (
    metadata.uid === undefined ||
    metadata.name === undefined ||
    metadata.namespace === undefined ||
    status?.id === undefined ||
    status.advertisedAddress === undefined ||
    status.serviceCIDR === undefined
  ) {
    throw new Error(`VirtualCluster ${metadata.namespace}/${metadata.name} is not ready to be served`);
  }
  const {
    ceiling: _where,
    weight: _share,
    cacheMiB: _memory,
    hideNodes,
    nodeSelector,
    ...policy
  } = status.policy ?? {};
  const { tenantCacheMiB: _each, totalCacheMiB: _all, ...shared } = settings;
  const { address = status.advertisedAddress, port = 443 } = podEndpoint(vc);
  return {
    uid: metadata.uid,
    id: status.id,
    ...(status.tokenKey !== undefined && { tokenKey: status.tokenKey }),
    namespace: metadata.namespace,
    name: metadata.name,
    clusterDomain: spec?.clusterDomain ?? 'cluster.local',
    serviceCidrs: [status.serviceCIDR],
    serviceIpMode: status.serviceIPMode ?? 'slice',
    apiServer: { address, port, isService: isExposedByService(vc) },
    nodes: spec?.nodes?.mode ?? 'all',
    syncConfigMaps: spec?.sync?.configMaps ?? 'used',
    syncSecrets: spec?.sync?.secrets ?? 'used',
    hideNodes: hideNodes ?? spec?.nodes?.hidden ?? false,
    nodeSelector: nodeSelector ?? spec?.nodes?.selector ?? {},
    syncIngresses: spec?.sync?.ingresses ?? false,
    syncNetworkPolicies: spec?.sync?.networkPolicies ?? true,
    customResources: spec?.sync?.customResources ?? [],
    policy: { ...defaultPolicy, quota: defaultQuota, ...policy, ...(seesAll ? {} : { endpointCIDRs: [] }) },
    ...shared,
    allowedAnnotations: [...defaultAllowedAnnotations, ...settings.allowedAnnotations],
    allowedLabels: [...defaultAllowedLabels, ...settings.allowedLabels],
    deniedKeyPrefixes: [...defaultDeniedKeyPrefixes, ...settings.deniedKeyPrefixes],
  };
}
