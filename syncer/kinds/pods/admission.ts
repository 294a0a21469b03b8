import { annotationKeys } from '../../../api/labels.ts';
import type { TenantPolicy } from '../../../api/policy.ts';
import { isPortRangeListed } from '../../../api/policy-lists.ts';
import { resources } from '../../../kube/index.ts';
import type { KeyRef, SyncContext, TenantInfo } from '../../context.ts';
import { originalUid } from '../../mapping/labels.ts';
import { refusedAnnotations, refusedPodLabels } from '../../mapping/metadata.ts';
import { superNamespaceName, superRootCaName } from '../../mapping/names.ts';
import { hostNameLabel, shownNodeName } from '../../mapping/node-names.ts';
import type { Admission, Notice } from '../contract.ts';
import { isMissing, isTooLongForLate } from '../late-references.ts';
import { isReserved, nodeLeaseNamespace } from '../reserved-names.ts';
import { refused, refusedButKept, warning } from '../validation.ts';
import { malformedAdmission } from '../well-formed.ts';
import { isRepositoryAllowed, refusedImage } from './images.ts';
import { fieldPaths } from './mirrored-keys.ts';
import { podSecurityViolation } from './pod-security.ts';
import { references } from './references.ts';
import {
  isBlanket,
  outsidePool,
  priorityNotice,
  refusedRuntimeClass,
  superTolerations,
} from './scheduling.ts';
import { excessiveVariables, type VariableSource, variableSources } from './service-variables.ts';
import {
  annotatedRepositories,
  tenantFieldsOf,
  unrestrictedVolumeSources,
  volumeSourcesOf,
} from './tenant-fields.ts';
import { hasTooManyTokenRequests, maxTokenRequests } from './token-requests.ts';
import { qualifiedHostName } from './translate.ts';
import {
  allContainers,
  type Container,
  type NodeSelectorTerm,
  ownedConditionTypes,
  type Pod,
  type PodSpec,
  quoted,
} from './types.ts';

/** Of Linux, and of the API server. */
const maxHostNameLength = 64;

/** Both would show what the super cluster's signers and bundles hold. */
const foreignProjections = ['clusterTrustBundle', 'podCertificate'] as const;

const fieldsOfNode = new Set(['spec.nodeName', 'status.hostIP', 'status.hostIPs']);

/** What of a pod cannot be had in this tenant, in words; Pod Security has its own. Undefined: everything can. */
function unsupported(pod: Pod, tenant: TenantInfo): string | undefined {
  const { spec = {}, metadata } = pod;
  if (metadata.namespace === nodeLeaseNamespace) return `no pods run in the namespace ${nodeLeaseNamespace}`;
  const scheduler = spec.schedulerName ?? 'default-scheduler';
  if (scheduler !== 'default-scheduler' && !tenant.policy.schedulerNames.includes(scheduler))
    return `there is no scheduler named ${scheduler} for this cluster (policy: schedulerNames)`;
  if ((spec.resourceClaims ?? []).length > 0) return 'spec.resourceClaims is not supported';
  const gate = spec.readinessGates?.find(({ conditionType }) => ownedConditionTypes.has(conditionType));
  if (gate !== undefined)
    return `spec.readinessGates: the condition ${gate.conditionType} is one that kubelet or the scheduler sets; name another one`;
  if (spec.schedulingGroup !== undefined) return 'spec.schedulingGroup is not supported';
  if (hasTooManyTokenRequests(spec))
    return `its volumes ask for more than ${maxTokenRequests} different service account tokens (audience and expirationSeconds)`;
  const hostName = qualifiedHostName(pod, tenant) ?? '';
  if (hostName.length > maxHostNameLength)
    return `spec.setHostnameAsFQDN: ${hostName} is longer than the ${maxHostNameLength} characters that a host name can have`;
  return (
    unsupportedVolume(spec, tenant.policy.volumeTypes) ??
    refusedImage(spec, tenant.policy) ??
    excessPrivilege(spec, tenant.policy) ??
    nodeShown(spec, tenant)
  );
}

/** The same for a container that is added to a running pod. */
export function unsupportedInContainer(container: Container, context: SyncContext): string | undefined {
  const spec = { containers: [container] };
  const { tenant } = context;
  return refusedImage(spec, tenant.policy) ?? excessPrivilege(spec, tenant.policy) ?? nodeShown(spec, tenant);
}

function unsupportedVolume(spec: PodSpec, allowed: readonly string[]): string | undefined {
  for (const volume of spec.volumes ?? []) {
    const source = volumeSourcesOf(volume).find(
      (each) => !unrestrictedVolumeSources.has(each) && !allowed.includes(each),
    );
    if (source !== undefined)
      return `volume ${volume.name}: volumes of type ${source} are not allowed in this cluster (policy: volumeTypes)`;
    for (const projection of volume.projected?.sources ?? []) {
      const foreign = foreignProjections.find((type) => projection[type] !== undefined);
      if (foreign !== undefined) return `volume ${volume.name}: ${foreign} is not supported`;
    }
  }
  return undefined;
}

/** Sync rule `downward-api`: kubelet would tell the pod of the node that the tenant is not to see. */
function nodeShown(spec: PodSpec, tenant: TenantInfo): string | undefined {
  if (!tenant.hideNodes) return undefined;
  const field = fieldPaths(spec).find((path) => fieldsOfNode.has(path));
  return field === undefined
    ? undefined
    : `${field} cannot be had by the downward API: the nodes of this cluster are hidden`;
}

const wanted: Admission = { wanted: true };

/**
 * Whether a pod of the tenant is to run in the super cluster; with a notice, if not and the reason is not obvious.
 * Containers that were added to a running pod are checked by themselves: the pod runs already.
 */
export function admitPod(tenantPod: Pod, context: SyncContext): Admission {
  const malformed = malformedAdmission(tenantPod);
  if (malformed !== undefined) return malformed;
  if ((tenantPod.spec?.nodeName ?? '') !== '') {
    return boundByUs(tenantPod, context)
      ? wanted
      : refused('NotSupported', 'spec.nodeName is set: pods are placed by the scheduler, and only by it');
  }
  const { refusal, leftBehind, longReferences, sources } = staticAdmission(tenantPod, context.tenant);
  if (refusal !== undefined) return refusal;
  const pod = asCreated(tenantPod);
  const { spec = {} } = pod;
  const runtimeClass = refusedRuntimeClass(spec, context);
  if (runtimeClass !== undefined) return refused('NotSupported', runtimeClass);
  const tooLong = missingLong(longReferences, context);
  if (tooLong !== undefined) return refused('ReservedName', tooLong);
  const excess = excessiveVariables(pod, { containers: allContainers(spec).length, sources }, context);
  // A super pod that is there was small enough when it was made; what came later does not take it away.
  if (excess !== undefined) return refusedButKept('TooManyServiceVariables', excess);

  const notice = priorityNotice(spec, context) ?? leftBehind;
  return notice === undefined ? wanted : { wanted: true, notice };
}

/**
 * Whether a pod is refused with a notice, by its own fields and by the settings of its tenant.
 * Nothing else that the tenant has or lacks counts.
 */
export function isRefusedBySettings(tenantPod: Pod, tenant: TenantInfo): boolean {
  if (malformedAdmission(tenantPod) !== undefined) return false;
  return staticAdmission(tenantPod, tenant).refusal?.notice !== undefined;
}

/**
 * The same for a pod of which only the super object is known: by the tenant's part of it. Fields that the super cluster may
 * have set as well, such as the node and the scheduler, do not count. Images, which a webhook may have replaced by those of
 * a mirror, are the ones that the annotation names.
 */
export function isSuperPodRefused(superPod: Pod, { policy }: TenantInfo): boolean {
  const pod = tenantFieldsOf(superPod);
  if (pod === undefined) return false;
  const { spec = {} } = pod;
  return (
    podSecurityViolation(pod, policy.podSecurity) !== undefined ||
    unsupportedVolume(spec, policy.volumeTypes) !== undefined ||
    !annotatedRepositories(superPod).every((repository) => isRepositoryAllowed(repository, policy)) ||
    refusedImage({ volumes: spec.volumes ?? [] }, policy) !== undefined ||
    excessPrivilege(spec, policy) !== undefined
  );
}

/** What a pod and its tenant's settings say without a look at anything else. */
interface StaticAdmission {
  readonly tenant: TenantInfo;
  readonly refusal: Admission | undefined;
  /** What of it stays behind, where it is not refused. */
  readonly leftBehind: Notice | undefined;
  /** What it refers to by names that are too long to wait for. */
  readonly longReferences: readonly KeyRef[];
  readonly sources: readonly VariableSource[];
}

/**
 * No state but a memory of what is a function of pod and settings; objects in caches are never changed. Each look at a
 * ConfigMap, a Secret or a claim asks for the admission of all pods that refer to it, and a pod refers to thousands.
 */
const staticAdmissions = new WeakMap<Pod, StaticAdmission>();

function staticAdmission(tenantPod: Pod, tenant: TenantInfo): StaticAdmission {
  const known = staticAdmissions.get(tenantPod);
  if (known?.tenant === tenant) return known;
  const pod = asCreated(tenantPod);
  const all = references(pod);
  const longReferences = all.filter(({ name }) => isTooLongForLate(name));
  const sources = variableSources(allContainers(pod.spec ?? {}));
  const refusal = staticRefusal(pod, all, tenant);
  const leftBehind =
    refusal === undefined
      ? (tolerationNotice(pod.spec ?? {}, tenant.policy) ?? metadataNotice(pod, tenant))
      : undefined;
  const found = { tenant, refusal, leftBehind, longReferences, sources };
  staticAdmissions.set(tenantPod, found);
  return found;
}

function staticRefusal(pod: Pod, all: readonly KeyRef[], tenant: TenantInfo): Admission | undefined {
  const { spec = {} } = pod;
  // The tenant's API server says so in the pod itself; its selectors may still change (sync rule `pod-subresources`).
  if ((spec.schedulingGates ?? []).length > 0) return { wanted: false };

  const { podSecurity, daemonSets } = tenant.policy;
  const violation = podSecurityViolation(pod, podSecurity);
  if (violation !== undefined) return refused('PodSecurity', violation);
  const without = unsupported(pod, tenant);
  if (without !== undefined) return refused('NotSupported', without);
  if (daemonSets !== 'allow' && looksLikeDaemonSetPod(pod)) {
    return refused(
      'DaemonSetsNotAllowed',
      'the policy of this cluster (daemonSets: deny) runs neither pods of DaemonSets nor others that name nodes (metadata.name or kubernetes.io/hostname in spec.affinity.nodeAffinity, or the latter in spec.nodeSelector)',
    );
  }
  const reserved = reservedAmong(all);
  if (reserved !== undefined) return refused('ReservedName', reserved);
  const outside = outsidePool(spec, tenant);
  return outside === undefined ? undefined : refused('NodesNotAllowed', outside);
}

function tolerationNotice(spec: PodSpec, policy: TenantPolicy): Notice | undefined {
  const tolerations = spec.tolerations ?? [];
  const kept = new Set(superTolerations(tolerations, policy));
  const refused = tolerations.filter((toleration) => !kept.has(toleration));
  if (refused.length === 0) return undefined;
  const keys = new Set(
    refused.map((toleration) => (isBlanket(toleration) ? 'all taints' : String(toleration.key))),
  );
  const message = `the cluster does not allow tolerations of ${firstNames([...keys])} (policy: tolerations); the pod runs without`;
  return warning('TolerationsNotAllowed', message);
}

function metadataNotice(pod: Pod, tenant: TenantInfo): Notice | undefined {
  const annotations = refusedAnnotations(pod, tenant);
  const labels = refusedPodLabels(pod, tenant);
  const kinds = [
    ...(annotations.length === 0 ? [] : [`the annotations ${firstNames(annotations)}`]),
    ...(labels.length === 0 ? [] : [`the labels ${firstNames(labels)}`]),
  ];
  if (kinds.length === 0) return undefined;
  const message = `the cluster does not allow ${kinds.join(' and ')}; the pod runs without`;
  return warning('NotSupported', message);
}

const mostNamed = 5;

/** The first of them by name, and how many more there are. */
function firstNames(keys: readonly string[]): string {
  const named = keys.slice(0, mostNamed).join(', ');
  return keys.length > mostNamed ? `${named} and ${keys.length - mostNamed} more` : named;
}

/** Why a pod may not refer to what it does; undefined: it may. */
export function reservedReference(pod: Pod, context: SyncContext): string | undefined {
  const all = references(pod);
  const long = all.filter(({ name }) => isTooLongForLate(name));
  return reservedAmong(all) ?? missingLong(long, context);
}

function reservedAmong(all: readonly KeyRef[]): string | undefined {
  const reserved = all.find(isReservedReference);
  return reserved && `refers to ${reserved.kind}/${reserved.name}: that name is reserved`;
}

function missingLong(longReferences: readonly KeyRef[], context: SyncContext): string | undefined {
  const tooLong = longReferences.find((to) => isMissing(to, context));
  return (
    tooLong &&
    `refers to ${tooLong.kind}/${tooLong.name}, which does not exist: create it before the pod, as its name is too long to wait for`
  );
}

/** The tenant object without what was added to it while it ran. */
function asCreated(pod: Pod): Pod {
  if (pod.spec?.ephemeralContainers === undefined) return pod;
  const { ephemeralContainers: _added, ...spec } = pod.spec;
  return { ...pod, spec };
}

/**
 * While the super object is there, it knows; the mark on the tenant object can be forged, and is lost when all
 * annotations are replaced.
 */
function boundByUs(pod: Pod, { tenant, superObjects }: SyncContext): boolean {
  const { namespace = '', name = '', uid, annotations } = pod.metadata;
  const mark = annotations?.[annotationKeys.superUid];
  const s = superObjects.get<Pod>(resources.pods, { namespace: superNamespaceName(tenant, namespace), name });
  if (s === undefined || originalUid(s) !== uid) return mark !== undefined;
  if (mark === s.metadata.uid) return true;
  const node = s.spec?.nodeName ?? '';
  return node !== '' && shownNodeName(tenant, node) === pod.spec?.nodeName;
}

/** What Skerry keeps under such names in a super namespace is not for a pod to mount. */
function isReservedReference({ kind, name }: KeyRef): boolean {
  if (kind !== 'configmaps' && kind !== 'secrets') return false;
  return isReserved(name) || (kind === 'configmaps' && name === superRootCaName);
}

/** What of the node a pod asks for beyond the lists of the policy, in words; its level is another matter. */
function excessPrivilege(spec: PodSpec, policy: TenantPolicy): string | undefined {
  return excessCapability(spec, policy.capabilities) ?? excessHostPort(spec, policy.hostPorts);
}

function excessCapability(spec: PodSpec, allowed: readonly string[] | undefined): string | undefined {
  if (allowed === undefined) return undefined;
  for (const { name, securityContext } of allContainers(spec)) {
    if (securityContext?.privileged === true)
      return `container ${name}: a privileged container has all capabilities (policy: capabilities)`;
    const refused = (securityContext?.capabilities?.add ?? []).filter((each) => !allowed.includes(each));
    if (refused.length > 0)
      return `container ${name}: securityContext.capabilities.add has ${quoted(refused)}, which this cluster does not allow (policy: capabilities)`;
  }
  return undefined;
}

function excessHostPort(spec: PodSpec, allowed: readonly string[] | undefined): string | undefined {
  if (allowed === undefined) return undefined;
  if (spec.hostNetwork === true) return 'spec.hostNetwork opens every port of the node (policy: hostPorts)';
  for (const { name, ports } of allContainers(spec)) {
    for (const { hostPort } of ports ?? []) {
      if (hostPort === undefined || hostPort === 0 || isPortRangeListed(allowed, String(hostPort))) continue;
      return `container ${name}: the host port ${hostPort} is not one that this cluster allows (policy: hostPorts)`;
    }
  }
  return undefined;
}

/**
 * Whether a pod is one of a DaemonSet, or one that asks for its node as these do: by the field that holds the node's
 * name, or by the label that mostly says the same. Others can be named, too: all nodes but one. Its owners are the
 * tenant's to write.
 */
function looksLikeDaemonSetPod({ metadata, spec }: Pod): boolean {
  const isOwned = (metadata.ownerReferences ?? []).some(
    ({ kind, controller }) => kind === 'DaemonSet' && controller === true,
  );
  const terms =
    spec?.affinity?.nodeAffinity?.requiredDuringSchedulingIgnoredDuringExecution?.nodeSelectorTerms ?? [];
  // One term is enough for a pod to run: what stands beside it may be met by no node.
  return isOwned || spec?.nodeSelector?.[hostNameLabel] !== undefined || terms.some(namesNodes);
}

/** Whether it asks more of the host name than that there is one, or none. */
function namesNodes({ matchFields, matchExpressions }: NodeSelectorTerm): boolean {
  return (
    (matchFields ?? []).some(({ key }) => key === 'metadata.name') ||
    (matchExpressions ?? []).some(({ key, values }) => key === hostNameLabel && (values ?? []).length > 0)
  );
}
