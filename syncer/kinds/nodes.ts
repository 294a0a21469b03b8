import { deepEqual } from 'fast-equals';
import { annotationKeys, labelKeys } from '../../api/labels.ts';
import {
  type Condition,
  isRecord,
  type KubeObject,
  type MergePatch,
  mergePatch,
  resources,
  withoutUndefined,
} from '../../kube/index.ts';
import type { SyncContext } from '../context.ts';
import { originalUid } from '../mapping/labels.ts';
import { isTransparent } from '../mapping/metadata.ts';
import { hostNameLabel, nodeIndexes, realNodeName, shownNodeName } from '../mapping/node-names.ts';
import { scrub, scrubbedConditions } from '../mapping/scrub.ts';
import type { Action, UpKind } from './contract.ts';
import { setField, unlessEmpty } from './patches.ts';

interface Taint {
  key: string;
  value?: string;
  effect: string;
  timeAdded?: string;
}

interface NodeAddress {
  type: string;
  address: string;
}

interface NodeStatus {
  addresses?: NodeAddress[];
  capacity?: Record<string, string>;
  allocatable?: Record<string, string>;
  conditions?: Condition[];
  daemonEndpoints?: { kubeletEndpoint?: { Port?: number } };
  nodeInfo?: Record<string, unknown>;
  [field: string]: unknown;
}

interface Node extends KubeObject {
  spec?: { unschedulable?: boolean; taints?: Taint[]; providerID?: string; [field: string]: unknown };
  status?: NodeStatus;
}

/** What a tenant may know of where its pods run. */
const copiedLabels: ReadonlySet<string> = new Set([
  'kubernetes.io/os',
  'kubernetes.io/arch',
  hostNameLabel,
  'topology.kubernetes.io/zone',
  'topology.kubernetes.io/region',
  // Simulated nodes are to be told from real ones, on every side.
  labelKeys.simulated,
]);

/** Whether a label of a node belongs to the super cluster. */
function isCopiedLabel(key: string, { tenant }: SyncContext): boolean {
  return (
    copiedLabels.has(key) ||
    tenant.nodeLabels.some((listed) => (listed.endsWith('/') ? key.startsWith(listed) : key === listed)) ||
    isTransparent(key, tenant)
  );
}

/**
 * The labels of the virtual node that are the super object's. Where nodes are hidden, one that names them is left out.
 */
function labelsFor(superObject: Node, context: SyncContext): Record<string, string> {
  const { tenant } = context;
  const { name = '', labels = {} } = superObject.metadata;
  const shown: Record<string, string> = {};
  for (const [key, value] of Object.entries(labels)) {
    if (!isCopiedLabel(key, context)) continue;
    if (!tenant.hideNodes) shown[key] = value;
    else if (key === hostNameLabel) shown[key] = shownNodeName(tenant, name);
    else if (scrub(value, context) === value) shown[key] = value;
  }
  return shown;
}

/** Puts back the labels that are the super object's; the tenant's own stay. */
function labelPatch(
  tenantObject: Node,
  wanted: Record<string, string>,
  context: SyncContext,
): MergePatch | undefined {
  const present = tenantObject.metadata.labels ?? {};
  const patch: MergePatch = {};
  for (const [key, value] of Object.entries(wanted)) {
    if (present[key] !== value) patch[key] = value;
  }
  for (const key of Object.keys(present)) {
    if (!(key in wanted) && isCopiedLabel(key, context)) patch[key] = null;
  }
  return unlessEmpty(patch);
}

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
 * The taints of the virtual node: those that say how the super object is, kept by us because nothing in the tenant
 * does, and the tenant's own, which are left as they are. `undefined`: nothing to change.
 */
function taintsFor(tenantObject: Node, superObject: Node): Taint[] | undefined {
  const present = tenantObject.spec?.taints ?? [];
  const wanted = [...present.filter(({ key }) => !ownKeys.has(key)), ...conditionTaints(superObject)];
  return sameTaints(present, wanted) ? undefined : wanted;
}

function conditionTaints(superObject: Node): Taint[] {
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

/** Annotation on a virtual node: since when (ms since the epoch) no pod of the tenant has been on it. */
const unusedSinceAnnotation = 'skerry.dev/unused-since';
const unusedForMs = 2 * 60_000;

/** Whether the tenant sees this node: one of its pool, or one that its pods are on, wherever that is. */
function isShown(superObject: KubeObject, context: SyncContext): boolean {
  const { name = '' } = superObject.metadata;
  return (context.tenant.nodes === 'all' && isInPool(superObject, context)) || isUsed(name, context);
}

function isInPool({ metadata: { labels = {} } }: KubeObject, { tenant }: SyncContext): boolean {
  return Object.entries(tenant.nodeSelector).every(([key, value]) => labels[key] === value);
}

function isUsed(superName: string, { tenant, superObjects }: SyncContext): boolean {
  return superObjects.byIndex(resources.pods, 'byTenantNode', `${tenant.uid}/${superName}`).length > 0;
}

/**
 * What becomes of a virtual node that has no original to show. One that is gone, replaced, or has left the pool:
 * it goes. One that is only not used any more stays a while, as the next pod may come soon.
 */
function withoutPlace(tenantObject: KubeObject, context: SyncContext): readonly Action[] {
  const { name = '', annotations, deletionTimestamp } = tenantObject.metadata;
  if (deletionTimestamp !== undefined) return [];
  const superName = realNodeName(context, name);
  const original =
    superName === undefined ? undefined : context.superObjects.get(resources.nodes, { name: superName });
  if (original === undefined || original.metadata.uid !== originalUid(tenantObject)) {
    return servesUnderOldName(tenantObject, context) ? [] : [{ do: 'deleteTenant' }];
  }
  if (context.tenant.nodes === 'all') return [{ do: 'deleteTenant' }];

  const since = Number(annotations?.[unusedSinceAnnotation]);
  if (!(since > 0) || since > context.nowMs) {
    const patch = { metadata: { annotations: { [unusedSinceAnnotation]: String(context.nowMs) } } };
    return [
      { do: 'patchTenant', patch },
      { do: 'later', afterMs: unusedForMs },
    ];
  }
  const restMs = since + unusedForMs - context.nowMs;
  return restMs > 0 ? [{ do: 'later', afterMs: restMs }] : [{ do: 'deleteTenant' }];
}

/**
 * Whether nodes have begun or ceased to be hidden while pods are bound to this one: a pod cannot be bound anew,
 * and its API server finds the kubelet by the node's name.
 */
function servesUnderOldName(tenantObject: KubeObject, context: SyncContext): boolean {
  const { name = '' } = tenantObject.metadata;
  const [original] = context.superObjects.byIndex<Node>(
    resources.nodes,
    'byUid',
    originalUid(tenantObject) ?? '',
  );
  if (original === undefined) return false;
  return (
    shownNodeName(context.tenant, original.metadata.name ?? '') !== name &&
    context.tenantObjects.byIndex(resources.pods, 'byNode', name).length > 0
  );
}

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
 * What the virtual node says of itself. Images and attached volumes of the super object are not in it: they are other
 * tenants'. The tenant's API server looks for kubelets at `InternalDNS`, then at `InternalIP` (its template says so), which
 * is where our kubelet proxy listens; the node's own addresses are those that node ports answer at.
 */
function wantedStatus(superObject: Node, context: SyncContext): NodeStatus {
  const { addresses, capacity, allocatable, nodeInfo, conditions } = superObject.status ?? {};
  const { kubelet, hideNodes } = context.tenant;
  const name = shownNodeName(context.tenant, superObject.metadata.name ?? '');
  const own = hideNodes
    ? [{ type: 'InternalIP', address: kubelet.address }]
    : (addresses ?? []).filter(({ type }) => reachable.has(type));
  const internal = own.find(({ type }) => type === 'InternalIP');
  // An address is no DNS name: it stands as one only where the node's own comes first otherwise.
  const isFound = kubelet.name === undefined && internal?.address === kubelet.address;
  return withoutUndefined({
    addresses: [
      ...own,
      { type: 'Hostname', address: name },
      ...(isFound ? [] : [{ type: 'InternalDNS', address: kubelet.name ?? kubelet.address }]),
    ],
    daemonEndpoints: { kubeletEndpoint: { Port: kubelet.port } },
    capacity,
    allocatable,
    nodeInfo: nodeInfo && known(nodeInfo, hideNodes),
    conditions: scrubbedConditions(conditions, context),
  });
}

function known(nodeInfo: Record<string, unknown>, anonymous = false): Record<string, unknown> {
  const fields = nodeInfoFields.map((field) => {
    const left = anonymous && identifyingFields.has(field) ? '' : nodeInfo[field];
    return [field, left ?? ''];
  });
  return Object.fromEntries(fields) as Record<string, unknown>;
}

/** The difference that is worth a write; heartbeats alone are not. */
function statusPatch(tenantObject: Node, superObject: Node, context: SyncContext): MergePatch | undefined {
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
    } else setField(patch, field, from, to);
  }
  return unlessEmpty(patch);
}

/**
 * The super object's conditions, and of the tenant object's those of types that the super object does not have.
 * `undefined`: nothing to change.
 */
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

/**
 * Drops what is large, changes often, or concerns other tenants, and what is not of the type that Kubernetes gives it: a
 * tenant's server may send anything.
 */
function compactNode(object: KubeObject): KubeObject {
  const { spec, status, ...rest } = object;
  return {
    ...rest,
    ...(isRecord(spec) && { spec: withTexts(spec, 'taints', ['key', 'effect'], ['value']) }),
    ...(isRecord(status) && { status: compactStatus(status) }),
  };
}

function compactStatus(status: Record<string, unknown>): Record<string, unknown> {
  const { images: _images, volumesInUse: _inUse, volumesAttached: _attached, ...kept } = status;
  const addressed = withTexts(kept, 'addresses', ['type', 'address']);
  return withTexts(addressed, 'conditions', ['type', 'status'], ['reason', 'message']);
}

/** Without the items of a list that lack one of these texts, or have something else there; without a field that is no list. */
function withTexts(
  fields: Record<string, unknown>,
  field: string,
  required: readonly string[],
  optional: readonly string[] = [],
): Record<string, unknown> {
  const { [field]: list, ...rest } = fields;
  if (!Array.isArray(list)) return rest;
  const isItem = (value: unknown): boolean =>
    isRecord(value) &&
    required.every((name) => typeof value[name] === 'string') &&
    optional.every((name) => value[name] === undefined || typeof value[name] === 'string');
  return list.every(isItem) ? fields : { ...rest, [field]: list.filter(isItem) };
}

/** Whether a node has said no more than that it is still there. */
function isHeartbeat(before: KubeObject, after: KubeObject): boolean {
  return deepEqual(told(before as Node), told(after as Node));
}

function told({ metadata, spec, status }: Node): unknown {
  const { labels, deletionTimestamp } = metadata;
  const conditions = status?.conditions?.map(({ lastHeartbeatTime: _beat, ...condition }) => condition);
  return { labels, deletionTimestamp, spec, status: { ...status, conditions } };
}

/**
 * Node: the super cluster's nodes as the tenant sees them, all or those that its pods are on. Rules `virtual-nodes` and
 * `virtual-node-edits`.
 */
export const nodeKind: UpKind = {
  name: 'nodes',
  resource: resources.nodes,
  direction: 'up',
  indexes: {
    super: {
      ...nodeIndexes,
      all: () => [''],
      byUid: ({ metadata: { uid } }) => (uid === undefined ? [] : [uid]),
    },
  },
  compact: { super: compactNode, tenant: compactNode },
  isHeartbeat,
  tenantRef(superObject, context) {
    const { name } = superObject.metadata;
    if (name === undefined || !isShown(superObject, context)) return undefined;
    return { name: shownNodeName(context.tenant, name) };
  },
  copyName: (superName, { tenant }) => shownNodeName(tenant, superName),
  superRef({ name }, context) {
    const superName = realNodeName(context, name);
    return superName === undefined ? undefined : { name: superName };
  },
  toTenant(superObject, context) {
    const node = superObject as Node;
    const name = shownNodeName(context.tenant, node.metadata.name ?? '');
    return {
      apiVersion: 'v1',
      kind: 'Node',
      metadata: {
        name,
        labels: labelsFor(node, context),
        // Of the super object's annotations none is the tenant's business.
        annotations: { [annotationKeys.uid]: node.metadata.uid ?? '' },
      },
      spec: {
        // Once given it cannot be changed by anyone; left empty, a tenant could fill it in for good.
        providerID: providerID(name),
        ...(node.spec?.unschedulable === true ? { unschedulable: true } : {}),
        taints: conditionTaints(node),
      },
      status: wantedStatus(node, context),
    };
  },
  adopts: (tenantObject) =>
    (tenantObject as Node).spec?.providerID === providerID(tenantObject.metadata.name ?? ''),
  up,
  superGone: withoutPlace,
};

function providerID(name: string): string {
  return `skerry://${name}`;
}

const cordonMessage =
  'whether the node takes pods is decided in the cluster that it belongs to; cordon and uncordon here are put back';

function up(tenantObject: KubeObject, superObject: KubeObject, context: SyncContext): readonly Action[] {
  if (tenantObject.metadata.deletionTimestamp !== undefined) return [];
  const actions: Action[] = [];
  const patch = objectPatch(tenantObject as Node, superObject as Node, context);
  if (patch !== undefined) actions.push({ do: 'patchTenant', patch });
  const isCordoned = (node: Node): boolean => node.spec?.unschedulable === true;
  if (isCordoned(tenantObject as Node) && !isCordoned(superObject as Node)) {
    const notice = { type: 'Normal', reason: 'CordonFollowsCluster', message: cordonMessage } as const;
    actions.push({ do: 'notice', notice });
  }
  const status = statusPatch(tenantObject as Node, superObject as Node, context);
  if (status !== undefined) actions.push({ do: 'patchTenant', subresource: 'status', patch: { status } });
  return actions;
}

function objectPatch(tenantObject: Node, superObject: Node, context: SyncContext): MergePatch | undefined {
  const metadata: MergePatch = {};
  const labels = labelPatch(tenantObject, labelsFor(superObject, context), context);
  if (labels !== undefined) metadata['labels'] = labels;
  const annotations: MergePatch = {};
  if (tenantObject.metadata.annotations?.[unusedSinceAnnotation] !== undefined)
    annotations[unusedSinceAnnotation] = null;
  const { uid } = superObject.metadata;
  if (uid !== undefined && originalUid(tenantObject) !== uid) annotations[annotationKeys.uid] = uid;
  if (Object.keys(annotations).length > 0) metadata['annotations'] = annotations;
  const spec: MergePatch = {};
  const taints = taintsFor(tenantObject, superObject);
  if (taints !== undefined) spec['taints'] = taints;
  const unschedulable = superObject.spec?.unschedulable === true;
  if (unschedulable !== (tenantObject.spec?.unschedulable === true)) {
    spec['unschedulable'] = unschedulable ? true : null;
  }
  return unlessEmpty(withoutUndefined({ metadata: unlessEmpty(metadata), spec: unlessEmpty(spec) }));
}
