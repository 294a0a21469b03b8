/** Group of every object of Skerry. */
export const group = 'skerry.dev';
export const version = 'v1alpha1';
export const apiVersion = `${group}/${version}` as const;

/** Namespace of Skerry's own objects, unless the operator names another. */
export const defaultSystemNamespace = 'skerry-system';

const labelPattern = /^[a-z0-9]([-a-z0-9]*[a-z0-9])?$/;
const labelMaxLength = 63;

/** Root of all names of a control plane: it stands in paths, etcd keys and certificate names. */
export const idPattern = /^[a-z0-9]{6,20}$/;

/**
 * Why `name` cannot be the name of a VirtualCluster or a namespace, in Kubernetes' words; undefined if it
 * can. Both must be RFC 1123 labels: they become label values and parts of namespace names.
 */
export function nameProblem(name: string): string | undefined {
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

/** What a control plane's id follows where it stands for its name. */
const beforeId = /\b(?:of|[Cc]ontrol plane|[Tt]enant) $/;

/** A message of a driver or the datastore, which know a control plane by its id only, with the name that people know. */
export function nameTenant(message: string, id: string, name: string): string {
  const [first = '', ...others] = message.split(id);
  let named = first;
  for (const [index, after] of others.entries()) {
    const isName =
      index === 0 && first === '' ? after.startsWith(' has ') : beforeId.test(named) && !/^[-\w]/.test(after);
    named += (isName ? name : id) + after;
  }
  return named;
}

/** A client that looks for the server `background-<server name>` at the gateway neither wakes a tenant nor keeps it awake. */
export const backgroundPrefix = 'background-';

/** Names of the Secrets of a VirtualCluster that are in its namespace, for its owner to read. */
export function secretNames(virtualCluster: string): { kubeconfig: string } {
  return { kubeconfig: `${virtualCluster}-kubeconfig` };
}

/** Names of the Secrets of a control plane that are in Skerry's own namespace, by `status.id`. */
export function internalSecretNames(id: string): { pki: string; syncer: string } {
  return { pki: `tenant-${id}-pki`, syncer: `tenant-${id}-syncer` };
}

/** What earlier versions called these, in the namespace of the VirtualCluster. */
export function formerSecretNames(virtualCluster: string): { pki: string; syncer: string } {
  return { pki: `${virtualCluster}-pki`, syncer: `${virtualCluster}-syncer` };
}

/** Secret in Skerry's own namespace from which the syncer takes the certificate that it presents to tenants. */
export const kubeletProxySecretName = 'skerry-kubelet-proxy';

/** Key of a kubeconfig in the data of its Secret. */
export const kubeconfigKey = 'kubeconfig';

/**
 * Lease in Skerry's own namespace by which the gateway says when a tenant was last used: in `spec.renewTime`, and in the
 * annotation `skerry.dev/wake-requested` while it is asleep.
 */
export function activityLeaseName(id: string): string {
  return `tenant-${id}-activity`;
}
