import { hash } from 'node:crypto';
import { annotationKeys, labelKeys } from '../../api/labels.ts';
import type { KubeObject } from '../../kube/index.ts';
import type { TenantInfo } from '../context.ts';

/** In how many parts replicas can share the super cluster's objects; as lasting as the labels that hold it. */
export const bucketCount = 64;

/** The bucket of a tenant, 0 to 63, from the UID of its VirtualCluster. */
export function bucketOf(virtualClusterUid: string): number {
  let bucket = known.get(virtualClusterUid);
  if (bucket === undefined) {
    bucket = Number.parseInt(hash('sha256', virtualClusterUid, 'hex').slice(0, 8), 16) % bucketCount;
    if (known.size >= maxKnown) known.clear();
    known.set(virtualClusterUid, bucket);
  }
  return bucket;
}

/** No state but a memory of what is a function of its argument: asked for at every comparison of two objects. */
const known = new Map<string, number>();
const maxKnown = 5_000;

/** Whether a key is Skerry's: such keys of a tenant never go down, those of the super object never come up. */
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
export function originalUid(object: KubeObject): string | undefined {
  return object.metadata.annotations?.[annotationKeys.uid];
}

/**
 * Whether a super object carries this tenant's mark: one that carries none is left alone (sync rule `unmarked-objects`).
 * Says nothing of which tenant object it was made from.
 */
export function isOurs(superObject: KubeObject, tenant: Pick<TenantInfo, 'uid'>): boolean {
  // The label alone proves nothing: controllers copy labels, a Service's onto its EndpointSlices for one.
  return tenantUidOf(superObject) === tenant.uid && originalUid(superObject) !== undefined;
}

/**
 * Whether a super object is the tenant object's own by its mark, which names a UID that cannot be guessed, but has
 * no label of any tenant.
 */
export function hasLostItsLabel(superObject: KubeObject, tenantObject: KubeObject): boolean {
  const { uid } = tenantObject.metadata;
  return uid !== undefined && originalUid(superObject) === uid && tenantUidOf(superObject) === undefined;
}
