/** Finalizer: held by the manager on a VirtualCluster until everything that belongs to it is gone. */
export const finalizer = 'skerry.dev/control-plane';

/** Keys of the labels that Skerry writes or reads in the super cluster and in tenants (sync rule `ownership-labels`). */
export const labelKeys = {
  /** On everything made for a tenant in the super cluster: UID of its VirtualCluster. */
  tenant: 'skerry.dev/tenant',
  /** On a Secret of a control plane: name of the VirtualCluster. */
  virtualCluster: 'skerry.dev/virtualcluster',
  /** `0`..`63`, so that a replica of the syncer can watch its share. */
  bucket: 'skerry.dev/bucket',
  /** The tenant's namespace; on a super namespace, the one that it stands for. */
  namespace: 'skerry.dev/namespace',
  /** On a Secret of the syncer, with tokens that a pod of the tenant has asked for. */
  token: 'skerry.dev/token',
  /** On a ConfigMap or Secret of the syncer, for pods that went down before the tenant had it. */
  late: 'skerry.dev/late',
  /**
   * `true`: the tenant wants this object mirrored although no pod uses it. `false`, on a Service or an EndpointSlice:
   * it stays in the tenant.
   */
  sync: 'skerry.dev/sync',
  /** `true`, on an object of the super cluster, such as a class: every tenant may use it. */
  public: 'skerry.dev/public',
  /** On an IPAddress: what the address is kept for. */
  reserved: 'skerry.dev/reserved',
  /** On an object of an addon in a tenant: name of the addon. */
  addon: 'skerry.dev/addon',
  /** On a NetworkPolicy of the syncer's own, which keeps tenants apart. */
  isolation: 'skerry.dev/isolation',
  /** On a pod in the super cluster: a NetworkPolicy of the tenant says who may reach it. */
  ownIngress: 'skerry.dev/own-ingress',
  /** On a pod in the super cluster: a NetworkPolicy of the tenant says what it may reach. */
  ownEgress: 'skerry.dev/own-egress',
  /** On a Lease of the syncer: `vc-syncer`. On an object of a control plane: the component. */
  component: 'skerry.dev/component',
  /** On a node or volume that is only simulated. */
  simulated: 'skerry.dev/simulated',
  /** On a Lease of the gateway: id of the tenant that it says something of. */
  activity: 'skerry.dev/activity',
  /** On a VirtualCluster in Skerry's own namespace: it waits for an owner (`isWarmPoolMember`). */
  warm: 'skerry.dev/warm',
  /** On what belongs to a control plane, and on the namespace that it has in the super cluster: `status.id`. */
  id: 'skerry.dev/id',
  managedBy: 'app.kubernetes.io/managed-by',
} as const;

/** On the Leases of all replicas of the syncer. */
export const syncerLabel = { [labelKeys.component]: 'vc-syncer' } as const;
export const syncerSelector = `${labelKeys.component}=${syncerLabel[labelKeys.component]}`;

/** Keys of the annotations that Skerry writes or reads in the super cluster and in tenants. */
export const annotationKeys = {
  /**
   * `namespace/name` of the VirtualCluster: on a super object for people, on a Secret in Skerry's own namespace to say
   * whose it is.
   */
  tenantName: 'skerry.dev/tenant-name',
  /** UID of the original: on a super object that of the tenant object, on a copy in a tenant that of the super object. */
  uid: 'skerry.dev/uid',
  /** On a super object, which has no owners itself: the owners of the tenant object, as JSON. */
  ownerReferences: 'skerry.dev/owner-references',
  /**
   * On a super pod: names of the containers that it has from the tenant object, separated by commas: those that it was
   * made with, and ephemeral ones since. What else runs in the pod is the super cluster's.
   */
  containers: 'skerry.dev/containers',
  /** On a super pod: sources of volumes that it has from the tenant object and that policy has to allow, as JSON. */
  volumes: 'skerry.dev/volumes',
  /** On a super pod: repositories of the images that its containers have from the tenant object, as JSON. */
  images: 'skerry.dev/images',
  /**
   * JSON with the keys of labels (`l`) and annotations (`a`) that came from the tenant object, so that a key which that
   * has dropped is not taken for one that was added in the super cluster.
   */
  syncedKeys: 'skerry.dev/synced-keys',
  /** On a bound tenant pod: UID of the super object that it is bound for. Put there by the Binding. */
  superUid: 'skerry.dev/super-uid',
  /** On a Secret with tokens: what the tokens are, and when they are renewed. */
  tokens: 'skerry.dev/tokens',
  /** On a Secret with tokens: name of the pod. */
  pod: 'skerry.dev/pod',
  /** On a VirtualCluster: `status.id`. Set before the first reconcile, it restores a control plane of that id. */
  id: 'skerry.dev/id',
  /** On a VirtualCluster: id of the job that is to be cancelled. */
  cancelJob: 'skerry.dev/cancel-job',
  /** On a VirtualCluster: a new value asks for another try at once, also of what was cancelled. */
  retryJob: 'skerry.dev/retry-job',
  /** On a VirtualCluster: a new value asks for new certificates at once. */
  renewCertificates: 'skerry.dev/renew-certificates',
  /**
   * On a VirtualCluster: a new value asks for new authorities and a new key for tokens. With `overlap=SECONDS` at its end the
   * old ones are trusted for so long; 0: they are not.
   */
  renewAuthorities: 'skerry.dev/renew-authorities',
  /** On a VirtualCluster: a new value asks for a new key for what is encrypted in the datastore. */
  rotateEncryptionKey: 'skerry.dev/rotate-encryption-key',
  /** On a VirtualCluster: a new value asks for a snapshot of what it has in the datastore; with ` certificates` at its end with authorities and token key. */
  snapshot: 'skerry.dev/snapshot',
  /** On a VirtualCluster: a new value asks that it be put back to the snapshot that `restoreFrom` names; ` certificates` as above. */
  restore: 'skerry.dev/restore',
  /** On a VirtualCluster: name of the snapshot that `restore` is about. */
  restoreFrom: 'skerry.dev/restore-from',
  /** On a VirtualCluster: a new value asks that its control plane be stopped until it is used again. */
  sleep: 'skerry.dev/sleep',
  /** On a VirtualCluster: a new value asks that its control plane be started. */
  wake: 'skerry.dev/wake',
  /** On the activity Lease of a tenant: when its control plane was last needed while it was asleep. */
  wakeRequested: 'skerry.dev/wake-requested',
  /** On the activity Lease of a tenant, with `wakeRequested`: why, one of `LeaseWakeReason`. */
  wakeReason: 'skerry.dev/wake-reason',
  /** On a warm VirtualCluster: `UID/namespace/name` of the one that its control plane is for, and of no other. */
  warmFor: 'skerry.dev/warm-for',
  /** On a VirtualCluster: confirms the deletions that the condition `DeletionHeld` reports. */
  confirmDeletions: 'skerry.dev/confirm-deletions',
  /** On a VirtualCluster: accepts the identity that the condition `IdentityMismatch` reports. */
  acceptIdentity: 'skerry.dev/accept-identity',
  /** On a Lease in a tenant's kube-system: how far the super cluster had come, as `UID@resourceVersion`. */
  superCluster: 'skerry.dev/super-cluster',
  /** On an object of an addon in a tenant: hash of what it was made from. */
  addonHash: 'skerry.dev/addon-hash',
  /** On the Lease of a syncer: the URL of its metrics and traces. */
  metricsAddress: 'skerry.dev/metrics-address',
  /** On the Lease of a syncer and of the leading manager: `VERSION IDENTITY` of who holds it. */
  version: 'skerry.dev/version',
} as const;
