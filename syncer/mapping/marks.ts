import { annotationKeys, labelKeys } from '../../api/labels.ts';
import type { KubeObject } from '../../kube/index.ts';
import type { TenantInfo } from '../kinds/index.ts';

/** Whether a key is Skerry's: such keys of a tenant never go down, those of S never come up. */
export function isOwnKey(key: string): boolean {
  return key.startsWith('skerry.dev/');
}

/** The tenant that a super object is marked for, as the UID of its VirtualCluster. */
export function tenantUidOf(superObject: KubeObject): string | undefined {
  return superObject.metadata.labels?.[labelKeys.tenant];
}

/** The tenant's namespace that a marked super object belongs to. */
export function tenantNamespaceOf(superObject: KubeObject): string | undefined {
  return superObject.metadata.labels?.[labelKeys.namespace];
}

/** Whether a Service or a slice of a tenant is to stay where it is. */
export function staysInTenant(tenantObject: KubeObject): boolean {
  return tenantObject.metadata.labels?.[labelKeys.sync] === 'false';
}

/** UID of the counterpart, as written when the object was made. */
export function uidMark(object: KubeObject): string | undefined {
  return object.metadata.annotations?.[annotationKeys.uid];
}

/** Whether a super object carries this tenant's mark. Says nothing of which T it was made from. */
export function isOurs(superObject: KubeObject, tenant: Pick<TenantInfo, 'uid'>): boolean {
  // The label alone proves nothing: controllers copy labels, a Service's onto its EndpointSlices for one.
  return tenantUidOf(superObject) === tenant.uid && uidMark(superObject) !== undefined;
}
