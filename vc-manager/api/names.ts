/** Group of every object of Skerry. */
export const group = 'skerry.dev';
export const version = 'v1alpha1';
export const apiVersion = `${group}/${version}`;

/** Held by the manager on a VirtualCluster until everything that belongs to it is gone. */
export const finalizer = 'skerry.dev/control-plane';

/** Labels and annotations that the manager writes or reads in the super cluster. */
export const keys = {
  /** Label: UID of the VirtualCluster that an object was made for. */
  tenant: 'skerry.dev/tenant',
  /** Label: name of the VirtualCluster that a Secret belongs to. */
  virtualCluster: 'skerry.dev/virtualcluster',
  /** Label on an IPAddress: what the address is kept for. */
  reserved: 'skerry.dev/reserved',
  /** Label on a class of the super cluster: every tenant may use it. */
  public: 'skerry.dev/public',
  /** Annotation: `status.id`. Set before the first reconcile, it restores a control plane of that id. */
  id: 'skerry.dev/id',
  /** Label on what is part of an addon in a tenant: which one. */
  addon: 'skerry.dev/addon',
  /** Annotation on it: what it was made from. */
  addonHash: 'skerry.dev/addon-hash',
  /** Annotation: id of the job that is to be cancelled. */
  cancelJob: 'skerry.dev/cancel-job',
  /** Annotation: a new value asks for another try at once, also of what was cancelled. */
  retryJob: 'skerry.dev/retry-job',
  /** Annotation: a new value asks for new certificates at once. */
  renewCertificates: 'skerry.dev/renew-certificates',
  managedBy: 'app.kubernetes.io/managed-by',
} as const;

const labelPattern = /^[a-z0-9]([-a-z0-9]*[a-z0-9])?$/;
const labelMaxLength = 63;

/** Root of all names of a control plane: it stands in paths, etcd keys and certificate names. */
export const idPattern = /^[a-z0-9]{6,20}$/;

/**
 * Why `name` cannot be the name of a VirtualCluster or a namespace, in Kubernetes' words; undefined if it
 * can. Both must be RFC 1123 labels: they become label values and parts of namespace names.
 */
export function validateName(name: string): string | undefined {
  if (name === '') return 'a name is required';
  if (name.length > labelMaxLength)
    return `must be no more than ${labelMaxLength} characters (it has ${name.length})`;
  if (!labelPattern.test(name)) {
    return (
      "a lowercase RFC 1123 label must consist of lower case alphanumeric characters or '-', and must start " +
      `and end with an alphanumeric character (e.g. 'my-name',  or '123-abc', regex used for validation is ` +
      `'[a-z0-9]([-a-z0-9]*[a-z0-9])?')`
    );
  }
  return undefined;
}

/** Names of the Secrets of a VirtualCluster; they live in its namespace. */
export function secretNames(virtualCluster: string): { pki: string; kubeconfig: string; syncer: string } {
  return {
    pki: `${virtualCluster}-pki`,
    kubeconfig: `${virtualCluster}-kubeconfig`,
    syncer: `${virtualCluster}-syncer`,
  };
}

/** Key of a kubeconfig in the data of its Secret. */
export const kubeconfigKey = 'kubeconfig';
