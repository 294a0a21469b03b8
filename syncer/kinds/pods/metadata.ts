import { goesDown, type SuperMetadataOptions, scrub } from '../../mapping/index.ts';
import type { SyncContext, TenantInfo } from '../context.ts';
import type { Pod } from './types.ts';

/** An API server puts these on a pod when it is bound, from the labels of a node that it knows by then. */
const placedKeys = new Set(['topology.kubernetes.io/zone', 'topology.kubernetes.io/region']);

/** The labels of S that binding it has added; undefined without any. Where nodes are hidden, one that names them is left out. */
export function placedLabels({ metadata }: Pod, context: SyncContext): Record<string, string> | undefined {
  const { hideNodes } = context.tenant;
  const placed = Object.entries(metadata.labels ?? {}).filter(
    ([key, value]) => placedKeys.has(key) && (!hideNodes || scrub(value, context) === value),
  );
  return placed.length === 0 ? undefined : Object.fromEntries(placed);
}

/** What of a pod's labels and annotations goes down: not what binding it has added. */
export function podMetadataOptions(tenant: TenantInfo): SuperMetadataOptions {
  return { goesDown: (key) => !placedKeys.has(key) && goesDown(key, tenant) };
}
