import { type KubeObject, type MergePatch, resources } from '../../../kube/index.ts';
import { marks } from '../../mapping/index.ts';
import type { Action, SyncContext, UpKind } from '../kind.ts';
import { isCopiedLabel, labelsFor } from './labels.ts';
import type { Node } from './model.ts';
import { compactNode, statusPatch, wantedStatus } from './status.ts';
import { conditionTaints, taintsFor } from './taints.ts';

/** Annotation on a virtual node: since when (ms since the epoch) no pod of the tenant has been on it. */
const unusedSinceMark = 'skerry.dev/unused-since';
const unusedForMs = 2 * 60_000;

/** Node: the super cluster's nodes as the tenant sees them, all or those that its pods are on. Rules 25 and 26. */
export const nodeKind: UpKind = {
  name: 'nodes',
  resource: resources.nodes,
  direction: 'up',
  watchTenant: true,
  superScope: 'all',
  compact: { super: compactNode, tenant: compactNode },
  tenantRef(superObject, context) {
    const { name } = superObject.metadata;
    if (name === undefined) return undefined;
    return context.tenant.nodes === 'all' || isUsed(name, context) ? { name } : undefined;
  },
  superRef: ({ name }) => ({ name }),
  toTenant(superObject, context) {
    const node = superObject as Node;
    const { name } = node.metadata;
    return {
      apiVersion: 'v1',
      kind: 'Node',
      metadata: {
        ...(name === undefined ? {} : { name }),
        labels: labelsFor(node, context),
        // Of S's annotations none is the tenant's business.
        annotations: { [marks.uid]: node.metadata.uid ?? '' },
      },
      spec: {
        // Once given it cannot be changed by anyone; left empty, a tenant could fill it in for good.
        providerID: `skerry://${name}`,
        ...(node.spec?.unschedulable === true ? { unschedulable: true } : {}),
        taints: conditionTaints(node),
      },
      status: wantedStatus(node, context),
    };
  },
  up,
  superGone,
};

function isUsed(name: string, context: SyncContext): boolean {
  return (
    context.superObjects.byIndex(resources.pods, 'byTenantNode', `${context.tenant.uid}/${name}`).length > 0
  );
}

function up(tenantObject: KubeObject, superObject: KubeObject, context: SyncContext): readonly Action[] {
  if (tenantObject.metadata.deletionTimestamp !== undefined) return [];
  const actions: Action[] = [];
  const patch = objectPatch(tenantObject as Node, superObject as Node, context);
  if (patch !== undefined) actions.push({ do: 'patchTenant', patch });
  const status = statusPatch(tenantObject as Node, superObject as Node, context);
  if (status !== undefined) actions.push({ do: 'patchTenant', subresource: 'status', patch: { status } });
  return actions;
}

function objectPatch(tenantObject: Node, superObject: Node, context: SyncContext): MergePatch | undefined {
  const metadata: MergePatch = {};
  const labels = labelPatch(tenantObject, labelsFor(superObject, context), context);
  if (labels !== undefined) metadata['labels'] = labels;
  if (tenantObject.metadata.annotations?.[unusedSinceMark] !== undefined) {
    metadata['annotations'] = { [unusedSinceMark]: null };
  }
  const spec: MergePatch = {};
  const taints = taintsFor(tenantObject, superObject);
  if (taints !== undefined) spec['taints'] = taints;
  const unschedulable = superObject.spec?.unschedulable === true;
  if (unschedulable !== (tenantObject.spec?.unschedulable === true)) {
    spec['unschedulable'] = unschedulable ? true : null;
  }
  const patch: MergePatch = {
    ...(Object.keys(metadata).length === 0 ? {} : { metadata }),
    ...(Object.keys(spec).length === 0 ? {} : { spec }),
  };
  return Object.keys(patch).length === 0 ? undefined : patch;
}

/** Puts back the labels that are S's; the tenant's own stay. */
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
  return Object.keys(patch).length === 0 ? undefined : patch;
}

/** S is gone: so is T. S is only not used any more: T stays a while, as the next pod may come soon. */
function superGone(tenantObject: KubeObject, context: SyncContext): readonly Action[] {
  const { name = '', annotations } = tenantObject.metadata;
  if (context.superObjects.get(resources.nodes, { name }) === undefined) return [{ do: 'deleteTenant' }];
  const since = Number(annotations?.[unusedSinceMark]);
  if (!(since > 0) || since > context.nowMs) {
    const patch = { metadata: { annotations: { [unusedSinceMark]: String(context.nowMs) } } };
    return [
      { do: 'patchTenant', patch },
      { do: 'later', afterMs: unusedForMs },
    ];
  }
  const restMs = since + unusedForMs - context.nowMs;
  return restMs > 0 ? [{ do: 'later', afterMs: restMs }] : [{ do: 'deleteTenant' }];
}
