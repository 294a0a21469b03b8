import { annotationKeys } from '../../api/labels.ts';
import type { VirtualCluster } from '../../api/virtual-cluster.ts';
import {
  type ConnectionOptions,
  connectionFromSecret,
  decodeSecretData,
  type KubeClient,
  namespacedName,
  resources,
  type Secret,
} from '../../kube/index.ts';
import type { ClientAuthorities } from '../kubelet/kubelet-tenants.ts';

/** How to reach a tenant's API server, and a mark that changes when the credentials do. */
export interface Credentials {
  readonly connection: ConnectionOptions;
  /** What the tenant's API server proves itself with; undefined where the manager is older than that. */
  readonly authorities: ClientAuthorities | undefined;
  readonly version: string;
}

/**
 * Reads the syncer's credentials for a tenant from the Secret that the manager keeps for it in Skerry's own namespace. What
 * the owner of the VirtualCluster can write is not read.
 */
export async function readCredentials(
  superClient: KubeClient,
  systemNamespace: string,
  vc: VirtualCluster,
  signal: AbortSignal,
): Promise<Credentials> {
  const reference = vc.status?.syncerSecret;
  const key = namespacedName(vc.metadata);
  if (reference === undefined) throw new Error(`VirtualCluster ${key} names no Secret for the syncer`);
  const { namespace } = reference;
  if (namespace === undefined) {
    throw new Error(
      `the Secret for VirtualCluster ${key} is where an earlier vc-manager put it: upgrade vc-manager`,
    );
  }
  if (namespace !== systemNamespace) {
    throw new Error(
      `the Secret for VirtualCluster ${key} is in namespace ${namespace}, and this syncer reads ${systemNamespace} only: start it with --namespace ${namespace}`,
    );
  }
  const secret = await superClient.get<Secret>(
    resources.secrets,
    { namespace, name: reference.name },
    { signal },
  );
  if (secret.metadata.annotations?.[annotationKeys.tenantName] !== key) {
    throw new Error(`Secret ${namespace}/${reference.name} was not made for VirtualCluster ${key}`);
  }
  const data = decodeSecretData(secret);
  const kubeconfig = data[reference.key];
  if (kubeconfig === undefined) {
    throw new Error(`Secret ${namespace}/${reference.name} has no key ${reference.key}`);
  }
  const { 'kubelet-client-ca.crt': kubeletClient, 'front-proxy-ca.crt': frontProxy } = data;
  const isWhole = kubeletClient !== undefined && frontProxy !== undefined;
  return {
    connection: connectionFromSecret(kubeconfig),
    authorities: isWhole ? { kubeletClient, frontProxy } : undefined,
    version: JSON.stringify(secret.data),
  };
}
