import { isNotFound, type KubeClient, type KubeObject, type Resource } from '../../kube/index.ts';
import type { SyncedKind } from '../kinds/index.ts';

/** The resource whose objects go when this copy is deleted; `undefined`: nothing else goes. */
export function copyContents(kind: SyncedKind, copy: KubeObject | undefined): Resource | undefined {
  return kind.direction === 'up' && copy !== undefined ? kind.contents?.(copy) : undefined;
}

/** Whether a server has any objects of a resource. It has none of one that it does not serve. */
export async function hasObjects(
  client: KubeClient,
  resource: Resource,
  signal: AbortSignal,
): Promise<boolean> {
  try {
    const { items } = await client.list(resource, { limit: 1, signal });
    return items.length > 0;
  } catch (error) {
    if (isNotFound(error)) return false;
    throw error;
  }
}
