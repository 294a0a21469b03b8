import {
  type Condition,
  findCondition,
  type KubeObject,
  type MergePatch,
  metaTime,
} from '../../../kube/index.ts';
import type { SyncContext } from '../../context.ts';
import { shownHostIP, shownNodeName } from '../../mapping/node-names.ts';
import { scrub } from '../../mapping/scrub.ts';
import { isTooLargeToRepeat } from '../conditions.ts';
import { setField, unlessEmpty } from '../patches.ts';
import { isResized } from './resize.ts';
import { isDeleting, mapChanged, type Pod, type PodStatus } from './types.ts';
import { absentEphemeral, specPatch } from './updates.ts';

/**
 * Kubelet takes these away again; gone from the super object, they go from the tenant object. Others that only the
 * tenant object has are the tenant's own.
 */
const passingTypes = new Set(['PodResizePending', 'PodResizeInProgress', 'AllContainersRestarting']);

/**
 * The tenant object's conditions as they should be, or undefined when they are (sync rule `pod-status`). Each type has
 * one owner:
 * The tenant object's readiness gates are the tenant's, gates that only the super object has are hidden, the rest is
 * the super object's. A list that is too large is not repeated: the tenant's other conditions go with the next change.
 * `inSync`: the super object has the spec made from the tenant object's present generation.
 */
function wantedConditions(
  tenantPod: Pod,
  superPod: Pod,
  context: SyncContext,
  inSync: () => boolean,
): Condition[] | undefined {
  const own = tenantPod.status?.conditions ?? [];
  const theirs = superPod.status?.conditions ?? [];
  const tenantGates = gates(tenantPod);
  const superGates = gates(superPod);
  const present = byType(own);
  const wanted: Condition[] = [];
  for (const condition of theirs) {
    if (tenantGates.has(condition.type) || superGates.has(condition.type)) continue;
    wanted.push(translated(condition, present.get(condition.type), tenantPod, superPod, context, inSync));
  }
  const translatedCount = wanted.length;
  const types = new Set(wanted.map(({ type }) => type));
  for (const condition of own) {
    const tenants = tenantGates.has(condition.type) || !passingTypes.has(condition.type);
    if (!tenants || types.has(condition.type)) continue;
    types.add(condition.type);
    wanted.push(condition);
  }
  const same =
    wanted.length === own.length &&
    wanted.every((condition) => isSame(condition, present.get(condition.type)));
  if (same) return undefined;
  if (!isTooLargeToRepeat(own)) return wanted;
  return wanted.filter(({ type }, index) => index < translatedCount || tenantGates.has(type));
}

/**
 * The super object's conditions with the state that the tenant object's readiness gates have in the tenant; undefined
 * when they have it.
 * Without them, kubelet would never call the pod ready.
 */
export function superGateConditions(tenantPod: Pod, superPod: Pod): Condition[] | undefined {
  const tenantGates = gates(tenantPod);
  if (tenantGates.size === 0) return undefined;
  const theirs = superPod.status?.conditions ?? [];
  const there = byType(theirs);
  const own = byType(tenantPod.status?.conditions ?? []);
  let changed = false;
  const rest = theirs.filter(({ type }) => !tenantGates.has(type));
  const gateConditions: Condition[] = [];
  for (const type of tenantGates) {
    const wanted = withoutGeneration(own.get(type));
    if (!isSame(withoutGeneration(there.get(type)), wanted)) changed = true;
    if (wanted !== undefined) gateConditions.push(wanted);
  }
  return changed ? [...rest, ...gateConditions] : undefined;
}

/** Conditions are flat; servers differ in whether a time that was never set is null or absent. */
function isSame(a: Condition | undefined, b: Condition | undefined): boolean {
  if (a === undefined || b === undefined) return a === b;
  for (const key in a) if ((a[key] ?? undefined) !== (b[key] ?? undefined)) return false;
  for (const key in b)
    if ((b[key] ?? undefined) !== undefined && (a[key] ?? undefined) === undefined) return false;
  return true;
}

/** Each side counts its own generations. */
function withoutGeneration(condition: Condition | undefined): Condition | undefined {
  if (condition === undefined) return undefined;
  const { observedGeneration: _observed, ...rest } = condition;
  return rest;
}

function gates(pod: Pod): ReadonlySet<string> {
  return new Set(pod.spec?.readinessGates?.map(({ conditionType }) => conditionType));
}

/** Of a type that is there twice, the first. */
function byType(conditions: readonly Condition[]): ReadonlyMap<string, Condition> {
  return new Map(conditions.toReversed().map((condition) => [condition.type, condition]));
}

function translated(
  condition: Condition,
  present: Condition | undefined,
  tenantPod: Pod,
  superPod: Pod,
  context: SyncContext,
  inSync: () => boolean,
): Condition {
  const { observedGeneration, ...result } = condition;
  if (result.message !== undefined && result.message !== '') result.message = scrub(result.message, context);
  const seen = observedGeneration !== undefined && observedGeneration >= (superPod.metadata.generation ?? 0);
  const generation = seen && inSync() ? tenantPod.metadata.generation : present?.observedGeneration;
  return generation === undefined ? result : { ...result, observedGeneration: generation };
}

/** How long to wait for the kubelet's first status of a pod. Times of conditions are whole seconds: more than one. */
const firstKubeletStatusMs = 2_000;

/**
 * How long the tenant object's status may wait, because all that is new in the super object's is that a node was found:
 * the tenant object has learned that by its own Binding, and what the node says next comes within a moment and takes
 * the same write. 0: no reason to.
 */
export function statusDelayMs(superPod: Pod, nowMs: number): number {
  const { phase, conditions, podIP, containerStatuses, initContainerStatuses, reason, message } =
    superPod.status ?? {};
  if (phase !== 'Pending') return 0;
  const said = [podIP, containerStatuses, initContainerStatuses, reason, message];
  if (said.some((part) => part !== undefined)) return 0;
  const scheduled = findCondition(conditions, 'PodScheduled');
  if (scheduled?.status !== 'True') return 0;
  const restMs = Date.parse(String(scheduled.lastTransitionTime)) + firstKubeletStatusMs - nowMs;
  // Clocks that disagree must not make it wait.
  return restMs > 0 && restMs <= firstKubeletStatusMs ? restMs : 0;
}

/**
 * Whether the super object has the spec made from the tenant object's present generation (sync rule `pod-status`). A
 * deletion counts as one.
 */
function isSpecUpToDate(tenantPod: Pod, superPod: Pod, context: SyncContext): boolean {
  return (
    (isDeleting(superPod) || !isDeleting(tenantPod)) &&
    specPatch(tenantPod, superPod, context.tenant.policy) === undefined &&
    !isResized(tenantPod, superPod) &&
    absentEphemeral(tenantPod, superPod, context).missing.length === 0
  );
}

/** Plain fields that are the super cluster's. `qosClass` is not among them: the tenant object's is immutable. */
const copiedFields = [
  'phase',
  'reason',
  'podIP',
  'podIPs',
  'startTime',
  'resize',
  'allocatedResources',
  'resources',
] as const;

const statusLists = [
  ['containerStatuses', 'containers'],
  ['initContainerStatuses', 'initContainers'],
  ['ephemeralContainerStatuses', 'ephemeralContainers'],
] as const;

/**
 * What has to change in the tenant object's status so that it tells what the super object's does (sync rule
 * `pod-status`); undefined when it does.
 * Runs at every change of either pod: compares field by field and makes nothing while nothing differs.
 */
export function statusPatch(tenantPod: Pod, superPod: Pod, context: SyncContext): MergePatch | undefined {
  const own: PodStatus = tenantPod.status ?? {};
  const theirs = superPod.status;
  if (theirs?.phase === undefined) return undefined;
  const patch: MergePatch = {};
  for (const field of copiedFields) setField(patch, field, own[field], theirs[field]);
  setHost(patch, own, theirs, context);
  setField(patch, 'message', own['message'], text(theirs['message'], context));
  // A bound pod may not be given one, and the Binding has taken the tenant object's away.
  const bound = (superPod.spec?.nodeName ?? '') !== '';
  const nominated = bound ? undefined : theirs['nominatedNodeName'];
  const shown = typeof nominated === 'string' ? shownNodeName(context.tenant, nominated) : nominated;
  setField(patch, 'nominatedNodeName', own['nominatedNodeName'], shown);
  for (const [list, containers] of statusLists) {
    const known = tenantPod.spec?.[containers] ?? [];
    const statuses = containerStatuses(theirs[list], known, tenantPod, superPod, context);
    const refused =
      list === 'ephemeralContainerStatuses' ? refusedStatuses(tenantPod, superPod, context) : [];
    setField(patch, list, own[list], refused.length === 0 ? statuses : [...(statuses ?? []), ...refused]);
  }
  let same: boolean | undefined;
  const inSync = () => (same ??= isSpecUpToDate(tenantPod, superPod, context));
  const conditions = wantedConditions(tenantPod, superPod, context, inSync);
  if (conditions !== undefined) patch['conditions'] = conditions;
  const seen = theirs.observedGeneration ?? 0;
  if (seen > 0 && seen >= (superPod.metadata.generation ?? 0) && inSync()) {
    const { generation } = tenantPod.metadata;
    if (generation !== undefined && generation !== own.observedGeneration)
      patch['observedGeneration'] = generation;
  }
  return unlessEmpty(patch);
}

/** The node's addresses; all of a hidden one is the address that tenants reach it by. */
function setHost(patch: MergePatch, own: PodStatus, theirs: PodStatus, { tenant }: SyncContext): void {
  const { hostIP, hostIPs } = theirs;
  const shown = typeof hostIP === 'string' && hostIP !== '' ? shownHostIP(tenant, hostIP) : hostIP;
  setField(patch, 'hostIP', own['hostIP'], shown);
  const hidden = tenant.hideNodes && Array.isArray(hostIPs) && hostIPs.length > 0;
  setField(patch, 'hostIPs', own['hostIPs'], hidden ? [{ ip: shown }] : hostIPs);
}

interface ContainerStatus {
  name: string;
  state?: ContainerState;
  lastState?: ContainerState;
  [field: string]: unknown;
}

type ContainerState = Record<string, { message?: string } | undefined>;

/**
 * The super object's statuses of the containers that the tenant object has; those that were injected in the super
 * cluster are left out.
 */
function containerStatuses(
  list: unknown,
  known: readonly { name: string }[],
  tenantPod: Pod,
  superPod: Pod,
  context: SyncContext,
): readonly ContainerStatus[] | undefined {
  if (!Array.isArray(list)) return undefined;
  const statuses = list as readonly ContainerStatus[];
  const names = new Set(known.map(({ name }) => name));
  const isKnown = ({ name }: ContainerStatus): boolean => names.has(name);
  const ours = statuses.every(isKnown) ? statuses : statuses.filter(isKnown);
  if (ours.length === 0) return undefined;
  // Kubelet's "back-off … restarting failed container" names namespace and UID of the super object.
  const clean = (message: string) =>
    scrub(message, context).replaceAll(superPod.metadata.uid ?? '\0', tenantPod.metadata.uid ?? '');
  return mapChanged(ours, (status: ContainerStatus) => {
    const state = cleaned(status.state, clean);
    const lastState = cleaned(status.lastState, clean);
    if (state === status.state && lastState === status.lastState) return status;
    return { ...status, ...(state && { state }), ...(lastState && { lastState }) };
  });
}

/** Containers that the super object does not have, to tell the tenant why. */
function refusedStatuses(tenantPod: Pod, superPod: Pod, context: SyncContext): ContainerStatus[] {
  const { refused } = absentEphemeral(tenantPod, superPod, context);
  return refused.map(({ container: { name, image = '' }, notice }) => ({
    name,
    image,
    imageID: '',
    ready: false,
    restartCount: 0,
    state: { waiting: { reason: notice.reason, message: notice.message } },
  }));
}

function cleaned(
  state: ContainerState | undefined,
  clean: (message: string) => string,
): ContainerState | undefined {
  for (const name in state) {
    const details = state[name];
    if (details?.message === undefined || details.message === '') continue;
    const message = clean(details.message);
    if (message !== details.message) return { ...state, [name]: { ...details, message } };
  }
  return state;
}

function text(value: unknown, context: SyncContext): unknown {
  return typeof value === 'string' && value !== '' ? scrub(value, context) : value;
}

/**
 * Whether what is decided of a pod depends on its two sides alone. A deletion depends on the time, a pod without a
 * node on the node that it is to get, added containers on what they refer to, and texts on the names that are known.
 */
export function dependsOnlyOnPair(tenantPod: Pod, superPod: Pod): boolean {
  return (
    (tenantPod.spec?.nodeName ?? '') !== '' &&
    !isDeleting(tenantPod) &&
    !isDeleting(superPod) &&
    tenantPod.spec?.ephemeralContainers === undefined &&
    !hasText(superPod.status)
  );
}

interface ContainerStatusTimes {
  readonly state?: Readonly<Record<string, { message?: string } | undefined>>;
  readonly lastState?: ContainerStatusTimes['state'];
}

function hasText(status: PodStatus = {}): boolean {
  const texts: unknown[] = [status['message']];
  for (const { message } of status.conditions ?? []) texts.push(message);
  for (const list of ['containerStatuses', 'initContainerStatuses', 'ephemeralContainerStatuses']) {
    for (const { state, lastState } of (status[list] ?? []) as readonly ContainerStatusTimes[]) {
      for (const part of [state, lastState]) {
        for (const name in part) texts.push(part[name]?.message);
      }
    }
  }
  return texts.some((text) => text !== undefined && text !== '');
}

/** In the shape in which schedulers say why a pod has no node. */
export function refusedPodStatus(tenantPod: KubeObject, message: string, nowMs: number): object | undefined {
  const { status } = tenantPod as Pod;
  const conditions: readonly Condition[] = Array.isArray(status?.conditions) ? status.conditions : [];
  const type = 'PodScheduled';
  const before = findCondition(conditions, type);
  if (before?.message === message) return undefined;
  // A message that is another one each time is not worth a write each time.
  const isRecent = nowMs - Date.parse(before?.lastTransitionTime ?? '') < 10_000;
  if (isRecent && before?.reason === 'Unschedulable') return undefined;
  if (isTooLargeToRepeat(conditions)) return undefined;
  const lastTransitionTime = metaTime(new Date(nowMs));
  const condition = { type, status: 'False', reason: 'Unschedulable', message, lastTransitionTime };
  return { conditions: [...conditions.filter((each) => each.type !== type), condition] };
}
