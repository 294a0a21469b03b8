import { defaultPolicy } from '../../api/policy.ts';
import { defaultQuota } from '../../api/quota.ts';
import { isExposedByService, podEndpoint, type VirtualCluster } from '../../api/virtual-cluster.ts';
import type { NetworkIsolation, TenantInfo } from '../context.ts';
import {
  defaultAllowedAnnotations,
  defaultAllowedLabels,
  defaultDeniedKeyPrefixes,
} from '../mapping/metadata.ts';

/** What the syncer itself adds to each tenant's settings. */
export interface SyncerSettings {
  readonly kubelet: { readonly address: string; readonly port: number; readonly name?: string };
  readonly nodeLabels: readonly string[];
  readonly protectedCIDRs: readonly string[];
  /** Some of what is known of the super cluster stands for the worst, for want of knowledge. */
  readonly isSuperClusterUnknown?: true;
  readonly allowedAnnotations: readonly string[];
  readonly allowedLabels: readonly string[];
  readonly deniedKeyPrefixes: readonly string[];
  readonly transparentKeyPrefixes: readonly string[];
  readonly networkPoliciesEnforced: boolean;
  readonly isolation?: NetworkIsolation | undefined;
  readonly ingressAnnotations: readonly string[];
  /** How much memory the objects of a tenant may take whose policy does not say it. */
  readonly tenantCacheMiB: number;
  /** What the objects of all tenants together may take in this syncer, in MiB. */
  readonly totalCacheMiB: number;
}

/** How much memory the objects of this tenant may take in the syncer. */
export function cacheLimitBytes(
  { status }: VirtualCluster,
  { tenantCacheMiB }: Pick<SyncerSettings, 'tenantCacheMiB'>,
): number {
  return (status?.policy?.cacheMiB ?? tenantCacheMiB) * 1024 * 1024;
}

/**
 * The settings of one VirtualCluster as kinds read them. Throws for one that `isServed` refuses. Who does not see
 * the objects of all tenants lets none point at addresses beyond its own: they may be another one's.
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
    apiServer: {
      address,
      port,
      isService: isExposedByService(vc),
    },
    kubelet: settings.kubelet,
    nodes: spec?.nodes?.mode ?? 'all',
    syncConfigMaps: spec?.sync?.configMaps ?? 'used',
    syncSecrets: spec?.sync?.secrets ?? 'used',
    hideNodes: hideNodes ?? spec?.nodes?.hidden ?? false,
    nodeSelector: nodeSelector ?? spec?.nodes?.selector ?? {},
    syncIngresses: spec?.sync?.ingresses ?? false,
    syncNetworkPolicies: spec?.sync?.networkPolicies ?? true,
    networkPoliciesEnforced: settings.networkPoliciesEnforced,
    isolation: settings.isolation,
    isSuperClusterUnknown: settings.isSuperClusterUnknown,
    ingressAnnotations: settings.ingressAnnotations,
    customResources: spec?.sync?.customResources ?? [],
    policy: { ...defaultPolicy, quota: defaultQuota, ...policy, ...(seesAll ? {} : { endpointCIDRs: [] }) },
    nodeLabels: settings.nodeLabels,
    protectedCIDRs: settings.protectedCIDRs,
    allowedAnnotations: [...defaultAllowedAnnotations, ...settings.allowedAnnotations],
    allowedLabels: [...defaultAllowedLabels, ...settings.allowedLabels],
    deniedKeyPrefixes: [...defaultDeniedKeyPrefixes, ...settings.deniedKeyPrefixes],
    transparentKeyPrefixes: settings.transparentKeyPrefixes,
  };
}
