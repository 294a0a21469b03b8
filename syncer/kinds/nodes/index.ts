import { annotationKeys } from '../../../api/labels.ts';
import { type KubeObject, type MergePatch, resources } from '../../../kube/index.ts';
import { nodeIndexes, realNodeName, shownNodeName, uidMark } from '../../mapping/index.ts';
import type { Action } from '../action.ts';
import type { SyncContext } from '../context.ts';
import type { UpKind } from '../kind.ts';
import { isHeartbeat } from './heartbeat.ts';
import { labelPatch, labelsFor } from './labels.ts';
import type { Node } from './model.ts';
import { isShown, unusedSinceMark, withoutPlace } from './places.ts';
import { compactNode, statusPatch, wantedStatus } from './status.ts';
import { conditionTaints, taintsFor } from './taints.ts';

/** Node: the super cluster's nodes as the tenant sees them, all or those that its pods are on. Rules 25 and 26. */
export const nodeKind: UpKind = {
  name: 'nodes',
  resource: resources.nodes,
  direction: 'up',
  superScope: 'all',
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
        // Of S's annotations none is the tenant's business.
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
  const annotations: MergePatch = {};
  if (tenantObject.metadata.annotations?.[unusedSinceMark] !== undefined) annotations[unusedSinceMark] = null;
  const { uid } = superObject.metadata;
  if (uid !== undefined && uidMark(tenantObject) !== uid) annotations[annotationKeys.uid] = uid;
  if (Object.keys(annotations).length > 0) metadata['annotations'] = annotations;
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
