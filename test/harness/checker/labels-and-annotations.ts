import type { KubeObject } from '../../../kube/index.ts';
import { annotation, label, unequal, type View } from './view.ts';

/** Sync rules `ownership-labels` and `denied-metadata`. The operator's own additions are not known here: suites that add some say so. */
const denied = [
  'skerry.dev/',
  'pod-security.kubernetes.io/',
  'scheduler.alpha.kubernetes.io/',
  'kubernetes.io/config.',
  'k8s.v1.cni.cncf.io/',
  'cni.projectcalico.org/',
  'external-dns.',
  'pv.kubernetes.io/',
  'volume.kubernetes.io/',
  'volume.beta.kubernetes.io/',
  'seccomp.security.alpha.kubernetes.io/',
  'container.apparmor.security.beta.kubernetes.io/',
];

/**
 * Of annotations only these go down, beside keys without a dot or a prefix (sync rule
 * `allowed-annotations`), and those that tell simulated nodes what pods do, which the local stack adds.
 */
const allowedAnnotations =
  /^[^./]+$|^(app\.kubernetes\.io|batch\.kubernetes\.io|checksum|helm\.sh|prometheus\.io|simulation\.skerry\.dev)\/|^controller\.kubernetes\.io\/pod-deletion-cost$|^kubectl\.kubernetes\.io\/(default-container|restartedAt)$|^kubernetes\.io\/(change-cause|description)$|^service\.kubernetes\.io\/topology-mode$/;

/** The same of labels, but those of pods (sync rule `allowed-labels`); the last three are those of EndpointSlices. */
const allowedLabels =
  /^[^./]+$|^(app\.kubernetes\.io|helm\.sh|prometheus\.io|endpointslice\.kubernetes\.io)\/|^kubernetes\.io\/service-name$|^service\.kubernetes\.io\/headless$/;

/** What Kubernetes itself writes on objects of the super cluster, for which no T is answerable. */
const superClustersOwn = [
  'skerry.dev/',
  'pv.kubernetes.io/',
  'volume.kubernetes.io/',
  'volume.beta.kubernetes.io/',
  'endpointslice.kubernetes.io/managed-by',
  'pod-security.kubernetes.io/',
  'kubernetes.io/metadata.name',
];

/** Every S carries the tenant, a bucket, the namespace, the name of the VirtualCluster and T's UID; no owners, no finalizers of T. */
export function compareLabelsAndAnnotations(
  { tenant }: View,
  own: KubeObject,
  superObject: KubeObject,
  namespace = own.metadata.namespace,
): string[] {
  const found: string[] = [];
  const want = (what: string, wanted: string | undefined, present: string | undefined): void => {
    if (wanted !== present) found.push(`${what} is ${present ?? 'missing'}, not ${wanted}`);
  };
  want('label skerry.dev/tenant', tenant.uid, label(superObject, 'skerry.dev/tenant'));
  want('label skerry.dev/namespace', namespace, label(superObject, 'skerry.dev/namespace'));
  want('annotation skerry.dev/uid', own.metadata.uid, annotation(superObject, 'skerry.dev/uid'));
  want(
    'annotation skerry.dev/tenant-name',
    `${tenant.namespace}/${tenant.name}`,
    annotation(superObject, 'skerry.dev/tenant-name'),
  );
  const bucket = label(superObject, 'skerry.dev/bucket') ?? '';
  if (!/^([0-9]|[1-5][0-9]|6[0-3])$/.test(bucket)) found.push(`label skerry.dev/bucket is "${bucket}"`);
  const owners = own.metadata.ownerReferences ?? [];
  const written = annotation(superObject, 'skerry.dev/owner-references') ?? '[]';
  found.push(...unequal(owners, JSON.parse(written), 'owners, as annotation'));
  if ((superObject.metadata.ownerReferences ?? []).length > 0) found.push('it has ownerReferences');
  for (const finalizer of own.metadata.finalizers ?? []) {
    const isKubernetes = finalizer.startsWith('kubernetes.io/');
    if (!isKubernetes && superObject.metadata.finalizers?.includes(finalizer)) {
      found.push(`it has the tenant's finalizer ${finalizer}`);
    }
  }
  return found;
}

/** The tenant's labels and annotations are there, those that were removed are not, and the denied never were. */
export function compareKeys(
  own: KubeObject,
  superObject: KubeObject,
  options: {
    except?: readonly string[];
    allAnnotations?: boolean;
    allLabels?: boolean;
    /** Keys without a dot or a prefix stay behind, too. */
    noPlainKeys?: boolean;
  } = {},
): string[] {
  const except = options.except ?? [];
  return (['labels', 'annotations'] as const).flatMap((field) => {
    const wanted = own.metadata[field] ?? {};
    const present = superObject.metadata[field] ?? {};
    const found: string[] = [];
    const [all, allowed] =
      field === 'labels' ? [options.allLabels, allowedLabels] : [options.allAnnotations, allowedAnnotations];
    const isDenied = (key: string): boolean =>
      startsWithAny(key, denied) ||
      (all !== true && !allowed.test(key)) ||
      (options.noPlainKeys === true && !/[./]/.test(key));
    for (const [key, value] of Object.entries(wanted)) {
      if (isDenied(key) || except.includes(key)) continue;
      if (present[key] !== value) found.push(...unequal(value, present[key], `${field} ${key}`));
    }
    for (const key of Object.keys(present)) {
      if (key in wanted && isDenied(key) && !startsWithAny(key, superClustersOwn)) {
        found.push(`${field} ${key} went down although it is denied`);
      }
      if (!(key in wanted) && !startsWithAny(key, superClustersOwn) && !except.includes(key)) {
        found.push(`${field} ${key} is not the tenant's (any more)`);
      }
    }
    return found;
  });
}

function startsWithAny(key: string, prefixes: readonly string[]): boolean {
  return prefixes.some((prefix) => key.startsWith(prefix));
}
