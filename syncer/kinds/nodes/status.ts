import { deepEqual } from 'fast-equals';
import {
  type Condition,
  isRecord,
  type KubeObject,
  type MergePatch,
  mergePatch,
} from '../../../kube/index.ts';
import { scrub, shownNodeName } from '../../mapping/index.ts';
import type { SyncContext } from '../context.ts';
import type { Node, NodeStatus } from './model.ts';

/** A field of a later version would be dropped by an older API server and look like a difference for ever. */
const nodeInfoFields = [
  'architecture',
  'bootID',
  'containerRuntimeVersion',
  'kernelVersion',
  'kubeProxyVersion',
  'kubeletVersion',
  'machineID',
  'operatingSystem',
  'osImage',
  'systemUUID',
] as const;

/** By these a machine is known wherever else it is seen. */
const identifyingFields: ReadonlySet<string> = new Set(['bootID', 'machineID', 'systemUUID']);

const reachable: ReadonlySet<string> = new Set(['InternalIP', 'ExternalIP']);

/**
 * What the virtual node says of itself. Images and attached volumes of S are not in it: they are other
 * tenants'. The tenant's API server looks for kubelets at `InternalDNS` alone (its template says so), which is
 * where our kubelet proxy listens; the node's own addresses are those that node ports answer at.
 */
export function wantedStatus(superObject: Node, context: SyncContext): NodeStatus {
  const { addresses, capacity, allocatable, nodeInfo, conditions } = superObject.status ?? {};
  const { kubelet, hideNodes } = context.tenant;
  const name = shownNodeName(context.tenant, superObject.metadata.name ?? '');
  return {
    addresses: [
      ...(hideNodes
        ? [{ type: 'InternalIP', address: kubelet.address }]
        : (addresses ?? []).filter(({ type }) => reachable.has(type))),
      { type: 'Hostname', address: name },
      { type: 'InternalDNS', address: kubelet.name ?? kubelet.address },
    ],
    daemonEndpoints: { kubeletEndpoint: { Port: kubelet.port } },
    ...(capacity === undefined ? {} : { capacity }),
    ...(allocatable === undefined ? {} : { allocatable }),
    ...(nodeInfo === undefined ? {} : { nodeInfo: known(nodeInfo, hideNodes) }),
    ...(conditions === undefined ? {} : { conditions: readable(conditions, context) }),
  };
}

function known(nodeInfo: Record<string, unknown>, anonymous = false): Record<string, unknown> {
  const fields = nodeInfoFields.map((field) => {
    const left = anonymous && identifyingFields.has(field) ? '' : nodeInfo[field];
    return [field, left ?? ''];
  });
  return Object.fromEntries(fields) as Record<string, unknown>;
}

function readable(conditions: readonly Condition[], context: SyncContext): Condition[] {
  return conditions.map((condition) =>
    condition.message === undefined
      ? condition
      : { ...condition, message: scrub(condition.message, context) },
  );
}

/** The difference that is worth a write; heartbeats alone are not. */
export function statusPatch(
  tenantObject: Node,
  superObject: Node,
  context: SyncContext,
): MergePatch | undefined {
  const own = tenantObject.status ?? {};
  const wanted = wantedStatus(superObject, context);
  const patch: MergePatch = {};
  for (const [field, to] of Object.entries(wanted)) {
    const from = own[field];
    if (field === 'conditions') {
      const conditions = mergedConditions(own.conditions ?? [], wanted.conditions ?? []);
      if (conditions !== undefined) patch[field] = conditions;
    } else if (field === 'nodeInfo') {
      const nodeInfo = mergePatch(known(own.nodeInfo ?? {}), wanted.nodeInfo);
      if (nodeInfo !== undefined) patch[field] = nodeInfo;
    } else if (!deepEqual(from, to)) {
      patch[field] = isRecord(from) && isRecord(to) ? mergePatch(from, to) : to;
    }
  }
  return Object.keys(patch).length === 0 ? undefined : patch;
}

/** S's conditions, and of T's those of types that S does not have. `undefined`: nothing to change. */
function mergedConditions(own: readonly Condition[], there: readonly Condition[]): Condition[] | undefined {
  const present = new Map(own.map((condition) => [condition.type, condition]));
  const changed = there.some((condition) => !sameCondition(present.get(condition.type), condition));
  if (!changed) return undefined;
  const types = new Set(there.map(({ type }) => type));
  return [...there, ...own.filter(({ type }) => !types.has(type))];
}

function sameCondition(a: Condition | undefined, b: Condition): boolean {
  return a?.status === b.status && a.reason === b.reason && a.message === b.message;
}

/** Drops from S what is large, changes often, or concerns other tenants. */
export function compactNode(object: KubeObject): KubeObject {
  const { status, ...rest } = object as Node;
  if (status === undefined) return object;
  const { images: _images, volumesInUse: _inUse, volumesAttached: _attached, ...kept } = status;
  return { ...rest, status: kept };
}
