import { deepEqual } from 'fast-equals';
import { type MergePatch, mergePatch } from '../../../kube/index.ts';
import { scrub } from '../../mapping/index.ts';
import type { SyncContext } from '../kind.ts';
import { wantedConditions } from './conditions.ts';
import { mapChanged } from './containers.ts';
import { specPatch } from './spec-patch.ts';
import type { Pod, PodStatus } from './types.ts';

/** Plain fields that are the super cluster's. `qosClass` is not among them: T's is immutable. */
const copiedFields = [
  'phase',
  'reason',
  'podIP',
  'podIPs',
  'hostIP',
  'hostIPs',
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
 * What has to change in T's status so that it tells what S's does (sync rule 20); undefined when it does.
 * Runs at every change of either pod: compares field by field and makes nothing while nothing differs.
 */
export function statusPatch(tenantPod: Pod, superPod: Pod, context: SyncContext): MergePatch | undefined {
  const own: PodStatus = tenantPod.status ?? {};
  const theirs = superPod.status;
  if (theirs?.phase === undefined) return undefined;
  const patch: MergePatch = {};
  for (const field of copiedFields) set(patch, field, own[field], theirs[field]);
  set(patch, 'message', own['message'], text(theirs['message'], context));
  // A bound pod may not be given one, and the Binding has taken T's away.
  const bound = (superPod.spec?.nodeName ?? '') !== '';
  set(patch, 'nominatedNodeName', own['nominatedNodeName'], bound ? undefined : theirs['nominatedNodeName']);
  for (const [list, containers] of statusLists) {
    const known = tenantPod.spec?.[containers] ?? [];
    set(patch, list, own[list], containerStatuses(theirs[list], known, tenantPod, superPod, context));
  }
  let same: boolean | undefined;
  const inSync = () => (same ??= specPatch(tenantPod, superPod) === undefined);
  const conditions = wantedConditions(tenantPod, superPod, context, inSync);
  if (conditions !== undefined) patch['conditions'] = conditions;
  const seen = theirs.observedGeneration ?? 0;
  if (seen > 0 && seen >= (superPod.metadata.generation ?? 0) && inSync()) {
    const { generation } = tenantPod.metadata;
    if (generation !== undefined && generation !== own.observedGeneration)
      patch['observedGeneration'] = generation;
  }
  return Object.keys(patch).length === 0 ? undefined : patch;
}

function set(patch: MergePatch, field: string, own: unknown, wanted: unknown): void {
  if (own === wanted || deepEqual(own, wanted)) return;
  if (wanted === undefined) patch[field] = null;
  else patch[field] = isRecord(own) && isRecord(wanted) ? mergePatch(own, wanted) : wanted;
}

interface ContainerStatus {
  name: string;
  state?: ContainerState;
  lastState?: ContainerState;
  [field: string]: unknown;
}

type ContainerState = Record<string, { message?: string } | undefined>;

/** S's statuses of the containers that T has; those that were injected in the super cluster are left out. */
function containerStatuses(
  list: unknown,
  known: readonly { name: string }[],
  tenantPod: Pod,
  superPod: Pod,
  context: SyncContext,
): readonly ContainerStatus[] | undefined {
  if (!Array.isArray(list)) return undefined;
  const statuses = list as readonly ContainerStatus[];
  const isKnown = ({ name }: ContainerStatus) => known.some((container) => container.name === name);
  const ours = statuses.every(isKnown) ? statuses : statuses.filter(isKnown);
  if (ours.length === 0) return undefined;
  // Kubelet's "back-off … restarting failed container" names namespace and UID of S.
  const clean = (message: string) =>
    scrub(message, context).replaceAll(superPod.metadata.uid ?? '\0', tenantPod.metadata.uid ?? '');
  return mapChanged(ours, (status: ContainerStatus) => {
    const state = cleaned(status.state, clean);
    const lastState = cleaned(status.lastState, clean);
    if (state === status.state && lastState === status.lastState) return status;
    return { ...status, ...(state && { state }), ...(lastState && { lastState }) };
  });
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

function isRecord(value: unknown): value is Record<string, unknown> {
  return typeof value === 'object' && value !== null && !Array.isArray(value);
}
