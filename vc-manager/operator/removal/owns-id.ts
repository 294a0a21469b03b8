import { annotationKeys } from '../../../api/labels.ts';
import { idPattern } from '../../../api/names.ts';
import type { Services } from '../services.ts';
import type { Tenant } from '../tenant.ts';

/**
 * The id under which things of this tenant may lie: from the status or, when the manager died before it
 * wrote that, from the annotation, which it writes first. Undefined when there is none, or when it is
 * another VirtualCluster's: an annotation is easily edited.
 */
export function ownsId(tenant: Tenant, { claims }: Services): string | undefined {
  const id = tenant.vc.status?.id ?? tenant.vc.metadata.annotations?.[annotationKeys.id];
  if (id === undefined || !idPattern.test(id)) return undefined;
  return claims.holderOfId(id, tenant.uid) === undefined ? id : undefined;
}
