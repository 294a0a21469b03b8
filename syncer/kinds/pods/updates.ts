import { deepEqual } from 'fast-equals';
import { annotationKeys } from '../../../api/labels.ts';
import type { TenantPolicy } from '../../../api/policy.ts';
import type { MergePatch } from '../../../kube/index.ts';
import type { SyncContext } from '../../context.ts';
import type { Action, Notice } from '../contract.ts';
import { warning } from '../validation.ts';
import { reservedReference, unsupportedInContainer } from './admission.ts';
import { isImageAllowed } from './images.ts';
import { podSecurityViolation } from './pod-security.ts';
import { requiredObjects } from './references.ts';
import { isBlanket, isGuarded, superTolerations } from './scheduling.ts';
import { excessiveVariables, variableSources } from './service-variables.ts';
import { imagesAnnotation } from './tenant-fields.ts';
import { translatedContainers } from './translate.ts';
import { type Container, mapChanged, type Pod, type PodSpec, type Toleration } from './types.ts';

type PodUpdate = {
  readonly spec: MergePatch;
  readonly metadata?: { readonly annotations: Readonly<Record<string, string>> };
};

/**
 * What a pod's owner may change after its creation (sync rule `pod-updates`): images, a deadline that comes nearer, a
 * negative grace period, more tolerations. Compares just these, so that what the super cluster's server and webhooks
 * have put into the super object is no difference. New images come with the annotation that names them. Undefined when
 * the super object has them all.
 */
export function specPatch(tenantPod: Pod, superPod: Pod, policy: TenantPolicy): PodUpdate | undefined {
  const t = tenantPod.spec ?? {};
  const s = superPod.spec ?? {};
  let patch: MergePatch | undefined;
  for (const list of ['containers', 'initContainers'] as const) {
    const updated = withImages(s[list], t[list], policy);
    if (updated !== s[list]) patch = { ...patch, [list]: updated };
  }
  const { activeDeadlineSeconds } = t;
  if (activeDeadlineSeconds !== undefined && activeDeadlineSeconds < (s.activeDeadlineSeconds ?? Infinity)) {
    patch = { ...patch, activeDeadlineSeconds };
  }
  // The one change that is allowed, and only from what no API server should have let in.
  const { terminationGracePeriodSeconds } = t;
  if (terminationGracePeriodSeconds === 1 && (s.terminationGracePeriodSeconds ?? 0) < 0)
    patch = { ...patch, terminationGracePeriodSeconds };
  const tolerations = withTolerations(s, t.tolerations, policy);
  if (tolerations !== s.tolerations) patch = { ...patch, tolerations };
  if (patch === undefined) return undefined;
  const hasNewImages = patch['containers'] !== undefined || patch['initContainers'] !== undefined;
  // A pod of a version before the annotation gets it with a new image: an upgrade of Skerry writes nothing.
  if (!hasNewImages) return { spec: patch };
  return { spec: patch, metadata: { annotations: { [annotationKeys.images]: imagesAnnotation(t) } } };
}

/** The super object's containers, injected ones included, with the tenant object's images by name. */
function withImages(
  present: Container[] | undefined,
  wanted: Container[] | undefined,
  policy: TenantPolicy,
): Container[] | undefined {
  const images = new Map(wanted?.toReversed().map(({ name, image }) => [name, image]));
  return mapChanged(present, (container: Container) => {
    const image = images.get(container.name);
    const isKept = image === undefined || image === container.image || !isImageAllowed(image, policy);
    return isKept ? container : { ...container, image };
  });
}

/**
 * The super object's tolerations, then what the tenant object has more; of one that both have, the tenant object says
 * for how long.
 */
function withTolerations(
  s: PodSpec,
  wanted: readonly Toleration[] | undefined,
  policy: TenantPolicy,
): Toleration[] | undefined {
  const result = [...(s.tolerations ?? [])];
  /** Of one that is there twice, the first. */
  const indexes = new Map<string, number>();
  for (const [index, present] of result.entries()) {
    const taints = taintsOf(present);
    if (!indexes.has(taints)) indexes.set(taints, index);
  }
  const added = superTolerations(wanted, policy) ?? [];
  const takesBlankets = added.some(isBlanket) && isGuarded(s, policy);
  for (const toleration of added) {
    const index = indexes.get(taintsOf(toleration));
    if (index !== undefined) {
      if (result[index]?.tolerationSeconds !== toleration.tolerationSeconds) result[index] = toleration;
    } else if (!isBlanket(toleration) || takesBlankets) {
      indexes.set(taintsOf(toleration), result.length);
      result.push(toleration);
    }
  }
  // The tenant object may have one twice, with two times: only the last of them counts.
  return deepEqual(result, s.tolerations ?? []) ? s.tolerations : result;
}

/** Which taints it tolerates. */
function taintsOf({ key, operator, value, effect }: Toleration): string {
  return JSON.stringify([key, operator, value, effect]);
}

/** A container that was added to a running pod and that the super object is not to have. */
interface RefusedContainer {
  readonly container: Container;
  readonly notice: Notice;
}

/** Those of the tenant object's ephemeral containers that the super object does not have. */
interface AbsentEphemeral {
  /** It is still to be given these. */
  readonly missing: Container[];
  readonly refused: readonly RefusedContainer[];
}

/**
 * Brings containers that were added to the tenant object, as `kubectl debug` does, to the super object (sync rule
 * `pod-subresources`). The super object's own stay as they are, those that the super cluster's people have added among
 * them: none may ever be changed or removed.
 */
export function ephemeralActions(tenantPod: Pod, superPod: Pod, context: SyncContext): readonly Action[] {
  if (tenantPod.spec?.ephemeralContainers === undefined) return [];
  const { missing, refused } = absentEphemeral(tenantPod, superPod, context);
  const told = toldOf(tenantPod);
  const actions: Action[] = refused
    .filter(({ container }) => !told.has(container.name))
    .map(({ notice }) => ({ do: 'notice', notice }));
  if (missing.length === 0) return actions;
  const { metadata } = tenantPod;
  const keys = requiredObjects({ metadata, spec: { ephemeralContainers: missing } }, context);
  if (keys.length > 0) actions.push({ do: 'require', keys });
  const ephemeralContainers = [
    ...(superPod.spec?.ephemeralContainers ?? []),
    ...translatedContainers(missing, tenantPod, context),
  ];
  const patch = { spec: { ephemeralContainers } };
  actions.push({ do: 'patchSuper', subresource: 'ephemeralcontainers', patch, mayBeRefused: true });
  const marked = containersFromTenant(superPod);
  const isMarked = new Set(marked);
  const added = missing.map(({ name }) => name).filter((name) => !isMarked.has(name));
  // Not before they are there: of those that are refused, others may add one of the same name. One whose mark is lost
  // stays closed.
  if (added.length > 0) {
    const annotations = { [annotationKeys.containers]: [...marked, ...added].join() };
    actions.push({ do: 'patchSuper', patch: { metadata: { annotations } } });
  }
  return actions;
}

function containersFromTenant({ metadata }: Pod): readonly string[] {
  return metadata.annotations?.[annotationKeys.containers]?.split(',') ?? [];
}

export function absentEphemeral(tenantPod: Pod, superPod: Pod, context: SyncContext): AbsentEphemeral {
  const own = tenantPod.spec?.ephemeralContainers ?? [];
  const present = new Set(superPod.spec?.ephemeralContainers?.map(({ name }) => name));
  const missing: Container[] = [];
  const refused: RefusedContainer[] = [];
  for (const container of own) {
    if (present.has(container.name)) continue;
    const notice = refusal(container, tenantPod, context);
    if (notice === undefined) missing.push(container);
    else refused.push({ container, notice });
  }
  if (missing.length === 0) return { missing, refused };
  const { containers = [], initContainers = [] } = tenantPod.spec ?? {};
  const having = containers.length + initContainers.length + present.size;
  const asked = { containers: having + missing.length, sources: variableSources(missing) };
  const excess = excessiveVariables(tenantPod, asked, context);
  if (excess === undefined) return { missing, refused };
  // All or none: how many of them fit depends on the Services that there are at the moment.
  const tooMany = missing.map((container) => ({
    container,
    notice: notice('TooManyServiceVariables', container, excess),
  }));
  return { missing: [], refused: [...refused, ...tooMany] };
}

/**
 * The tenant object's status says of each refused container what the event says: `kubectl debug` shows it while it
 * waits.
 */
function toldOf({ status }: Pod): ReadonlySet<string | undefined> {
  const statuses = (status?.['ephemeralContainerStatuses'] ?? []) as readonly { name?: string }[];
  return new Set(statuses.map(({ name }) => name));
}

/** By the same rules as the containers that a pod is made with, in the security context of their pod. */
function refusal(container: Container, tenantPod: Pod, context: SyncContext): Notice | undefined {
  const { containers: _running, initContainers: _before, volumes: _volumes, ...rest } = tenantPod.spec ?? {};
  const alone: Pod = { ...tenantPod, spec: { ...rest, ephemeralContainers: [container] } };
  const violation = podSecurityViolation(alone, context.tenant.policy.podSecurity);
  if (violation !== undefined) return notice('PodSecurity', container, violation);
  const unsupported = unsupportedInContainer(container, context);
  if (unsupported !== undefined) return notice('NotSupported', container, unsupported);
  const { metadata } = tenantPod;
  const reserved = reservedReference({ metadata, spec: { ephemeralContainers: [container] } }, context);
  return reserved === undefined ? undefined : notice('ReservedName', container, reserved);
}

function notice(reason: string, { name }: Container, what: string): Notice {
  return warning(reason, `ephemeral container "${name}" does not run: ${what}`);
}
