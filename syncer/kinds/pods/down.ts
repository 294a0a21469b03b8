import { superMetadataPatch } from '../../mapping/index.ts';
import type { Action } from '../action.ts';
import type { SyncContext } from '../context.ts';
import { superGateConditions } from './conditions.ts';
import { podMetadataOptions } from './metadata.ts';
import { specPatch } from './spec-patch.ts';
import { isDeleting, type Pod } from './types.ts';

/** Sync rules 17 and 18: what the tenant may change of a pod, and the state of its readiness gates. */
export function podDown(tenantPod: Pod, superPod: Pod, context: SyncContext): readonly Action[] {
  const patch = {
    ...superMetadataPatch(tenantPod, superPod, context, podMetadataOptions(context.tenant)),
    ...(isDeleting(tenantPod) ? undefined : specPatch(tenantPod, superPod)),
  };
  if (Object.keys(patch).length > 0) return [{ do: 'patchSuper', patch }];
  const conditions = superGateConditions(tenantPod, superPod);
  if (conditions === undefined) return [];
  return [{ do: 'patchSuper', patch: { status: { conditions } }, subresource: 'status' }];
}
