import { type KubeObject, resources } from '../../../kube/index.ts';
import { isOurs, tenantNamespaceOf, uidMark } from '../../mapping/index.ts';
import type { SyncContext } from '../context.ts';

export interface ClaimRef {
  apiVersion?: string;
  kind?: string;
  namespace?: string;
  name?: string;
  uid?: string;
  [field: string]: unknown;
}

export interface Volume extends KubeObject {
  spec?: { claimRef?: ClaimRef; [field: string]: unknown };
  status?: { phase?: string; message?: string; reason?: string; [field: string]: unknown };
}

export function claimRefOf(volume: KubeObject): ClaimRef | undefined {
  return (volume as Volume).spec?.claimRef;
}

/**
 * The tenant's claim that a volume of the super cluster is bound to. Names are not enough: the volume
 * must be S's by UID, and S must be made from the T that is there now.
 */
export function tenantClaimOf(superObject: KubeObject, context: SyncContext): KubeObject | undefined {
  const ref = claimRefOf(superObject);
  if (ref?.namespace === undefined || ref.name === undefined || ref.uid === undefined) return undefined;
  const superNamespace = context.superObjects.get(resources.namespaces, { name: ref.namespace });
  if (superNamespace === undefined || !isOurs(superNamespace, context.tenant)) return undefined;
  const namespace = tenantNamespaceOf(superNamespace);
  if (namespace === undefined) return undefined;
  const claim = { namespace: ref.namespace, name: ref.name };
  const superClaim = context.superObjects.get(resources.persistentVolumeClaims, claim);
  if (superClaim === undefined || superClaim.metadata.uid !== ref.uid) return undefined;
  const own = context.tenantObjects.get(resources.persistentVolumeClaims, { namespace, name: ref.name });
  return own !== undefined && uidMark(superClaim) === own.metadata.uid ? own : undefined;
}
