import { labelKeys } from '../../../api/labels.ts';
import type { MergePatch } from '../../../kube/index.ts';
import { scrub, shownNodeName } from '../../mapping/index.ts';
import type { SyncContext } from '../context.ts';
import type { Node } from './model.ts';

const hostnameLabel = 'kubernetes.io/hostname';

/** What a tenant may know of where its pods run. */
const copiedLabels: ReadonlySet<string> = new Set([
  'kubernetes.io/os',
  'kubernetes.io/arch',
  hostnameLabel,
  'topology.kubernetes.io/zone',
  'topology.kubernetes.io/region',
  // Simulated nodes are to be told from real ones, on every side.
  labelKeys.simulated,
]);

/** Whether a label of a node belongs to the super cluster. */
function isCopiedLabel(key: string, { tenant }: SyncContext): boolean {
  return (
    copiedLabels.has(key) ||
    tenant.nodeLabels.some((listed) => (listed.endsWith('/') ? key.startsWith(listed) : key === listed)) ||
    tenant.transparentKeyPrefixes.some((prefix) => key.startsWith(prefix))
  );
}

/** The labels of the virtual node that are S's. Where nodes are hidden, one that names them is left out. */
export function labelsFor(superObject: Node, context: SyncContext): Record<string, string> {
  const { tenant } = context;
  const { name = '', labels = {} } = superObject.metadata;
  const shown: Record<string, string> = {};
  for (const [key, value] of Object.entries(labels)) {
    if (!isCopiedLabel(key, context)) continue;
    if (!tenant.hideNodes) shown[key] = value;
    else if (key === hostnameLabel) shown[key] = shownNodeName(tenant, name);
    else if (scrub(value, context) === value) shown[key] = value;
  }
  return shown;
}

/** Puts back the labels that are S's; the tenant's own stay. */
export function labelPatch(
  tenantObject: Node,
  wanted: Record<string, string>,
  context: SyncContext,
): MergePatch | undefined {
  const present = tenantObject.metadata.labels ?? {};
  const patch: MergePatch = {};
  for (const [key, value] of Object.entries(wanted)) {
    if (present[key] !== value) patch[key] = value;
  }
  for (const key of Object.keys(present)) {
    if (!(key in wanted) && isCopiedLabel(key, context)) patch[key] = null;
  }
  return Object.keys(patch).length === 0 ? undefined : patch;
}
