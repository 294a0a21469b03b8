import { annotationKeys, labelKeys } from '../../../api/labels.ts';
import {
  apiVersionOf,
  applyMergePatch,
  type KubeObject,
  type MergePatch,
  type ObjectMeta,
  resources,
  withoutUndefined,
} from '../../../kube/index.ts';
import type { SyncContext, TenantInfo } from '../../context.ts';
import { originalUid, tenantNamespaceOf } from '../../mapping/labels.ts';
import {
  annotationGoesDown,
  isTransparent,
  podLabelGoesDown,
  type SuperMetadataOptions,
  superMetadata,
} from '../../mapping/metadata.ts';
import { rootCaName, superNamespaceName, superRootCaName } from '../../mapping/names.ts';
import {
  type LabelRequirement,
  matchesSelector,
  maxSelectorTerms,
  type NetworkPolicySpec,
  ownPolicyKeys,
  ownPolicyKeysOf,
  policyTypesOf,
  selectorTerms,
  superPodSelector,
} from '../../mapping/network-isolation.ts';
import { hostNameLabel, realNodeName } from '../../mapping/node-names.ts';
import { scrub } from '../../mapping/scrub.ts';
import type { SuperWrite } from '../contract.ts';
import type { Service } from '../services/types.ts';
import { pullPolicy } from './images.ts';
import { mirroredKeys, superFieldPath } from './mirrored-keys.ts';
import { ephemeralClaimName, lateReferences } from './references.ts';
import { resourcesAnnotation, resourcesAsked } from './resize.ts';
import { interPodAffinity, placement, pool, scheduling } from './scheduling.ts';
import { environment, serviceAddress } from './service-variables.ts';
import { imagesAnnotation, volumesAnnotation } from './tenant-fields.ts';
import { tokenKeyOf, tokenRequests, tokenSecretName } from './token-requests.ts';
import {
  allContainers,
  type Container,
  type DnsConfig,
  type DnsOption,
  type DownwardItem,
  type EnvFromSource,
  type EnvVar,
  mapChanged,
  mapContainers,
  mapItems,
  mapSources,
  type NodeSelectorTerm,
  type ObjectName,
  type Pod,
  type PodSpec,
  type PodStep,
  type Projection,
  type Volume,
} from './types.ts';

/** An API server puts these on a pod when it is bound, from the labels of a node that it knows by then. */
const placedKeys = new Set(['topology.kubernetes.io/zone', 'topology.kubernetes.io/region']);

/**
 * The labels of the super object that binding it has added; undefined without any. Where nodes are hidden, one that
 * names them is left out.
 */
export function bindingLabels({ metadata }: Pod, context: SyncContext): Record<string, string> | undefined {
  const { hideNodes } = context.tenant;
  const placed = Object.entries(metadata.labels ?? {}).filter(
    ([key, value]) => placedKeys.has(key) && (!hideNodes || scrub(value, context) === value),
  );
  return placed.length === 0 ? undefined : Object.fromEntries(placed);
}

/**
 * What of a pod's labels and annotations goes down: not what binding it has added. `superPod`: where it is there
 * already.
 */
export function podMetadataOptions(pod: Pod, context: SyncContext, superPod?: Pod): SuperMetadataOptions {
  const { tenant } = context;
  const labels = ownPolicyLabels(pod, context, superPod);
  const mirrored = mirroredKeys(pod, context);
  return {
    goesDown: (key) => !placedKeys.has(key) && podLabelGoesDown(key, tenant),
    annotationGoesDown: (key) => annotationGoesDown(key, tenant),
    ...withoutUndefined({ labels, mirrored }),
  };
}

/**
 * Sync rule `tenant-isolation`: in which directions NetworkPolicies of the tenant's own hold for a pod, as labels;
 * undefined: in none. A policy counts while it is in force in the super cluster and the tenant still wants it so.
 */
export function ownPolicyLabels(
  { metadata }: Pod,
  context: SyncContext,
  superPod?: Pod,
): Record<string, string> | undefined {
  const { tenant } = context;
  if (tenant.isolation === undefined) return undefined;
  const present = superPod?.metadata.labels ?? {};
  const labels: Record<string, string> = { [labelKeys.tenant]: tenant.uid };
  for (const [key, value] of Object.entries(present))
    if (isTransparent(key, tenant) || placedKeys.has(key)) labels[key] = value;
  for (const [key, value] of Object.entries(metadata.labels ?? {}))
    if (podLabelGoesDown(key, tenant) && !placedKeys.has(key)) labels[key] = value;
  // Other labels of the super object are not the tenant's and stay, or are on their way out.
  return labelsOf([labels, { ...present, ...labels }], metadata.namespace, context);
}

/** The same of a pod as it is in the super cluster. */
export function heldPolicyLabels(
  superPod: KubeObject,
  context: SyncContext,
): Record<string, string> | undefined {
  return labelsOf([superPod.metadata.labels ?? {}], tenantNamespaceOf(superPod), context);
}

/** Of the policies that select a pod by each of these sets of labels, which it has one after the other. */
function labelsOf(
  sets: readonly Readonly<Record<string, string>>[],
  namespace: string | undefined,
  { tenant, tenantObjects, superObjects, changingPolicies }: SyncContext,
): Record<string, string> | undefined {
  if (tenant.isolation === undefined) return undefined;
  const selects = ({ podSelector = {} }: NetworkPolicySpec): boolean =>
    sets.every((labels) => matchesSelector(podSelector, labels));
  const own: Record<string, string> = {};
  const superNamespace = superNamespaceName(tenant, namespace ?? '');
  for (const policy of superObjects.byIndex(resources.networkPolicies, 'byNamespace', superNamespace)) {
    const wanted = tenantObjects.get(resources.networkPolicies, {
      namespace,
      name: policy.metadata.name ?? '',
    });
    if (wanted === undefined || wanted.metadata.uid !== originalUid(policy)) continue;
    const becomes = changingPolicies?.becomes(policy);
    if (becomes === 'gone') continue;
    const asWanted = wantedOf(wanted, tenant);
    const all = [policy, ...(becomes === undefined ? [] : [becomes])].map(specOf);
    if (asWanted !== undefined) all.push(asWanted);
    // Of a hundred policies that hold for a pod, one or two say all there is.
    const more = ownPolicyKeys.filter(
      ([type, key]) => own[key] === undefined && all.every((each) => policyTypesOf(each).includes(type)),
    );
    if (more.length === 0 || !all.every(selects)) continue;
    for (const [, key] of more) own[key] = 'true';
  }
  return Object.keys(own).length === 0 ? undefined : own;
}

interface Wanted {
  readonly tenant: TenantInfo;
  readonly spec: NetworkPolicySpec | undefined;
}

/** No state but a memory of what is a function of policy and settings; each look at a pod asks for all of its namespace. */
const wantedBefore = new WeakMap<KubeObject, Wanted>();

/**
 * Which pods of the super cluster a policy of the tenant's is for, and in which directions. Undefined where its selector
 * is too long: then its copy stays as it is, whatever the tenant wants.
 */
function wantedOf(policy: KubeObject, tenant: TenantInfo): NetworkPolicySpec | undefined {
  const known = wantedBefore.get(policy);
  if (known?.tenant === tenant) return known.spec;
  const own = specOf(policy);
  const { podSelector = {} } = own;
  const spec =
    selectorTerms(podSelector) > maxSelectorTerms
      ? undefined
      : { policyTypes: policyTypesOf(own), podSelector: superPodSelector(podSelector, tenant) };
  wantedBefore.set(policy, { tenant, spec });
  return spec;
}

function specOf(policy: KubeObject): NetworkPolicySpec {
  return (policy['spec'] ?? {}) as NetworkPolicySpec;
}

/**
 * A write that leaves a pod with labels which take it out of the default policies relies on the policies that hold for
 * it instead.
 */
export function precondition(write: SuperWrite, context: SyncContext): 'none' | 'met' | 'failed' {
  if (context.tenant.isolation === undefined) return 'none';
  let pod: KubeObject;
  if ('creates' in write) pod = write.creates;
  else {
    const metadata = write.patch['metadata'] as MergePatch | undefined;
    if (write.subresource !== undefined || metadata?.['labels'] === undefined) return 'none';
    pod = applyMergePatch(write.patches, { metadata: { labels: metadata['labels'] } }) as KubeObject;
  }
  const carried = ownPolicyKeysOf(pod.metadata.labels);
  if (carried.length === 0) return 'none';
  const held = heldPolicyLabels(pod, context) ?? {};
  return carried.every((key) => held[key] !== undefined) ? 'met' : 'failed';
}

/**
 * Sync rule `pod-tokens`: no token of the super cluster in any pod. In the place of each source of a token stands the
 * Secret that holds the one which the tenant's API server has issued; kubelet brings its renewals into the pod.
 */
const tokens: PodStep = (spec, pod) => {
  const requests = tokenRequests(spec);
  const name = tokenSecretName(pod.metadata.name ?? '');
  const mode = fileMode(spec);
  const projected = (source: Projection): Projection => {
    if (source.serviceAccountToken === undefined) return source;
    const { path } = source.serviceAccountToken;
    const key = tokenKeyOf(source.serviceAccountToken, requests);
    const item = { key, path, ...(mode === undefined ? {} : { mode }) };
    return { secret: { name, items: [item], optional: false } };
  };
  const mounted = mapItems(spec, 'volumes', (volume) => mapSources(volume, projected));
  return { ...mounted, automountServiceAccountToken: false };
};

const ownerOnly = 0o600;
const worldReadable = 0o644;

/**
 * Kubelet gives a token to the one user that a pod's containers run as, with mode 0600, or to the pod's fsGroup,
 * for which it adds the right to read. The file of a Secret it gives to a group, but not to a user: then all who
 * see the volume may read, and that is this one user. Undefined: as the volume says.
 */
function fileMode(spec: PodSpec): number | undefined {
  if (spec.securityContext?.fsGroup !== undefined) return ownerOnly;
  const users = new Set(
    allContainers(spec).map(
      ({ securityContext }) => securityContext?.runAsUser ?? spec.securityContext?.runAsUser,
    ),
  );
  const [user] = users;
  if (users.size !== 1 || user === undefined) return undefined;
  return user === 0 ? ownerOnly : worldReadable;
}

/**
 * Sync rule `pod-volumes`: an ephemeral volume is the claim that the tenant's controller made for it; in the super
 * cluster another would be made.
 */
const volumes: PodStep = (spec, pod) =>
  mapItems(spec, 'volumes', (volume) => {
    if (volume.ephemeral === undefined) return volume;
    const { ephemeral, ...rest } = volume;
    const claimName = ephemeralClaimName(pod.metadata.name ?? '', volume.name);
    const readOnly = ephemeral.readOnly === true ? { readOnly: true } : {};
    return { ...rest, name: volume.name, persistentVolumeClaim: { claimName, ...readOnly } };
  });

/** Sync rule `root-ca`: `kube-root-ca.crt` is the tenant's CA, which has another name in the super cluster. */
const rootCa: PodStep = (spec) => mapContainers(mapItems(spec, 'volumes', rootCaInVolume), rootCaInContainer);

function rootCaInVolume(volume: Volume): Volume {
  if (isRootCa(volume.configMap)) return { ...volume, configMap: rename(volume.configMap) };
  return mapSources(volume, rootCaInProjection);
}

function rootCaInProjection(source: Projection): Projection {
  return isRootCa(source.configMap) ? { ...source, configMap: rename(source.configMap) } : source;
}

function rootCaInContainer(container: Container): Container {
  return mapItems(mapItems(container, 'env', inVariable), 'envFrom', inSource);
}

function inVariable(variable: EnvVar): EnvVar {
  const reference = variable.valueFrom?.configMapKeyRef;
  if (!isRootCa(reference)) return variable;
  return { ...variable, valueFrom: { ...variable.valueFrom, configMapKeyRef: rename(reference) } };
}

function inSource(source: EnvFromSource): EnvFromSource {
  return isRootCa(source.configMapRef) ? { ...source, configMapRef: rename(source.configMapRef) } : source;
}

function isRootCa(reference: ObjectName | undefined): reference is ObjectName {
  return reference?.name === rootCaName;
}

function rename(reference: ObjectName): ObjectName {
  return { ...reference, name: superRootCaName };
}

/**
 * Sync rule `downward-api`: a pod that asks for its namespace or UID learns the tenant object's. In a variable it is a
 * literal, in a file it is read from the marks on the super object, which hold just that.
 */
const downwardApi: PodStep = (spec, pod, context) => {
  const changed = mapItems(spec, 'volumes', (volume) => fieldsInVolume(volume, context));
  return mapContainers(changed, (container) =>
    mapItems(container, 'env', (variable) => ownField(variable, pod.metadata, context)),
  );
};

function ownField(variable: EnvVar, { namespace = '', uid = '' }: ObjectMeta, context: SyncContext): EnvVar {
  const fieldRef = variable.valueFrom?.fieldRef;
  const field = fieldRef?.fieldPath;
  if (field === undefined) return variable;
  if (field === 'metadata.namespace') return { name: variable.name, value: namespace };
  if (field === 'metadata.uid') return { name: variable.name, value: uid };
  const fieldPath = superFieldPath(field, context);
  return fieldPath === field
    ? variable
    : { ...variable, valueFrom: { ...variable.valueFrom, fieldRef: { ...fieldRef, fieldPath } } };
}

const fileFields: ReadonlyMap<string, string> = new Map([
  ['metadata.namespace', `metadata.labels['${labelKeys.namespace}']`],
  ['metadata.uid', `metadata.annotations['${annotationKeys.uid}']`],
]);

function fieldsInVolume(volume: Volume, context: SyncContext): Volume {
  return mapSources(fieldsInFiles(volume, context), (source) => fieldsInFiles(source, context));
}

function fieldsInFiles<Source extends Pick<Projection, 'downwardAPI'>>(
  source: Source,
  context: SyncContext,
): Source {
  const files: Projection['downwardAPI'] = source.downwardAPI;
  if (!files) return source;
  const downwardAPI = mapItems(files, 'items', (item) => ownFile(item, context));
  return downwardAPI === files ? source : { ...source, downwardAPI };
}

function ownFile(item: DownwardItem, context: SyncContext): DownwardItem {
  const field = item.fieldRef?.fieldPath;
  if (field === undefined) return item;
  const fieldPath = fileFields.get(field) ?? superFieldPath(field, context);
  return fieldPath === field ? item : { ...item, fieldRef: { ...item.fieldRef, fieldPath } };
}

/** What kubelet and the API server take: https://kubernetes.io/docs/concepts/services-networking/dns-pod-service/ */
const maxNameservers = 3;
const maxSearches = 32;
const maxSearchLength = 253;
const maxSearchesLength = 2048;

/**
 * Sync rule `pod-dns`: kubelet would send a pod to the super cluster's DNS. What it would write for a node of
 * the tenant's is written here; without a DNS Service, the node's own resolver has to do.
 */
const dns: PodStep = (spec, pod, context) => {
  if (!asksForClusterDns(spec)) return spec;
  const service = context.tenantObjects.get<Service>(resources.services, {
    namespace: 'kube-system',
    name: 'kube-dns',
  });
  const address = service === undefined ? undefined : serviceAddress(service, context);
  if (address === undefined) return { ...spec, dnsPolicy: 'Default' };
  const dnsConfig = merged(address, searchesOf(pod.metadata.namespace ?? '', context), spec.dnsConfig);
  return { ...spec, dnsPolicy: 'None', dnsConfig };
};

/** A pod in its node's network means the node's DNS by `ClusterFirst`. */
function asksForClusterDns({ dnsPolicy = 'ClusterFirst', hostNetwork }: PodSpec): boolean {
  if (dnsPolicy === 'ClusterFirst') return hostNetwork !== true;
  return dnsPolicy === 'ClusterFirstWithHostNet';
}

function searchesOf(namespace: string, { tenant }: SyncContext): string[] {
  const { clusterDomain } = tenant;
  return [`${namespace}.svc.${clusterDomain}`, `svc.${clusterDomain}`, clusterDomain];
}

function merged(address: string, searches: readonly string[], own: DnsConfig = {}): DnsConfig {
  return {
    ...own,
    nameservers: unique([address, ...(own.nameservers ?? [])]).slice(0, maxNameservers),
    searches: fitting(unique([...searches, ...(own.searches ?? [])])),
    options: byName([{ name: 'ndots', value: '5' }, ...(own.options ?? [])]),
  };
}

function fitting(searches: readonly string[]): string[] {
  const kept = searches.slice(0, maxSearches).filter(({ length }) => length <= maxSearchLength);
  while (kept.join(' ').length > maxSearchesLength) kept.pop();
  return kept;
}

/** The last of a name counts, in the place of the first. */
function byName(options: readonly DnsOption[]): DnsOption[] {
  return [...new Map(options.map((option) => [option.name, option])).values()];
}

function unique(values: readonly string[]): string[] {
  return [...new Set(values)];
}

/**
 * Sync rule `pod-hostname`: of a subdomain, kubelet would make a name in the super namespace and write it into
 * /etc/hosts. A pod that wants its qualified name for host name is given the tenant object's.
 */
const hostName: PodStep = (spec, pod, { tenant }) => {
  if (!hasSubdomain(spec)) return spec;
  const { subdomain: _subdomain, ...withoutSubdomain } = spec;
  const hostnameOverride = qualifiedHostName(pod, tenant);
  if (hostnameOverride === undefined) return withoutSubdomain;
  const { setHostnameAsFQDN: _asFqdn, ...rest } = withoutSubdomain;
  return { ...rest, hostnameOverride };
};

/** The host name of a pod that wants a qualified one; undefined: it does not, or has none. */
export function qualifiedHostName(pod: Pod, { clusterDomain }: TenantInfo): string | undefined {
  const { spec = {}, metadata } = pod;
  // In its node's network a pod has its node's name, and the API server takes no other.
  if (spec.setHostnameAsFQDN !== true || spec.hostNetwork === true || !hasSubdomain(spec)) return undefined;
  const host = spec.hostname || metadata.name;
  return `${host}.${spec.subdomain}.${metadata.namespace}.svc.${clusterDomain}`;
}

function hasSubdomain({ subdomain = '' }: PodSpec): boolean {
  return subdomain !== '';
}

/** Stands for a node that the tenant does not have: `.invalid` is reserved by RFC 2606. */
const noNode = 'no-such-node.invalid';

/**
 * Sync rule `pod-creation`: where nodes are hidden, a pod that asks for one by name means the node behind it. DaemonSet
 * pods do so by a field of the node, others by its host name. A real name leads nowhere.
 */
const nodeNames: PodStep = (spec, _pod, context) => {
  if (!context.tenant.hideNodes) return spec;
  return inAffinity(inSelector(spec, context), context);
};

function inSelector(spec: PodSpec, context: SyncContext): PodSpec {
  const shown = spec.nodeSelector?.[hostNameLabel];
  if (shown === undefined) return spec;
  return { ...spec, nodeSelector: { ...spec.nodeSelector, [hostNameLabel]: shownHostName(shown, context) } };
}

function inAffinity(spec: PodSpec, context: SyncContext): PodSpec {
  const { affinity } = spec;
  const nodeAffinity = affinity?.nodeAffinity;
  if (nodeAffinity === undefined) return spec;
  const {
    requiredDuringSchedulingIgnoredDuringExecution: required,
    preferredDuringSchedulingIgnoredDuringExecution: preferred,
  } = nodeAffinity;
  const translate = (term: NodeSelectorTerm) => inTerm(term, context);
  const terms = withoutUndefined({ nodeSelectorTerms: required?.nodeSelectorTerms?.map(translate) });
  const weights = preferred?.map((weighted) => ({
    ...weighted,
    ...withoutUndefined({ preference: weighted.preference && translate(weighted.preference) }),
  }));
  const translated = withoutUndefined({
    requiredDuringSchedulingIgnoredDuringExecution: required && { ...required, ...terms },
    preferredDuringSchedulingIgnoredDuringExecution: weights,
  });
  return { ...spec, affinity: { ...affinity, nodeAffinity: { ...nodeAffinity, ...translated } } };
}

function inTerm(term: NodeSelectorTerm, context: SyncContext): NodeSelectorTerm {
  const { matchExpressions: labels, matchFields: fields } = term;
  const matchExpressions =
    labels && withValues(labels, hostNameLabel, (name) => shownHostName(name, context));
  const matchFields = fields && withValues(fields, 'metadata.name', (name) => nodeName(name, context));
  return { ...term, ...withoutUndefined({ matchExpressions, matchFields }) };
}

function withValues(
  requirements: LabelRequirement[],
  key: string,
  translate: (value: string) => string,
): LabelRequirement[] {
  return mapChanged(requirements, (requirement: LabelRequirement) =>
    requirement.key === key && requirement.values !== undefined
      ? { ...requirement, values: requirement.values.map(translate) }
      : requirement,
  );
}

function nodeName(shown: string, context: SyncContext): string {
  return realNodeName(context, shown) ?? noNode;
}

/** The label of a node says mostly, but not always, what its name says. */
function shownHostName(shown: string, context: SyncContext): string {
  const name = realNodeName(context, shown);
  if (name === undefined) return noNode;
  return context.superObjects.get(resources.nodes, { name })?.metadata.labels?.[hostNameLabel] ?? name;
}

/** In this order: each sees what those before it have made. */
const steps: readonly PodStep[] = [
  placement,
  tokens,
  volumes,
  pullPolicy,
  // Looks ConfigMaps up by the tenant object's names, one of which is another in the super object.
  environment,
  lateReferences,
  rootCa,
  downwardApi,
  dns,
  hostName,
  nodeNames,
  pool,
  scheduling,
  interPodAffinity,
];

/** The super object as it is created for a pod of the tenant (sync rules `pod-creation` to `pod-classes`). */
export function toSuperPod(pod: Pod, context: SyncContext): KubeObject {
  const metadata = superMetadata(pod, context, podMetadataOptions(pod, context));
  const asked = resourcesAsked(pod.spec ?? {});
  const volumes = volumesAnnotation(pod.spec ?? {});
  metadata.annotations = {
    ...metadata.annotations,
    // Without ephemeral ones, which no pod is made with.
    [annotationKeys.containers]: [...(pod.spec?.initContainers ?? []), ...(pod.spec?.containers ?? [])]
      .map(({ name }) => name)
      .join(),
    [annotationKeys.images]: imagesAnnotation(pod.spec ?? {}),
    ...(volumes === undefined ? {} : { [annotationKeys.volumes]: volumes }),
    ...(asked === undefined ? {} : { [resourcesAnnotation]: asked }),
  };
  return {
    apiVersion: apiVersionOf(resources.pods),
    kind: resources.pods.kind,
    metadata,
    spec: steps.reduce((spec, step) => step(spec, pod, context), pod.spec ?? {}),
  };
}

/**
 * Containers that are added to the super object while it runs, with all that their place in a pod's spec would have
 * made of them.
 */
export function translatedContainers(containers: Container[], pod: Pod, context: SyncContext): Container[] {
  const steps = [pullPolicy, environment, lateReferences, rootCa, downwardApi];
  const spec = steps.reduce<PodSpec>((spec, step) => step(spec, pod, context), { containers });
  return spec.containers ?? [];
}
