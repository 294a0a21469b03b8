import { goesDown, type SuperMetadataOptions } from '../../mapping/index.ts';
import type { TenantInfo } from '../context.ts';

/** Each side's API server puts these on a pod when it is bound, from the node's labels. */
const placedKeys = new Set(['topology.kubernetes.io/zone', 'topology.kubernetes.io/region']);

/** What of a pod's labels and annotations goes down: not what binding it has added. */
export function podMetadataOptions(tenant: TenantInfo): SuperMetadataOptions {
  return { goesDown: (key) => !placedKeys.has(key) && goesDown(key, tenant) };
}
