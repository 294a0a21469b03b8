import { deepEqual } from 'fast-equals';
import type { Node, Taint } from './model.ts';

const prefix = 'node.kubernetes.io/';

/** Condition type, status and the taint that goes with it, as the super cluster's node controller has them. */
const byCondition = [
  ['Ready', 'False', 'not-ready'],
  ['Ready', 'Unknown', 'unreachable'],
  ['MemoryPressure', 'True', 'memory-pressure'],
  ['DiskPressure', 'True', 'disk-pressure'],
  ['PIDPressure', 'True', 'pid-pressure'],
  ['NetworkUnavailable', 'True', 'network-unavailable'],
] as const;

const ownKeys: ReadonlySet<string> = new Set([
  ...byCondition.map(([, , name]) => prefix + name),
  `${prefix}unschedulable`,
]);

/**
 * The taints of the virtual node: those that say how S is, kept by us because nothing in the tenant
 * does, and the tenant's own, which are left as they are. `undefined`: nothing to change.
 */
export function taintsFor(tenantObject: Node, superObject: Node): Taint[] | undefined {
  const present = tenantObject.spec?.taints ?? [];
  const wanted = [...present.filter(({ key }) => !ownKeys.has(key)), ...conditionTaints(superObject)];
  return sameTaints(present, wanted) ? undefined : wanted;
}

export function conditionTaints(superObject: Node): Taint[] {
  const conditions = superObject.status?.conditions ?? [];
  const names = byCondition
    .filter(([type, status]) => conditions.some((found) => found.type === type && found.status === status))
    .map(([, , name]) => name as string);
  if (!conditions.some(({ type }) => type === 'Ready')) names.push('not-ready');
  if (superObject.spec?.unschedulable === true) names.push('unschedulable');
  return names.map((name) => ({ key: prefix + name, effect: 'NoSchedule' }));
}

/** Order does not count, nor does when a taint was added. */
function sameTaints(a: readonly Taint[], b: readonly Taint[]): boolean {
  return deepEqual(a.map(text).toSorted(), b.map(text).toSorted());
}

function text({ key, value = '', effect }: Taint): string {
  return `${key}=${value}:${effect}`;
}
