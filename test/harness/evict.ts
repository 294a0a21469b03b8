import { type KubeClient, type KubeObject, resources } from '../../kube/index.ts';

/** Evicts a pod, as a drain does; gives the status code of the answer. */
export async function evict(client: KubeClient, pod: KubeObject | undefined): Promise<number> {
  const { namespace = '', name = '' } = pod?.metadata ?? {};
  const eviction = { apiVersion: 'policy/v1', kind: 'Eviction', metadata: { namespace, name } };
  try {
    await client.createSubresource(resources.pods, { namespace, name }, 'eviction', eviction);
    return 201;
  } catch (error) {
    return (error as { code: number }).code;
  }
}
