import { hash } from 'node:crypto';
import { deepEqual } from 'fast-equals';
import type { MergePatch } from '../../../kube/index.ts';
import type { Action, Notice, SyncContext } from '../contract.ts';
import { reservedReference, unsupportedInContainer } from './admission.ts';
import { podSecurityViolations } from './pod-security.ts';
import { requiredObjects } from './references.ts';
import { isBlanket, isGuarded, superTolerations } from './scheduling.ts';
import { translatedContainers } from './translate.ts';
import {
  type Container,
  mapChanged,
  type Pod,
  type PodSpec,
  type ResourceRequirements,
  type Toleration,
} from './types.ts';

/**
 * What a pod's owner may change after its creation (sync rule 17): images, a deadline that comes nearer,
 * a negative grace period, more tolerations. Compares just these, so that what the super cluster's server and webhooks have put
 * into S is no difference. As `{ spec: … }`; undefined when S has them all.
 */
export function specPatch(tenantPod: Pod, superPod: Pod): MergePatch | undefined {
  const t = tenantPod.spec ?? {};
  const s = superPod.spec ?? {};
  let patch: MergePatch | undefined;
  for (const list of ['containers', 'initContainers'] as const) {
    const updated = withImages(s[list], t[list]);
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
  const tolerations = withTolerations(s, t.tolerations);
  if (tolerations !== s.tolerations) patch = { ...patch, tolerations };
  return patch === undefined ? undefined : { spec: patch };
}

/** S's containers, injected ones included, with T's images by name. */
function withImages(
  present: Container[] | undefined,
  wanted: Container[] | undefined,
): Container[] | undefined {
  return mapChanged(present, (container: Container) => {
    const image = wanted?.find(({ name }) => name === container.name)?.image;
    return image === undefined || image === container.image ? container : { ...container, image };
  });
}

/** S's tolerations, then what T has more; of one that both have, T says for how long. */
function withTolerations(s: PodSpec, wanted: readonly Toleration[] | undefined): Toleration[] | undefined {
  let result = s.tolerations;
  for (const toleration of superTolerations(wanted) ?? []) {
    const index = result?.findIndex((present) => sameTaints(present, toleration)) ?? -1;
    const present = result?.[index];
    if (present !== undefined) {
      if (present.tolerationSeconds === toleration.tolerationSeconds) continue;
      result = result?.map((item) => (item === present ? toleration : item));
    } else if (!isBlanket(toleration) || isGuarded(s)) {
      result = [...(result ?? []), toleration];
    }
  }
  // T may have one twice, with two times: only the last of them counts.
  return deepEqual(result, s.tolerations) ? s.tolerations : result;
}

function sameTaints(a: Toleration, b: Toleration): boolean {
  return a.key === b.key && a.operator === b.operator && a.value === b.value && a.effect === b.effect;
}

/** A container that was added to a running pod and that S is not to have. */
interface RefusedContainer {
  readonly container: Container;
  readonly notice: Notice;
}

/**
 * Brings containers that were added to T, as `kubectl debug` does, to S (sync rule 16). S's own stay as they
 * are, those that the super cluster's people have added among them: none may ever be changed or removed.
 */
export function ephemeralActions(tenantPod: Pod, superPod: Pod, context: SyncContext): readonly Action[] {
  if (tenantPod.spec?.ephemeralContainers === undefined) return [];
  const refused = refusedEphemeral(tenantPod, context);
  const actions: Action[] = refused
    .filter(({ container }) => !isToldOf(tenantPod, container))
    .map(({ notice }) => ({ do: 'notice', notice }));
  const missing = missingEphemeral(tenantPod, superPod, context);
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
  return actions;
}

/** Those of T that S is still to be given. */
export function missingEphemeral(tenantPod: Pod, superPod: Pod, context: SyncContext): Container[] {
  const own = tenantPod.spec?.ephemeralContainers;
  if (own === undefined) return [];
  const present = superPod.spec?.ephemeralContainers ?? [];
  const missing = own.filter(({ name }) => !present.some((there) => there.name === name));
  return missing.filter((container) => refusal(container, tenantPod, context) === undefined);
}

export function refusedEphemeral(tenantPod: Pod, context: SyncContext): RefusedContainer[] {
  return (tenantPod.spec?.ephemeralContainers ?? []).flatMap((container) => {
    const notice = refusal(container, tenantPod, context);
    return notice === undefined ? [] : [{ container, notice }];
  });
}

/** T's status says of each refused container what the event says: `kubectl debug` shows it while it waits. */
function isToldOf({ status }: Pod, { name }: Container): boolean {
  const statuses = (status?.['ephemeralContainerStatuses'] ?? []) as readonly { name?: string }[];
  return statuses.some((told) => told.name === name);
}

/** By the same rules as the containers that a pod is made with, in the security context of their pod. */
function refusal(container: Container, tenantPod: Pod, context: SyncContext): Notice | undefined {
  const { containers: _running, initContainers: _before, volumes: _volumes, ...rest } = tenantPod.spec ?? {};
  const alone: Pod = { ...tenantPod, spec: { ...rest, ephemeralContainers: [container] } };
  const { podSecurity } = context.tenant.policy;
  const violations = podSecurityViolations(alone, podSecurity);
  if (violations.length > 0) {
    const what = `violates the Pod Security level "${podSecurity}": ${violations.join('; ')}`;
    return notice('PodSecurity', container, what);
  }
  const unsupported = unsupportedInContainer(container, context);
  if (unsupported !== undefined) return notice('NotSupported', container, unsupported);
  const reserved = reservedReference({
    metadata: tenantPod.metadata,
    spec: { ephemeralContainers: [container] },
  });
  return reserved === undefined ? undefined : notice('ReservedName', container, reserved);
}

function notice(reason: string, { name }: Container, what: string): Notice {
  return { type: 'Warning', reason, message: `ephemeral container "${name}" does not run: ${what}` };
}

/**
 * Annotation on S: what T asked of CPU and memory when S was made or last resized, as a hash; absent: nothing.
 * It tells a resize by the tenant from what the super cluster's own webhooks and autoscalers make of S.
 */
export const resourcesMark = 'skerry.dev/resources';

const lists = ['containers', 'initContainers'] as const;
const resizable = ['cpu', 'memory'] as const;

/** The value of the mark; undefined: T asks for nothing. */
export function resourcesAsked(spec: PodSpec): string | undefined {
  const asked = lists.flatMap((list) =>
    (spec[list] ?? [])
      .filter(({ resources, resizePolicy }) => resources !== undefined || resizePolicy !== undefined)
      .map(({ name, resources, resizePolicy }) => [name, ...sizes(resources), resizePolicy]),
  );
  if (
    asked.every(([, ...parts]) => parts.every((part) => part === undefined)) &&
    spec.resources === undefined
  )
    return undefined;
  return hash('sha256', JSON.stringify([asked, sizes(spec.resources)]), 'hex').slice(0, 16);
}

/** Whether T was resized since S was made or last resized (sync rule 16). */
export function isResized({ spec: t = {} }: Pod, superPod: Pod): boolean {
  if (hasSizes(t, superPod.spec ?? {})) return false;
  return superPod.metadata.annotations?.[resourcesMark] !== resourcesAsked(t);
}

/** Resizes S in place, as T was; what T says nothing of stays as it is in S. */
export function resizeActions(tenantPod: Pod, superPod: Pod): readonly Action[] {
  if (!isResized(tenantPod, superPod)) return [];
  const { spec: t = {} } = tenantPod;
  const { spec: s = {} } = superPod;
  const patch = {
    spec: {
      ...Object.fromEntries(
        lists.flatMap((list) => (s[list] === undefined ? [] : [[list, resized(s[list], t[list])]])),
      ),
      ...(t.resources === undefined ? {} : { resources: merged(s.resources, t.resources) }),
    },
  };
  const mark = { metadata: { annotations: { [resourcesMark]: resourcesAsked(t) ?? null } } };
  return [
    { do: 'patchSuper', subresource: 'resize', patch, mayBeRefused: true },
    { do: 'patchSuper', patch: mark },
  ];
}

function hasSizes(t: PodSpec, s: PodSpec): boolean {
  return (
    lists.every((list) => resized(s[list], t[list]) === s[list]) &&
    (t.resources === undefined || deepEqual(merged(s.resources, t.resources), s.resources))
  );
}

/** S's containers, injected ones included, with the sizes of T's by name. */
function resized(present: Container[] | undefined, wanted: Container[] | undefined): Container[] | undefined {
  return mapChanged(present, (container: Container) => {
    const own = wanted?.find(({ name }) => name === container.name);
    if (own === undefined) return container;
    const resources =
      own.resources === undefined ? container.resources : merged(container.resources, own.resources);
    const resizePolicy = own.resizePolicy ?? container.resizePolicy;
    if (deepEqual(resources, container.resources) && deepEqual(resizePolicy, container.resizePolicy))
      return container;
    return { ...container, ...(resources && { resources }), ...(resizePolicy && { resizePolicy }) };
  });
}

/** Nothing is taken away: no API server lets a resize do that. */
function merged(
  present: ResourceRequirements | undefined,
  wanted: ResourceRequirements,
): ResourceRequirements {
  const result: ResourceRequirements = { ...present };
  for (const kind of ['requests', 'limits'] as const) {
    const own = sizesOf(wanted[kind]);
    if (Object.keys(own).length > 0) result[kind] = { ...present?.[kind], ...own };
  }
  return result;
}

function sizes(resources: ResourceRequirements | undefined): unknown[] {
  return [resources?.requests, resources?.limits].map((amounts) =>
    amounts === undefined ? undefined : resizable.map((name) => amounts[name] ?? ''),
  );
}

function sizesOf(amounts: Record<string, string> | undefined): Record<string, string> {
  return Object.fromEntries(
    resizable.flatMap((name) => (amounts?.[name] === undefined ? [] : [[name, amounts[name]]])),
  );
}
