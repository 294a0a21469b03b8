import type { ControlPlaneTemplate } from '../../api/control-plane-template.ts';
import { gatewaysLeaseName, runningGateways, versionOfHolder } from '../../api/program-versions.ts';
import type { VirtualCluster } from '../../api/virtual-cluster.ts';
import { isUnclaimed } from '../../api/warm-pool.ts';
import { type KubeClient, type Lease, resources } from '../../kube/index.ts';
import { packageVersion } from '../../program/package-root.ts';

/** What runs in which version. */
export interface Versions {
  /** Of this command line. */
  skerry: string;
  node: string;
  superCluster: string;
  /** The leading manager, each replica of the syncer and of the gateway, as Leases say. */
  running: { program: string; identity: string; version: string | undefined; renewed: string | undefined }[];
  templates: { name: string; kubernetes: string }[];
  tenants: {
    namespace: string;
    name: string;
    kubernetes: string | undefined;
    wanted: string | undefined;
    driver: string | undefined;
  }[];
}

export async function readVersions(
  client: KubeClient,
  systemNamespace: string,
  signal: AbortSignal,
): Promise<Versions> {
  const [{ gitVersion = '' }, leases, templates, tenants] = await Promise.all([
    client.raw('GET', '/version', { signal }) as Promise<{ gitVersion?: string }>,
    client.list<Lease>(resources.leases, { namespace: systemNamespace, signal }),
    client.list<ControlPlaneTemplate>(resources.controlPlaneTemplates, { signal }),
    client.list<VirtualCluster>(resources.virtualClusters, { signal }),
  ]);
  return {
    skerry: packageVersion(),
    node: process.versions.node,
    superCluster: gitVersion.replace(/^v/, ''),
    running: leases.items.flatMap(({ metadata, spec }) => {
      if (metadata.name === gatewaysLeaseName)
        return runningGateways(metadata.annotations).map(({ seen, ...gateway }) => ({
          ...{ program: 'vc-gateway', ...gateway, renewed: seen },
        }));
      const program = /(?:^|-)(vc-(?:manager|syncer))/.exec(metadata.name ?? '')?.[1];
      const { holderIdentity: identity = '', renewTime: renewed } = spec ?? {};
      if (program === undefined || identity === '') return [];
      return [{ program, identity, version: versionOfHolder(metadata.annotations, identity), renewed }];
    }),
    templates: templates.items.map(({ metadata, spec }) => ({
      name: metadata.name ?? '',
      kubernetes: spec.kubernetesVersion,
    })),
    tenants: tenants.items
      .filter((vc) => !isUnclaimed(vc))
      .map(({ metadata, spec, status }) => ({
        namespace: metadata.namespace ?? '',
        name: metadata.name ?? '',
        kubernetes: status?.version,
        wanted: spec?.version,
        driver: status?.driver,
      })),
  };
}
