import type { KubeClient } from '../../kube/index.ts';

/** Exact Kubernetes version of the super cluster, as 1.36.3. */
export async function readSuperVersion(client: KubeClient, signal: AbortSignal): Promise<string> {
  const { gitVersion } = (await client.raw('GET', '/version', { signal })) as { gitVersion: string };
  return gitVersion.replace(/^v/, '');
}
