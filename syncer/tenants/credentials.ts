import {
  type ConnectionOptions,
  connectionFromSecret,
  type KubeClient,
  type KubeObject,
  resources,
} from '../../kube/index.ts';
import type { VirtualCluster } from './virtual-cluster.ts';

/** How to reach a tenant's API server, and a mark that changes when the credentials do. */
export interface Credentials {
  readonly connection: ConnectionOptions;
  readonly version: string;
}

/** Reads the syncer's credentials for a tenant from the Secret that the manager keeps for it. */
export async function readCredentials(
  superClient: KubeClient,
  vc: VirtualCluster,
  signal: AbortSignal,
): Promise<Credentials> {
  const reference = vc.status?.syncerSecret;
  const { namespace } = vc.metadata;
  if (reference === undefined || namespace === undefined) {
    throw new Error(`VirtualCluster ${namespace}/${vc.metadata.name} names no Secret for the syncer`);
  }
  const secret = await superClient.get<KubeObject & { data?: Record<string, string> }>(
    resources.secrets,
    { namespace, name: reference.name },
    { signal },
  );
  const encoded = secret.data?.[reference.key];
  if (encoded === undefined) {
    throw new Error(`Secret ${namespace}/${reference.name} has no key ${reference.key}`);
  }
  return {
    connection: connectionFromSecret(Buffer.from(encoded, 'base64').toString('utf8')),
    version: encoded,
  };
}
