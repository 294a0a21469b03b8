import { labelKeys } from '../../../api/labels.ts';
import type { TenantPolicy } from '../../../api/policy.ts';
import { isTaintKeyListed } from '../../../api/policy-lists.ts';
import { resources, withoutUndefined } from '../../../kube/index.ts';
import type { SyncContext, TenantInfo } from '../../context.ts';
import { superNamespaceName } from '../../mapping/names.ts';
import { superNamespaceSelector } from '../../mapping/namespace-labels.ts';
import {
  type LabelRequirement,
  type LabelSelector,
  matchesSelector,
} from '../../mapping/network-isolation.ts';
import type { Notice } from '../contract.ts';
import { isOffered } from '../published-kind.ts';
import {
  type Affinity,
  mapChanged,
  type NodeSelectorTerm,
  type Pod,
  type PodAffinity,
  type PodAffinityTerm,
  type PodSpec,
  type PodStep,
  type SpreadConstraint,
  type Toleration,
} from './types.ts';

/** Kubernetes' own, for what a cluster itself cannot do without. */
const systemPrefix = 'system-';

/**
 * The priority class of the super object: the tenant object's, if it is one that the operator has published. Others are
 * the tenant's own affair, and no pod of a tenant is the super cluster's system.
 */
function superPriorityClass({ priorityClassName = '' }: PodSpec, context: SyncContext): string | undefined {
  if (priorityClassName === '' || priorityClassName.startsWith(systemPrefix)) return undefined;
  return isOffered(resources.priorityClasses, priorityClassName, context) ? priorityClassName : undefined;
}

/** A notice that the user would not expect otherwise: a pod with a class of its own runs as if it had none. */
export function priorityNotice(spec: PodSpec, context: SyncContext): Notice | undefined {
  const { priorityClassName = '' } = spec;
  if (priorityClassName === '' || priorityClassName.startsWith(systemPrefix)) return undefined;
  if (superPriorityClass(spec, context) !== undefined) return undefined;
  return {
    type: 'Normal',
    reason: 'PriorityClassNotPublished',
    message: `the pod is scheduled without the priority class ${priorityClassName}: it is not one that this cluster offers`,
  };
}

/**
 * The runtime class of the super object: the one that the policy forces on every pod, else the tenant object's, which
 * has to be published.
 */
function superRuntimeClass({ runtimeClassName = '' }: PodSpec, { tenant }: SyncContext): string | undefined {
  return tenant.policy.runtimeClassName ?? (runtimeClassName === '' ? undefined : runtimeClassName);
}

/** Why the tenant object may not have its runtime class; undefined: it may. */
export function refusedRuntimeClass(spec: PodSpec, context: SyncContext): string | undefined {
  const { runtimeClassName = '' } = spec;
  if (runtimeClassName === '' || context.tenant.policy.runtimeClassName !== undefined) return undefined;
  if (isOffered(resources.runtimeClasses, runtimeClassName, context)) return undefined;
  return `the runtime class ${runtimeClassName} is not one that this cluster offers`;
}

/**
 * Sync rules `pod-creation` and `pod-classes`: leaves behind what the super cluster decides itself. Its API server
 * refuses a priority and an overhead that no class of its own gives, and takes those of a class from there. Ephemeral
 * containers cannot be created with a pod.
 */
export const placement: PodStep = (spec, _pod, context) => {
  const {
    nodeName: _nodeName,
    serviceAccount: _alias,
    priority: _priority,
    priorityClassName: _priorityClassName,
    preemptionPolicy: _preemptionPolicy,
    runtimeClassName: _runtimeClassName,
    schedulerName = '',
    overhead: _overhead,
    ephemeralContainers: _ephemeralContainers,
    ...rest
  } = spec;
  const priorityClassName = superPriorityClass(spec, context);
  const runtimeClassName = superRuntimeClass(spec, context);
  const { schedulerNames } = context.tenant.policy;
  const placed: PodSpec = {
    ...rest,
    ...withoutUndefined({ priorityClassName, runtimeClassName }),
    ...(schedulerNames.includes(schedulerName) ? { schedulerName } : {}),
  };
  return placed;
};

/** Sync rule `pod-classes`: pods stay on the nodes that the tenant has. */
export const pool: PodStep = (spec, _pod, { tenant }) => {
  if (Object.keys(tenant.nodeSelector).length === 0) return spec;
  return { ...spec, nodeSelector: { ...spec.nodeSelector, ...tenant.nodeSelector } };
};

/** Why none of the tenant's nodes can ever be one for this pod; undefined: one may be. */
export function outsidePool(spec: PodSpec, { nodeSelector }: TenantInfo): string | undefined {
  const own = spec.nodeSelector ?? {};
  for (const [key, value] of Object.entries(nodeSelector)) {
    const asked = own[key];
    if (asked !== undefined && asked !== value)
      return `spec.nodeSelector asks for ${key}=${asked}; the nodes of this cluster have ${key}=${value}`;
  }
  const terms =
    spec.affinity?.nodeAffinity?.requiredDuringSchedulingIgnoredDuringExecution?.nodeSelectorTerms ?? [];
  const isOutside = terms.map(({ matchExpressions = [] }) => {
    const known = matchExpressions.filter(({ key }) => Object.hasOwn(nodeSelector, key));
    return !known.every((requirement) => isMet(requirement, nodeSelector));
  });
  if (isOutside.length === 0 || isOutside.includes(false)) return undefined;
  const nodes = Object.entries(nodeSelector).map(([key, value]) => `${key}=${value}`);
  return `spec.affinity.nodeAffinity asks for other nodes than this cluster has: those with ${nodes.join(', ')}`;
}

/** Whether the labels of a node meet a requirement. `Gt` and `Lt` are operators of node selectors alone. */
function isMet(requirement: LabelRequirement, labels: Readonly<Record<string, string>>): boolean {
  const { key, operator, values: [bound] = [] } = requirement;
  if (operator !== 'Gt' && operator !== 'Lt')
    return matchesSelector({ matchExpressions: [requirement] }, labels);
  const value = labels[key];
  if (!isWhole(value) || !isWhole(bound)) return false;
  return operator === 'Gt' ? BigInt(value) > BigInt(bound) : BigInt(value) < BigInt(bound);
}

function isWhole(text: string | undefined): text is string {
  return text !== undefined && /^-?\d+$/.test(text);
}

/** Labels, and keys of taints, by which nodes that run a control plane are known. */
const controlPlaneKeys = [
  'node-role.kubernetes.io/control-plane',
  'node-role.kubernetes.io/master',
  'node-role.kubernetes.io/etcd',
  'node-role.kubernetes.io/controlplane',
] as const;

/** Those of nodes that the policy does not open by name. */
function closedKeys({ tolerations = [] }: TenantPolicy): string[] {
  return controlPlaneKeys.filter((key) => !isTaintKeyListed(tolerations, key));
}

/** Every API server gives tolerations of these to every pod. */
const automaticTaints = ['node.kubernetes.io/not-ready', 'node.kubernetes.io/unreachable'];
/** Taints that stand for the state of a node; the DaemonSet controller has its pods tolerate them. */
const nodeConditionTaints = 'node.kubernetes.io/';

/**
 * Sync rule `pod-classes`: tolerations by the policy, and no way onto control-plane nodes. A pod that tolerates
 * everything, or asks for such nodes, is kept away by node affinity.
 */
export const scheduling: PodStep = (spec, _pod, { tenant: { policy } }) => {
  const tolerations = superTolerations(spec.tolerations, policy);
  const tolerating =
    tolerations === undefined || tolerations.length === spec.tolerations?.length
      ? spec
      : { ...spec, tolerations };
  const closed = closedKeys(policy);
  return needsGuard(tolerating, closed)
    ? { ...tolerating, affinity: guard(tolerating.affinity, closed) }
    : tolerating;
};

/** Those of the tenant object's tolerations that the super object has. */
export function superTolerations(
  tolerations: readonly Toleration[] | undefined,
  policy: TenantPolicy,
): Toleration[] | undefined {
  return tolerations?.filter((toleration) => isTolerationAllowed(toleration, policy));
}

function isTolerationAllowed(
  toleration: Toleration,
  { tolerations = [], daemonSets }: TenantPolicy,
): boolean {
  if (isBlanket(toleration)) return tolerations.includes('*');
  const key = String(toleration.key);
  if (automaticTaints.includes(key) || isTaintKeyListed(tolerations, key)) return true;
  return daemonSets === 'allow' && key.startsWith(nodeConditionTaints);
}

/** Tolerates taints whatever their key. */
export function isBlanket({ key }: Toleration): boolean {
  // The tenant's server may send null, which means the same.
  return (key ?? '') === '';
}

/**
 * Whether the super object can be given a blanket toleration: it is kept from control-plane nodes, or has its node
 * already.
 */
export function isGuarded(spec: PodSpec, policy: TenantPolicy): boolean {
  if (spec.nodeName !== undefined && spec.nodeName !== '') return true;
  const terms = requiredTerms(spec.affinity);
  return (
    terms.length > 0 &&
    terms.every(({ matchExpressions = [] }) =>
      closedKeys(policy).every((key) =>
        matchExpressions.some(
          (expression) => expression.key === key && expression.operator === 'DoesNotExist',
        ),
      ),
    )
  );
}

function needsGuard(spec: PodSpec, closed: readonly string[]): boolean {
  if (closed.length === 0) return false;
  return (
    spec.tolerations?.some(isBlanket) === true ||
    Object.keys(spec.nodeSelector ?? {}).some((key) => closed.includes(key)) ||
    requiredTerms(spec.affinity).some(({ matchExpressions }) =>
      matchExpressions?.some(({ key, operator }) => closed.includes(key) && operator !== 'DoesNotExist'),
    )
  );
}

/** Terms are alternatives, so each gets the guard; an empty term matches no node and must stay empty. */
function guard(affinity: Affinity = {}, closed: readonly string[]): Affinity {
  const expressions = closed.map((key) => ({ key, operator: 'DoesNotExist' }));
  const terms = requiredTerms(affinity);
  const guarded = terms.map((term) =>
    isEmpty(term) ? term : { ...term, matchExpressions: [...(term.matchExpressions ?? []), ...expressions] },
  );
  return {
    ...affinity,
    nodeAffinity: {
      ...affinity.nodeAffinity,
      requiredDuringSchedulingIgnoredDuringExecution: {
        nodeSelectorTerms: guarded.length === 0 ? [{ matchExpressions: [...expressions] }] : guarded,
      },
    },
  };
}

function requiredTerms(affinity: Affinity | undefined): readonly NodeSelectorTerm[] {
  return affinity?.nodeAffinity?.requiredDuringSchedulingIgnoredDuringExecution?.nodeSelectorTerms ?? [];
}

function isEmpty({ matchExpressions = [], matchFields = [] }: NodeSelectorTerm): boolean {
  return matchExpressions.length === 0 && matchFields.length === 0;
}

/**
 * Sync rule `pod-affinity`: the pods that a pod wants to be near to, or far from, are its own tenant's. Every selector
 * is narrowed to them, and namespaces are named as the super cluster names them. A pod's affinity cannot
 * be changed later, so a selector of namespaces stays one: super namespaces carry the tenant object's labels.
 */
export const interPodAffinity: PodStep = (spec, pod, context) => {
  const { affinity, topologySpreadConstraints } = spec;
  const inAffinity = affinity?.podAffinity !== undefined || affinity?.podAntiAffinity !== undefined;
  if (!inAffinity && topologySpreadConstraints === undefined) return spec;
  const translate = (terms: PodAffinity | undefined) => terms && translatedAffinity(terms, pod, context);
  const translated = withoutUndefined({
    podAffinity: translate(affinity?.podAffinity),
    podAntiAffinity: translate(affinity?.podAntiAffinity),
  });
  const fields = withoutUndefined({
    affinity: affinity && { ...affinity, ...translated },
    topologySpreadConstraints: topologySpreadConstraints?.map((constraint) =>
      translatedConstraint(constraint, pod, context),
    ),
  });
  return { ...spec, ...fields };
};

function translatedAffinity(affinity: PodAffinity, pod: Pod, context: SyncContext): PodAffinity {
  const term = (original: PodAffinityTerm) => translatedTerm(original, pod, context);
  const required = mapChanged(affinity.requiredDuringSchedulingIgnoredDuringExecution, term);
  const preferred = affinity.preferredDuringSchedulingIgnoredDuringExecution?.map((weighted) => ({
    ...weighted,
    ...withoutUndefined({ podAffinityTerm: weighted.podAffinityTerm && term(weighted.podAffinityTerm) }),
  }));
  const terms = withoutUndefined({
    requiredDuringSchedulingIgnoredDuringExecution: required,
    preferredDuringSchedulingIgnoredDuringExecution: preferred,
  });
  return { ...affinity, ...terms };
}

function translatedTerm(term: PodAffinityTerm, pod: Pod, context: SyncContext): PodAffinityTerm {
  const { labelSelector, namespaces, namespaceSelector, matchLabelKeys, mismatchLabelKeys, ...rest } = term;
  const selector = withLabelKeys(labelSelector, pod, matchLabelKeys, mismatchLabelKeys);
  const fields = withoutUndefined({
    labelSelector: selector && narrowed(selector, context),
    namespaces: namespaces?.map((name) => superNamespaceName(context.tenant, name)),
    namespaceSelector: namespaceSelector && superNamespaceSelector(namespaceSelector, context.tenant),
  });
  return { ...rest, ...fields };
}

function translatedConstraint(
  constraint: SpreadConstraint,
  pod: Pod,
  context: SyncContext,
): SpreadConstraint {
  const { labelSelector, matchLabelKeys, ...rest } = constraint;
  const selector = withLabelKeys(labelSelector, pod, matchLabelKeys, undefined);
  return selector === undefined ? rest : { ...rest, labelSelector: narrowed(selector, context) };
}

/**
 * The tenant's API server has written these keys into the selector already; one older than 1.34 has not for spreading.
 */
function withLabelKeys(
  selector: LabelSelector | undefined,
  pod: Pod,
  matchKeys: readonly string[] = [],
  mismatchKeys: readonly string[] = [],
): LabelSelector | undefined {
  if (selector === undefined) return undefined;
  const present = new Set((selector.matchExpressions ?? []).map(({ key, operator }) => `${operator} ${key}`));
  const added = [
    ...matchKeys.map((key) => ({ key, operator: 'In' })),
    ...mismatchKeys.map((key) => ({ key, operator: 'NotIn' })),
  ].flatMap(({ key, operator }) => {
    const value = pod.metadata.labels?.[key];
    return value === undefined || present.has(`${operator} ${key}`)
      ? []
      : [{ key, operator, values: [value] }];
  });
  if (added.length === 0) return selector;
  return { ...selector, matchExpressions: [...(selector.matchExpressions ?? []), ...added] };
}

function narrowed(selector: LabelSelector, { tenant }: SyncContext): LabelSelector {
  return { ...selector, matchLabels: { ...selector.matchLabels, [labelKeys.tenant]: tenant.uid } };
}
