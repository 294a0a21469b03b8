import type { SyncContext } from '../context.ts';
import { missingEphemeral } from './ephemeral.ts';
import { isResized } from './resize.ts';
import { specPatch } from './spec-patch.ts';
import { isDeleting, type Pod } from './types.ts';

/** Whether S has the spec made from T's present generation (sync rule 20). A deletion counts as one. */
export function hasPresentSpec(tenantPod: Pod, superPod: Pod, context: SyncContext): boolean {
  return (
    (isDeleting(superPod) || !isDeleting(tenantPod)) &&
    specPatch(tenantPod, superPod) === undefined &&
    !isResized(tenantPod, superPod) &&
    missingEphemeral(tenantPod, superPod, context).length === 0
  );
}
