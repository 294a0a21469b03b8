import { deepEqual } from 'fast-equals';
import { isRecord, shapeProblems } from '../../../kube/index.ts';
import type { SyncContext } from '../../context.ts';
import { annotationGoesDown, workloadLabelGoesDown } from '../../mapping/metadata.ts';
import type { Notice, SuperWrite } from '../contract.ts';
import { nameOfLate } from '../late-references.ts';
import { isReserved } from '../reserved-names.ts';
import {
  type KeyRules,
  shapeRefusal,
  unexpectedFields,
  validateCreatedMetadata,
  validatePatchedMetadata,
  warning,
} from '../validation.ts';
import { podSecurityViolation } from './pod-security.ts';
import { tokenSecretName } from './token-requests.ts';
import {
  allContainers,
  type Container,
  ownedConditionTypes,
  type Pod,
  type PodSpec,
  type Volume,
} from './types.ts';

/** Sources of volumes that need nothing but the tenant's own objects, as they are sent. */
const ownSources = new Set([
  'configMap',
  'downwardAPI',
  'emptyDir',
  'persistentVolumeClaim',
  'projected',
  'secret',
]);
const projections = new Set(['configMap', 'downwardAPI', 'secret']);

/** Fields that Kubernetes knows and that a pod is never created with: the super cluster sets them, or nothing does. */
const neverSent = [
  'ephemeralContainers',
  'nodeName',
  'overhead',
  'preemptionPolicy',
  'priority',
  'resourceClaims',
  'schedulingGates',
  'schedulingGroup',
] as const;

/** Why a pod is not sent as it is; undefined: it may be (sync rule `validated-writes`). Pure; throws nothing. */
export function validatePod(write: SuperWrite, context: SyncContext): Notice | undefined {
  const { tenant } = context;
  const rules: KeyRules = {
    label: (key) => workloadLabelGoesDown(key, tenant),
    annotation: (key) => annotationGoesDown(key, tenant),
  };
  if ('creates' in write) {
    const { creates } = write;
    return (
      unexpectedFields(creates, '', ['apiVersion', 'kind', 'metadata', 'spec']) ??
      validateCreatedMetadata(creates.metadata, rules, context) ??
      shapeRefusal(shapeProblems(creates['spec'], 'PodSpec', { path: 'spec' })) ??
      validateCreatedSpec(creates as Pod, context)
    );
  }
  const superPod = write.patches as Pod;
  const { patch, subresource } = write;
  switch (subresource) {
    case undefined:
      return (
        unexpectedFields(patch, '', ['metadata', 'spec']) ??
        (patch['metadata'] === undefined ? undefined : validatePatchedMetadata(patch['metadata'], rules)) ??
        (patch['spec'] === undefined ? undefined : validateUpdate(patch['spec'], superPod, updates))
      );
    case 'resize':
      return unexpectedFields(patch, '', ['spec']) ?? validateUpdate(patch['spec'], superPod, resizes);
    case 'ephemeralcontainers':
      return unexpectedFields(patch, '', ['spec']) ?? validateEphemeral(patch['spec'], superPod, context);
    case 'status':
      return unexpectedFields(patch, '', ['status']) ?? validateStatus(patch['status'], superPod);
    default:
      return warning('UnknownField', `${subresource} of a pod is not written`);
  }
}

/** Of a spec that has the shape of one. */
function validateCreatedSpec(pod: Pod, { tenant }: SyncContext): Notice | undefined {
  const { spec = {}, metadata } = pod;
  const { podSecurity, volumeTypes, schedulerNames } = tenant.policy;
  const foreign = neverSent.find((field) => isGiven(spec[field]));
  if (foreign !== undefined) return warning('NotSupported', `spec.${foreign} is not sent to the cluster`);
  if (spec['automountServiceAccountToken'] !== false)
    return warning('NotSupported', 'spec.automountServiceAccountToken would mount a token of the cluster');
  if (spec.schedulerName !== undefined && !schedulerNames.includes(spec.schedulerName))
    return warning(
      'NotSupported',
      'spec.schedulerName is none that this cluster has (policy: schedulerNames)',
    );
  if (spec.priorityClassName?.startsWith('system-') === true)
    return warning('NotSupported', `spec.priorityClassName: ${spec.priorityClassName} is the cluster's own`);
  const gate = spec.readinessGates?.find(({ conditionType }) => ownedConditionTypes.has(conditionType));
  if (gate !== undefined)
    return warning(
      'NotSupported',
      `spec.readinessGates: ${gate.conditionType} is a condition of the cluster's own`,
    );
  const tokens = tokenSecretName(metadata.name ?? '');
  const refused =
    firstOf(spec.volumes, (volume) => validateVolume(volume, volumeTypes, tokens)) ??
    firstOf(allContainers(spec), validateContainer);
  if (refused !== undefined) return refused;
  const violation = podSecurityViolation(pod, podSecurity);
  return violation === undefined ? undefined : warning('PodSecurity', violation);
}

function validateVolume(volume: Volume, allowed: readonly string[], tokens: string): Notice | undefined {
  if (volume.name === undefined) return warning('InvalidField', 'spec.volumes: one of them has no name');
  const path = `volume ${volume.name}`;
  const sources = Object.keys(volume).filter((key) => key !== 'name');
  const [source] = sources;
  if (source === undefined || sources.length > 1)
    return warning(
      'InvalidField',
      `${path} has ${sources.join(', ') || 'no source'}: it has to have one source`,
    );
  if (!ownSources.has(source) && !allowed.includes(source))
    return warning(
      'NotSupported',
      `${path}: volumes of type ${source} are not allowed in this cluster (policy: volumeTypes)`,
    );
  if (isClosed(volume.configMap?.name ?? '') || isClosed(volume.secret?.secretName ?? ''))
    return warning('ReservedName', `${path} refers to a name that is reserved`);
  return firstOf(volume.projected?.sources, (projection) => {
    const kinds = Object.keys(projection);
    const [kind = ''] = kinds;
    if (kinds.length !== 1) return warning('InvalidField', `${path}: each of its sources has to be one`);
    if (!projections.has(kind)) return warning('NotSupported', `${path}: ${kind} is not supported`);
    const secret = projection.secret?.name ?? '';
    if (isClosed(projection.configMap?.name ?? '') || (isClosed(secret) && secret !== tokens))
      return warning('ReservedName', `${path} refers to a name that is reserved`);
    return undefined;
  });
}

/** A name of Skerry's own that no pod may refer to; by late names Skerry itself has pods refer (`late-references`). */
function isClosed(name: string): boolean {
  return isReserved(name) && nameOfLate(name) === undefined;
}

function validateContainer(container: Container): Notice | undefined {
  const names = [
    ...(container.env ?? []).flatMap(({ valueFrom }) => [
      valueFrom?.configMapKeyRef?.name,
      valueFrom?.secretKeyRef?.name,
    ]),
    ...(container.envFrom ?? []).flatMap(({ configMapRef, secretRef }) => [
      configMapRef?.name,
      secretRef?.name,
    ]),
  ];
  return names.some((name) => isClosed(name ?? ''))
    ? warning('ReservedName', `container ${container.name} refers to a name that is reserved`)
    : undefined;
}

/** What may change in a pod that is there: fields of its spec, and of its containers. */
interface Changes {
  readonly spec: readonly string[];
  readonly container: readonly string[];
}

const updates: Changes = {
  spec: ['activeDeadlineSeconds', 'terminationGracePeriodSeconds', 'tolerations'],
  container: ['image'],
};
const resizes: Changes = { spec: ['resources'], container: ['resizePolicy', 'resources'] };
const lists = ['containers', 'initContainers'] as const;

/** Containers keep their names: those that the super cluster has injected among them, unchanged and in their place. */
function validateUpdate(spec: unknown, superPod: Pod, changes: Changes): Notice | undefined {
  const present = superPod.spec ?? {};
  const shape =
    unexpectedFields(spec, 'spec', [...changes.spec, ...lists]) ??
    shapeRefusal(shapeProblems(spec, 'PodSpec', { path: 'spec', present }));
  if (shape !== undefined) return shape;
  for (const list of lists) {
    const containers = (spec as PodSpec)[list];
    if (containers === undefined) continue;
    const before = present[list] ?? [];
    const isSame =
      containers.length === before.length && containers.every(({ name }, i) => name === before[i]?.name);
    if (!isSame) return warning('InvalidField', `spec.${list} would not be those of the pod`);
    for (const [index, container] of containers.entries()) {
      const changed = differing(container, before[index] ?? {});
      const refused = changed.filter((field) => !changes.container.includes(field));
      const path = `spec.${list}[${index}]`;
      if (refused.length > 0)
        return shapeRefusal(refused.map((field) => ({ is: 'unknown', path: `${path}.${field}` })));
    }
  }
  return undefined;
}

function validateEphemeral(spec: unknown, superPod: Pod, { tenant }: SyncContext): Notice | undefined {
  const present = superPod.spec ?? {};
  const shape =
    unexpectedFields(spec, 'spec', ['ephemeralContainers']) ??
    shapeRefusal(shapeProblems(spec, 'PodSpec', { path: 'spec', present }));
  if (shape !== undefined) return shape;
  const before = present.ephemeralContainers ?? [];
  const after = (spec as PodSpec).ephemeralContainers ?? [];
  if (!before.every((container, index) => deepEqual(container, after[index])))
    return warning('InvalidField', 'spec.ephemeralContainers would not keep those of the pod');
  const added = after.slice(before.length);
  const taken = new Set(allContainers(present).map(({ name }) => name));
  const again = added.find(({ name }) => taken.has(name));
  if (again !== undefined)
    return warning('InvalidField', `ephemeral container ${again.name}: the pod has one of that name`);
  const { containers: _running, initContainers: _before, volumes: _volumes, ...context } = present;
  const alone: Pod = { metadata: { name: '' }, spec: { ...context, ephemeralContainers: added } };
  const violation = podSecurityViolation(alone, tenant.policy.podSecurity);
  if (violation !== undefined) return warning('PodSecurity', violation);
  return firstOf(added, validateContainer);
}

/** Only conditions that are readiness gates of the pod change. */
function validateStatus(status: unknown, superPod: Pod): Notice | undefined {
  const present = superPod.status ?? {};
  const shape =
    unexpectedFields(status, 'status', ['conditions']) ??
    shapeRefusal(shapeProblems(status, 'PodStatus', { path: 'status', nullScalars: true, present }));
  if (shape !== undefined) return shape;
  const gates = new Set((superPod.spec?.readinessGates ?? []).map(({ conditionType }) => conditionType));
  const others = (of: Pod['status']) =>
    (of?.conditions ?? []).filter(({ type }) => !gates.has(type) || ownedConditionTypes.has(type));
  if (!deepEqual(others(status as Pod['status']), others(present)))
    return warning('InvalidField', 'status.conditions that are no readiness gates would change');
  return undefined;
}

/** Whether a field says anything: an empty text or list does not. */
function isGiven(value: unknown): boolean {
  return value !== undefined && value !== '' && !(Array.isArray(value) && value.length === 0);
}

function differing(after: object, before: object): string[] {
  const fields = new Set([...Object.keys(after), ...Object.keys(before)]);
  const of = (value: object, field: string): unknown =>
    isRecord(value) && Object.hasOwn(value, field) ? value[field] : undefined;
  return [...fields].filter((field) => !deepEqual(of(after, field), of(before, field)));
}

function firstOf<T>(
  items: readonly T[] | null | undefined,
  validate: (item: T) => Notice | undefined,
): Notice | undefined {
  for (const item of items ?? []) {
    const refused = validate(item);
    if (refused !== undefined) return refused;
  }
  return undefined;
}
