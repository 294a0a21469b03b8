import { type Condition, findCondition } from '../../../kube/index.ts';
import { scrub } from '../../mapping/index.ts';
import type { SyncContext } from '../context.ts';
import type { Pod } from './types.ts';

/** Kubelet takes these away again; gone from S, they go from T. Others that only T has are the tenant's own. */
const passingTypes = new Set(['PodResizePending', 'PodResizeInProgress', 'AllContainersRestarting']);

/**
 * T's conditions as they should be, or undefined when they are (sync rule 20). Each type has one owner:
 * T's readiness gates are the tenant's, gates that only S has are hidden, the rest is S's.
 * `inSync`: S has the spec made from T's present generation.
 */
export function wantedConditions(
  tenantPod: Pod,
  superPod: Pod,
  context: SyncContext,
  inSync: () => boolean,
): Condition[] | undefined {
  const own = tenantPod.status?.conditions ?? [];
  const theirs = superPod.status?.conditions ?? [];
  const tenantGates = gates(tenantPod);
  const superGates = gates(superPod);
  const wanted: Condition[] = [];
  for (const condition of theirs) {
    if (tenantGates.includes(condition.type) || superGates.includes(condition.type)) continue;
    wanted.push(
      translated(condition, findCondition(own, condition.type), tenantPod, superPod, context, inSync),
    );
  }
  for (const condition of own) {
    const tenants = tenantGates.includes(condition.type) || !passingTypes.has(condition.type);
    if (tenants && findCondition(wanted, condition.type) === undefined) wanted.push(condition);
  }
  const same =
    wanted.length === own.length &&
    wanted.every((condition) => isSame(condition, findCondition(own, condition.type)));
  return same ? undefined : wanted;
}

/**
 * S's conditions with the state that T's readiness gates have in the tenant; undefined when they have it.
 * Without them, kubelet would never call the pod ready.
 */
export function superGateConditions(tenantPod: Pod, superPod: Pod): Condition[] | undefined {
  const tenantGates = gates(tenantPod);
  if (tenantGates.length === 0) return undefined;
  const theirs = superPod.status?.conditions ?? [];
  let changed = false;
  const rest = theirs.filter(({ type }) => !tenantGates.includes(type));
  const gateConditions: Condition[] = [];
  for (const type of new Set(tenantGates)) {
    const there = withoutGeneration(findCondition(theirs, type));
    const wanted = withoutGeneration(findCondition(tenantPod.status?.conditions, type));
    if (!isSame(there, wanted)) changed = true;
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

function gates(pod: Pod): string[] {
  return pod.spec?.readinessGates?.map(({ conditionType }) => conditionType) ?? [];
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
