import { annotationKeys, labelKeys } from '../../api/labels.ts';
import {
  type KubeObject,
  type MergePatch,
  mergePatch,
  namespacedName,
  type ObjectMeta,
} from '../../kube/index.ts';
import type { TenantInfo } from '../context.ts';
import { bucketOf, isOwnKey } from './labels.ts';
import { superNamespaceName } from './names.ts';

/**
 * Labels and annotations of a tenant that never go down, by prefix: they would change what the super
 * cluster's own components do. An operator can add to these.
 */
export const defaultDeniedKeyPrefixes: readonly string[] = [
  // Admission and scheduling of the super cluster.
  'pod-security.kubernetes.io/',
  'scheduler.alpha.kubernetes.io/',
  'kubernetes.io/config.',
  'seccomp.security.alpha.kubernetes.io/',
  'container.seccomp.security.alpha.kubernetes.io/',
  'container.apparmor.security.beta.kubernetes.io/',
  // Networks, addresses and interfaces to be had for the asking.
  'k8s.v1.cni.cncf.io/',
  'v1.multus-cni.io/',
  'cni.projectcalico.org/',
  'ipam.cilium.io/',
  'k8s.ovn.org/',
  'ovn.kubernetes.io/',
  'external-dns.',
  // Identities at cloud providers.
  'eks.amazonaws.com/',
  'iam.amazonaws.com/',
  'iam.gke.io/',
  'azure.workload.identity/',
  'aadpodidbinding',
  // Devices and mounts that container runtimes hand out by annotation.
  'cdi.k8s.io/',
  'devices.nri.io/',
  'mounts.nri.io/',
  'io.kubernetes.cri-o.',
  'io.katacontainers.',
  'org.systemd.property.',
  // Bookkeeping of the volume controllers.
  'pv.kubernetes.io/',
  'volume.kubernetes.io/',
  'volume.beta.kubernetes.io/',
];

/**
 * The labels and annotations of a tenant's Namespace that go down, by whole key. Policies of the super
 * cluster select namespaces by label, so this holds nothing that one would select by.
 */
export const namespaceAllowedKeys: readonly string[] = ['kubernetes.io/description'];

/**
 * Labels of pods that do not go down either: meshes, agents, schedulers and operators of the super cluster act on them
 * in any namespace. Domains, with all below them. Pods have no allow-list, as Services, NetworkPolicies, budgets and
 * affinities of the tenant, now and later, select by any label; so none is here by which widespread software selects its
 * own pods (Gatekeeper, Knative, Strimzi and the like).
 */
const deniedPodDomains: ReadonlySet<string> = new Set([
  // Meshes and networks.
  'cilium.io',
  'dapr.io',
  'istio.io',
  'kuma.io',
  'linkerd.io',
  'networking.k8s.io',
  'projectcalico.org',
  'telepresence.io',
  // Identities and secrets.
  'bank-vaults.io',
  'banzaicloud.io',
  'hashicorp.com',
  'spiffe.io',
  // Cloud providers, and where they run pods without nodes.
  'alibabacloud.com',
  'aliyun.com',
  'amazon.com',
  'amazonaws.com',
  'azure.com',
  'gke.io',
  'google.com',
  'k8s.aws',
  'openshift.io',
  'tencent.com',
  'virtual-kubelet.io',
  'volcengine.com',
  // Observation, and what it injects.
  'datadoghq.com',
  'dynatrace.com',
  'newrelic.com',
  'opentelemetry.io',
  // Admission and protection, and exemptions from them.
  'admission.gatekeeper.sh',
  'falcon-system.crowdstrike.com',
  'hami.io',
  'kubescape.io',
  'kyverno.io',
  'openpolicyagent.org',
  'sigstore.dev',
  'stackrox.io',
  // Scheduling, scaling, and what keeps nodes from being emptied.
  'cast.ai',
  'karpenter.sh',
  'keda.sh',
  'koordinator.sh',
  'run.ai',
  'spotinst.io',
  'yunikorn.apache.org',
  // Delivery, backup and tests.
  'argoproj.io',
  'chaos-mesh.org',
  'fluxcd.io',
  'velero.io',
]);

/** The same by prefixes of keys, where others of the domain are needed, or there is none. */
const deniedPodPrefixes: readonly string[] = [
  'addonmanager.kubernetes.io/',
  'bindings.knative.dev/',
  'cluster-autoscaler.kubernetes.io/',
  'descheduler.alpha.kubernetes.io/',
  'io.cilium',
  'kai.scheduler/',
  'kube-monkey/',
  'kueue.x-k8s.io/',
  'runai/',
  'webhooks.knative.dev/',
];

/** Whether a label of a pod goes down (sync rule `denied-metadata`). */
export function podLabelGoesDown(key: string, tenant: LabelRules): boolean {
  if (!goesDown(key, tenant)) return false;
  return isPlain(key) || !isDeniedOnPods(key) || isListed(key, tenant.allowedLabels);
}

function isDeniedOnPods(key: string): boolean {
  let domain = key.slice(0, Math.max(key.indexOf('/'), 0));
  while (domain !== '') {
    if (deniedPodDomains.has(domain)) return true;
    const dot = domain.indexOf('.');
    domain = dot === -1 ? '' : domain.slice(dot + 1);
  }
  return hasPrefix(key, deniedPodPrefixes);
}

/**
 * Labels of other objects than pods that go down beside those whose keys have neither a prefix nor a dot (of ConfigMaps and
 * Secrets these alone, see `listedKeys`): keys, or prefixes that end in `/`. Nothing of a tenant's selects such objects in the super cluster, while controllers there do: a
 * load balancer finds the Services of its pools by label, in any namespace. An operator can add to these.
 */
export const defaultAllowedLabels: readonly string[] = ['app.kubernetes.io/', 'helm.sh/', 'prometheus.io/'];

/** Whether a label of an object other than a pod goes down (sync rule `allowed-labels`). */
export function labelGoesDown(key: string, tenant: LabelRules): boolean {
  return goesDown(key, tenant) && (isPlain(key) || isListed(key, tenant.allowedLabels));
}

/**
 * Annotations that go down beside those whose keys have neither a prefix nor a dot: keys, or
 * prefixes that end in `/`. All others are configuration of something that all tenants share, known to us or not. An
 * operator can add to these.
 */
export const defaultAllowedAnnotations: readonly string[] = [
  'app.kubernetes.io/',
  'batch.kubernetes.io/',
  'checksum/',
  'controller.kubernetes.io/pod-deletion-cost',
  'helm.sh/',
  'kubectl.kubernetes.io/default-container',
  'kubectl.kubernetes.io/restartedAt',
  'kubernetes.io/change-cause',
  'kubernetes.io/description',
  'prometheus.io/',
  'service.kubernetes.io/topology-mode',
];

/** Bookkeeping of tools, which stays behind without an event. */
const silentPrefixes = [
  'argocd.argoproj.io/',
  'helm.toolkit.fluxcd.io/',
  'kubectl.kubernetes.io/',
  'kubernetes.io/cluster-service',
  'kubernetes.io/name',
  'kustomize.toolkit.fluxcd.io/',
  'meta.helm.sh/',
  'kubernetes.io/limit-ranger',
  'skerry.dev/',
];

/** Whether an annotation goes down (sync rule `allowed-annotations`). */
export function annotationGoesDown(key: string, tenant: AnnotationRules): boolean {
  return goesDown(key, tenant) && (isPlain(key) || isListed(key, tenant.allowedAnnotations));
}

/** Annotations of a pod or a Service that stay behind and may have been meant for something in the super cluster. */
export function refusedAnnotations({ metadata }: KubeObject, tenant: AnnotationRules): string[] {
  return refusedAmong(metadata.annotations, tenant, (key) => annotationGoesDown(key, tenant));
}

/** The same of the labels of a Service. */
export function refusedLabels({ metadata }: KubeObject, tenant: LabelRules): string[] {
  return refusedAmong(metadata.labels, tenant, (key) => labelGoesDown(key, tenant));
}

/** The same of the labels of a pod. */
export function refusedPodLabels({ metadata }: KubeObject, tenant: LabelRules): string[] {
  return refusedAmong(metadata.labels, tenant, (key) => podLabelGoesDown(key, tenant));
}

function refusedAmong(keys: Keys | undefined, tenant: KeyRules, passes: (key: string) => boolean): string[] {
  return Object.keys(keys ?? {}).filter(
    (key) => !hasPrefix(key, silentPrefixes) && !isTransparent(key, tenant) && !passes(key),
  );
}

/** Neither a prefix nor a dot. */
function isPlain(key: string): boolean {
  return !/[./]/.test(key);
}

/** Whether a list of keys, and of prefixes that end in `/`, has a key in it. */
export function isListed(key: string, list: readonly string[]): boolean {
  return list.some((each) => (each.endsWith('/') ? key.startsWith(each) : key === each));
}

/** Whether a label or annotation of the tenant object goes down; what is transparent belongs to the super cluster. */
export function goesDown(key: string, tenant: KeyRules): boolean {
  return (
    !isOwnKey(key) &&
    !hasPrefix(key, tenant.deniedKeyPrefixes) &&
    !hasPrefix(key, tenant.transparentKeyPrefixes)
  );
}

/**
 * Whether a label or annotation of the super object is copied up and, in the tenant object, belongs to the super
 * cluster (sync rule `transparent-prefixes`).
 */
export function isTransparent(key: string, tenant: Pick<TenantInfo, 'transparentKeyPrefixes'>): boolean {
  return !isOwnKey(key) && hasPrefix(key, tenant.transparentKeyPrefixes);
}

type KeyRules = Pick<TenantInfo, 'deniedKeyPrefixes' | 'transparentKeyPrefixes'>;
type AnnotationRules = KeyRules & Pick<TenantInfo, 'allowedAnnotations'>;
type LabelRules = KeyRules & Pick<TenantInfo, 'allowedLabels'>;

/** A prefix `*.example.com`, or `*.example.com/`, stands for that domain and all below it. */
function hasPrefix(key: string, prefixes: readonly string[]): boolean {
  for (const prefix of prefixes) {
    const matches = prefix.startsWith('*.')
      ? isBelow(key, prefix.slice(1).replace(/\/$/, ''))
      : key.startsWith(prefix);
    if (matches) return true;
  }
  return false;
}

/** Whether the prefix of a key is a domain, given with a dot before it, or one below it. */
function isBelow(key: string, domain: string): boolean {
  const slash = key.indexOf('/');
  return slash > 0 && `.${key.slice(0, slash)}`.endsWith(domain);
}

type Keys = Record<string, string>;
type KeyPatch = Record<string, string | null>;
type TenantContext = { readonly tenant: TenantInfo };

export interface SuperMetadataOptions {
  /** Where the super object is called otherwise than the tenant object. */
  readonly name?: string;
  /** Which of the tenant object's labels and annotations go down; default: those that are allowed. */
  readonly goesDown?: (key: string) => boolean;
  /** Where another rule holds for annotations. */
  readonly annotationGoesDown?: (key: string) => boolean;
  /** Annotations of the tenant object that go down under keys of Skerry's. */
  readonly mirrored?: Keys;
  /** Labels that Skerry itself puts on the super object. */
  readonly labels?: Keys;
  /**
   * The tenant namespace that the super object is marked with; default: the tenant object's own, none for
   * cluster-scoped kinds.
   */
  readonly namespace?: string;
}

/**
 * For ConfigMaps and Secrets, which nothing of a tenant selects by label in the super cluster, while operators' sidecars
 * read them from all namespaces by plain keys (`grafana_dashboard`, `loki_rule`): only what is listed goes down.
 */
export function listedKeys({ tenant }: TenantContext): SuperMetadataOptions {
  return {
    goesDown: (key) => goesDown(key, tenant) && isListed(key, tenant.allowedLabels),
    annotationGoesDown: (key) => goesDown(key, tenant) && isListed(key, tenant.allowedAnnotations),
  };
}

/** For kinds of which the annotations are chosen by a rule of their own, or belong to an operator's own kind. */
export function allAnnotations({ tenant }: TenantContext): SuperMetadataOptions {
  return { annotationGoesDown: (key) => goesDown(key, tenant) };
}

/**
 * Metadata of the super object as it is created: name, mapped namespace, labels and annotations; no owners, no
 * finalizers.
 */
export function superMetadata(
  tenantObject: KubeObject,
  context: TenantContext,
  options: SuperMetadataOptions = {},
): ObjectMeta {
  const { namespace, name } = tenantObject.metadata;
  const finalName = options.name ?? name;
  return {
    ...(finalName === undefined ? {} : { name: finalName }),
    ...(namespace === undefined ? {} : { namespace: superNamespaceName(context.tenant, namespace) }),
    ...wantedKeys(tenantObject, context, options),
  };
}

/**
 * Brings the super object's labels and annotations to what the tenant object asks for, as `{ metadata: … }`; undefined
 * when they are.
 * Keys that the tenant object has dropped go, keys that others put on the super object stay. Runs at every echo: kept
 * cheap.
 */
export function superMetadataPatch(
  tenantObject: KubeObject,
  superObject: KubeObject,
  context: TenantContext,
  options: SuperMetadataOptions = {},
): MergePatch | undefined {
  const wanted = wantedKeys(tenantObject, context, options);
  const present = superObject.metadata;
  const labels = differing(wanted.labels, present.labels);
  const annotations = differing(wanted.annotations, present.annotations);
  const before = present.annotations?.[annotationKeys.syncedKeys];
  if (before !== wanted.annotations[annotationKeys.syncedKeys]) {
    const synced = parseSyncedKeys(before);
    drop(labels, synced.l, wanted.labels, present.labels);
    drop(annotations, synced.a, wanted.annotations, present.annotations);
  }
  drop(annotations, passingMarks, wanted.annotations, present.annotations);
  const metadata: MergePatch = {};
  if (Object.keys(labels).length > 0) metadata['labels'] = labels;
  if (Object.keys(annotations).length > 0) metadata['annotations'] = annotations;
  return Object.keys(metadata).length === 0 ? undefined : { metadata };
}

/**
 * Takes from the super object the labels and annotations that the tenant object has given and that do not go down any
 * more, as `{ metadata: … }`; undefined when there are none. Needs no tenant object: the super object's mark says which
 * they are.
 */
export function refusedKeysPatch(
  { metadata }: KubeObject,
  passes: { label(key: string): boolean; annotation(key: string): boolean },
): MergePatch | undefined {
  const { labels, annotations } = metadata;
  const synced = parseSyncedKeys(annotations?.[annotationKeys.syncedKeys]);
  const refusedLabels = refusedPatch(synced.l, labels, passes.label);
  const refusedAnnotations = refusedPatch(synced.a, annotations, passes.annotation);
  if (refusedLabels === undefined && refusedAnnotations === undefined) return undefined;
  const kept = markOf(synced.l.filter(passes.label), synced.a.filter(passes.annotation));
  return {
    metadata: {
      ...(refusedLabels === undefined ? {} : { labels: refusedLabels }),
      annotations: { ...refusedAnnotations, [annotationKeys.syncedKeys]: kept ?? null },
    },
  };
}

function refusedPatch(
  synced: readonly string[],
  present: Keys | undefined,
  passes: (key: string) => boolean,
): KeyPatch | undefined {
  const refused = synced.filter(
    (key) => !passes(key) && !isOwnKey(key) && present !== undefined && Object.hasOwn(present, key),
  );
  return refused.length === 0 ? undefined : Object.fromEntries(refused.map((key) => [key, null]));
}

/** Marks that the super object has only while there is a reason for them. */
const passingMarks = [annotationKeys.ownerReferences, annotationKeys.syncedKeys];

function wantedKeys(
  tenantObject: KubeObject,
  { tenant }: TenantContext,
  options: SuperMetadataOptions,
): { labels: Keys; annotations: Keys } {
  const { metadata } = tenantObject;
  const { goesDown: passes } = options;
  const labels = pick(metadata.labels, passes ?? ((key) => labelGoesDown(key, tenant)));
  const annotations = pick(
    metadata.annotations,
    options.annotationGoesDown ?? passes ?? ((key) => annotationGoesDown(key, tenant)),
  );
  if (options.mirrored !== undefined) Object.assign(annotations, options.mirrored);
  const synced = syncedKeys(labels, annotations);
  Object.assign(labels, options.labels);
  labels[labelKeys.tenant] = tenant.uid;
  labels[labelKeys.bucket] = String(bucketOf(tenant.uid));
  const namespace = options.namespace ?? metadata.namespace;
  if (namespace !== undefined) labels[labelKeys.namespace] = namespace;
  annotations[annotationKeys.tenantName] = namespacedName(tenant);
  const { uid, ownerReferences } = metadata;
  if (uid !== undefined) annotations[annotationKeys.uid] = uid;
  if (ownerReferences !== undefined && ownerReferences.length > 0) {
    annotations[annotationKeys.ownerReferences] = JSON.stringify(ownerReferences);
  }
  if (synced !== undefined) annotations[annotationKeys.syncedKeys] = synced;
  return { labels, annotations };
}

function pick(keys: Keys | undefined, passes: (key: string) => boolean): Keys {
  const picked: Keys = {};
  for (const key in keys) {
    const value = keys[key];
    if (value !== undefined && passes(key)) picked[key] = value;
  }
  return picked;
}

function differing(wanted: Keys, present: Keys | undefined): KeyPatch {
  const patch: KeyPatch = {};
  for (const key in wanted) {
    const value = wanted[key];
    if (value !== undefined && present?.[key] !== value) patch[key] = value;
  }
  return patch;
}

function drop(patch: KeyPatch, keys: readonly string[], wanted: Keys, present: Keys | undefined): void {
  for (const key of keys) {
    // `constructor` is a legal key too.
    if (!Object.hasOwn(wanted, key) && present !== undefined && Object.hasOwn(present, key))
      patch[key] = null;
  }
}

function syncedKeys(labels: Keys, annotations: Keys): string | undefined {
  return markOf(Object.keys(labels).sort(), Object.keys(annotations).sort());
}

/** The value of the mark; undefined: nothing is to be marked. */
function markOf(l: readonly string[], a: readonly string[]): string | undefined {
  return l.length === 0 && a.length === 0 ? undefined : JSON.stringify({ l, a });
}

/** Tolerates anything: the annotation can be edited in the super cluster. */
function parseSyncedKeys(text: string | undefined): { l: readonly string[]; a: readonly string[] } {
  try {
    const parsed: unknown = JSON.parse(text ?? '{}');
    const { l, a } = (parsed ?? {}) as { l?: unknown; a?: unknown };
    return { l: strings(l), a: strings(a) };
  } catch {
    return { l: [], a: [] };
  }
}

function strings(value: unknown): string[] {
  return Array.isArray(value) ? value.filter((item): item is string => typeof item === 'string') : [];
}

type TransparentKeys = Record<string, string>;
type Rules = Pick<TenantInfo, 'transparentKeyPrefixes'>;

/**
 * Copies the keys that belong to the super cluster up to the tenant object, as `{ metadata: … }`; undefined when the
 * tenant object has them all, and no others under those prefixes.
 */
export function transparentMetadataPatch(
  tenantObject: KubeObject,
  superObject: KubeObject,
  { tenant }: { readonly tenant: Rules },
): MergePatch | undefined {
  if (tenant.transparentKeyPrefixes.length === 0) return undefined;
  const labels = difference(tenantObject.metadata.labels, superObject.metadata.labels, tenant);
  const annotations = difference(tenantObject.metadata.annotations, superObject.metadata.annotations, tenant);
  if (labels === undefined && annotations === undefined) return undefined;
  return {
    metadata: {
      ...(labels === undefined ? {} : { labels }),
      ...(annotations === undefined ? {} : { annotations }),
    },
  };
}

function difference(
  own: TransparentKeys = {},
  theirs: TransparentKeys = {},
  tenant: Rules,
): MergePatch | undefined {
  const patch: MergePatch = {};
  for (const [key, value] of Object.entries(theirs)) {
    if (own[key] !== value && isTransparent(key, tenant)) patch[key] = value;
  }
  for (const key of Object.keys(own)) {
    if (theirs[key] === undefined && isTransparent(key, tenant)) patch[key] = null;
  }
  return Object.keys(patch).length === 0 ? undefined : patch;
}

/** Describes how the super cluster's operator applied the original; of no use, and not for tenants' eyes. */
const lastApplied = 'kubectl.kubernetes.io/last-applied-configuration';

/**
 * Metadata of a tenant's copy of a super object: its name, labels and annotations, without the marks of
 * the super object and with the mark of a copy (`skerry.dev/uid` = UID of the super object). Never a namespace: the
 * super object's is not the tenant's.
 */
export function copyMetadata(superObject: KubeObject): ObjectMeta {
  const { name, uid, labels, annotations } = superObject.metadata;
  const copiedLabels = without(labels);
  const copiedAnnotations = without(annotations);
  if (uid !== undefined) copiedAnnotations[annotationKeys.uid] = uid;
  return {
    ...(name === undefined ? {} : { name }),
    ...(Object.keys(copiedLabels).length === 0 ? {} : { labels: copiedLabels }),
    ...(Object.keys(copiedAnnotations).length === 0 ? {} : { annotations: copiedAnnotations }),
  };
}

function without(keys: Record<string, string> = {}): Record<string, string> {
  return Object.fromEntries(Object.entries(keys).filter(([key]) => !isOwnKey(key) && key !== lastApplied));
}

/** Makes labels and annotations of a copy exactly those of `wanted`: what the tenant added goes too. */
export function exactMetadataPatch(copy: KubeObject, wanted: ObjectMeta): MergePatch | undefined {
  const { labels = {}, annotations = {} } = copy.metadata;
  const metadata = mergePatch(
    { labels, annotations },
    { labels: wanted.labels ?? {}, annotations: wanted.annotations ?? {} },
  );
  return metadata === undefined ? undefined : { metadata };
}
