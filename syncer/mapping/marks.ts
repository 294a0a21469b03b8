import type { KubeObject } from '../../kube/index.ts';
import type { TenantInfo } from '../kinds/index.ts';

/** Keys of the labels and annotations that are Skerry's own (sync rules §1). */
export const marks = {
  /** Label: UID of the VirtualCluster. */
  tenant: 'skerry.dev/tenant',
  /** Label: `0`..`63`, so that a replica can watch its share. */
  bucket: 'skerry.dev/bucket',
  /** Label: the tenant's namespace; on a super namespace, the one that it stands for. */
  namespace: 'skerry.dev/namespace',
  /** Annotation: `namespace/name` of the VirtualCluster, for people. */
  tenantName: 'skerry.dev/tenant-name',
  /** Annotation: UID of the original, on S that of T, on a copy in a tenant that of S. */
  uid: 'skerry.dev/uid',
  /** Annotation: T's owners as JSON; S itself has none. */
  ownerReferences: 'skerry.dev/owner-references',
  /**
   * Annotation: JSON with the keys of labels (`l`) and annotations (`a`) that came from T, so that a
   * key which T has dropped can be told from one that somebody in the super cluster added.
   */
  syncedKeys: 'skerry.dev/synced-keys',
  /** Annotation on a bound tenant pod: UID of the S that it is bound for. Put there by the Binding. */
  superUid: 'skerry.dev/super-uid',
  /** Label: a Secret of Skerry's own, with tokens that a pod of the tenant has asked for. */
  token: 'skerry.dev/token',
  /** Annotation on it: what the tokens are, and when they are renewed. */
  tokens: 'skerry.dev/tokens',
  /** Annotation on it: name of the pod. */
  pod: 'skerry.dev/pod',
  /**
   * Label: `true`: the tenant wants this object down although no pod uses it. `false`, on a Service or a
   * slice: it is the tenant's alone and never goes down.
   */
  sync: 'skerry.dev/sync',
  /** Label: the super cluster offers this object to its tenants. */
  public: 'skerry.dev/public',
} as const;

/** Whether a key is Skerry's: such keys of a tenant never go down, those of S never come up. */
export function isOwnKey(key: string): boolean {
  return key.startsWith('skerry.dev/');
}

/** The tenant that a super object is marked for, as the UID of its VirtualCluster. */
export function tenantUidOf(superObject: KubeObject): string | undefined {
  return superObject.metadata.labels?.[marks.tenant];
}

/** The tenant's namespace that a marked super object belongs to. */
export function tenantNamespaceOf(superObject: KubeObject): string | undefined {
  return superObject.metadata.labels?.[marks.namespace];
}

/** Whether a Service or a slice of a tenant is to stay where it is. */
export function staysInTenant(tenantObject: KubeObject): boolean {
  return tenantObject.metadata.labels?.[marks.sync] === 'false';
}

/** UID of the counterpart, as written when the object was made. */
export function uidMark(object: KubeObject): string | undefined {
  return object.metadata.annotations?.[marks.uid];
}

/** Whether a super object carries this tenant's mark. Says nothing of which T it was made from. */
export function isOurs(superObject: KubeObject, tenant: Pick<TenantInfo, 'uid'>): boolean {
  // The label alone proves nothing: controllers copy labels, a Service's onto its EndpointSlices for one.
  return tenantUidOf(superObject) === tenant.uid && uidMark(superObject) !== undefined;
}
