import { deepEqual } from 'fast-equals';
import { isRecord, type MergePatch, mergePatch } from '../../../kube/index.ts';
import { scrub, shownHostIP, shownNodeName } from '../../mapping/index.ts';
import type { SyncContext } from '../context.ts';
import { wantedConditions } from './conditions.ts';
import { mapChanged } from './containers.ts';
import { refusedEphemeral } from './ephemeral.ts';
import { hasPresentSpec } from './in-sync.ts';
import type { Pod, PodStatus } from './types.ts';

/** Plain fields that are the super cluster's. `qosClass` is not among them: T's is immutable. */
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
 * What has to change in T's status so that it tells what S's does (sync rule 20); undefined when it does.
 * Runs at every change of either pod: compares field by field and makes nothing while nothing differs.
 */
export function statusPatch(tenantPod: Pod, superPod: Pod, context: SyncContext): MergePatch | undefined {
  const own: PodStatus = tenantPod.status ?? {};
  const theirs = superPod.status;
  if (theirs?.phase === undefined) return undefined;
  const patch: MergePatch = {};
  for (const field of copiedFields) set(patch, field, own[field], theirs[field]);
  setHost(patch, own, theirs, context);
  set(patch, 'message', own['message'], text(theirs['message'], context));
  // A bound pod may not be given one, and the Binding has taken T's away.
  const bound = (superPod.spec?.nodeName ?? '') !== '';
  const nominated = bound ? undefined : theirs['nominatedNodeName'];
  const shown = typeof nominated === 'string' ? shownNodeName(context.tenant, nominated) : nominated;
  set(patch, 'nominatedNodeName', own['nominatedNodeName'], shown);
  for (const [list, containers] of statusLists) {
    const known = tenantPod.spec?.[containers] ?? [];
    const statuses = containerStatuses(theirs[list], known, tenantPod, superPod, context);
    const refused = list === 'ephemeralContainerStatuses' ? refusedStatuses(tenantPod, context) : [];
    set(patch, list, own[list], refused.length === 0 ? statuses : [...(statuses ?? []), ...refused]);
  }
  let same: boolean | undefined;
  const inSync = () => (same ??= hasPresentSpec(tenantPod, superPod, context));
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

/** The node's addresses; all of a hidden one is the address that tenants reach it by. */
function setHost(patch: MergePatch, own: PodStatus, theirs: PodStatus, { tenant }: SyncContext): void {
  const { hostIP, hostIPs } = theirs;
  const shown = typeof hostIP === 'string' && hostIP !== '' ? shownHostIP(tenant, hostIP) : hostIP;
  set(patch, 'hostIP', own['hostIP'], shown);
  const hidden = tenant.hideNodes && Array.isArray(hostIPs) && hostIPs.length > 0;
  set(patch, 'hostIPs', own['hostIPs'], hidden ? [{ ip: shown }] : hostIPs);
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

/** Containers that S does not have, to tell the tenant why. */
function refusedStatuses(tenantPod: Pod, context: SyncContext): ContainerStatus[] {
  return refusedEphemeral(tenantPod, context).map(({ container: { name, image = '' }, notice }) => ({
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
