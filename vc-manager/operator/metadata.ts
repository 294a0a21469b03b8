import type { VirtualCluster } from '../../api/virtual-cluster.ts';
import { isConflict, resources } from '../../kube/index.ts';
import { objectReplaced } from './errors.ts';
import type { Services } from './services.ts';
import type { Tenant } from './tenant.ts';

interface MetadataChange {
  finalizers?: string[];
  annotations?: Record<string, string>;
}

/**
 * Changes the VirtualCluster's own metadata; `change` says what, from what is there, or undefined for
 * nothing. Repeats itself when somebody else was faster.
 */
export async function changeMetadata(
  tenant: Tenant,
  { client }: Pick<Services, 'client'>,
  change: (current: VirtualCluster) => MetadataChange | undefined,
): Promise<void> {
  const { signal } = tenant;
  for (let current = tenant.vc; ; ) {
    const wanted = change(current);
    if (wanted === undefined) return;
    const { uid, resourceVersion } = current.metadata;
    try {
      const patch = { metadata: { ...wanted, uid, resourceVersion } };
      const changed = await client.patch<VirtualCluster>(resources.virtualClusters, tenant.ref, patch, {
        type: 'merge',
        signal,
      });
      tenant.status.adopt(changed);
      return;
    } catch (error) {
      if (!isConflict(error)) throw error;
    }
    current = await client.get<VirtualCluster>(resources.virtualClusters, tenant.ref, { signal });
    if (current.metadata.uid !== tenant.uid) throw objectReplaced(tenant.key);
  }
}
