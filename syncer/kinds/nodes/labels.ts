import type { SyncContext } from '../kind.ts';
import type { Node } from './model.ts';

/** What a tenant may know of where its pods run. */
const copiedLabels: ReadonlySet<string> = new Set([
  'kubernetes.io/os',
  'kubernetes.io/arch',
  'kubernetes.io/hostname',
  'topology.kubernetes.io/zone',
  'topology.kubernetes.io/region',
  // Simulated nodes are to be told from real ones, on every side.
  'skerry.dev/simulated',
  'type',
]);

/** Whether a label of a node belongs to the super cluster. */
export function isCopiedLabel(key: string, context: SyncContext): boolean {
  return (
    copiedLabels.has(key) || context.tenant.transparentKeyPrefixes.some((prefix) => key.startsWith(prefix))
  );
}

export function labelsFor(superObject: Node, context: SyncContext): Record<string, string> {
  const labels = Object.entries(superObject.metadata.labels ?? {});
  return Object.fromEntries(labels.filter(([key]) => isCopiedLabel(key, context)));
}
