import { type KubeObject, resources } from '../../../kube/index.ts';
import { realNodeName, shownNodeName, uidMark } from '../../mapping/index.ts';
import type { Action } from '../action.ts';
import type { SyncContext } from '../context.ts';
import type { Node } from './model.ts';

/** Annotation on a virtual node: since when (ms since the epoch) no pod of the tenant has been on it. */
export const unusedSinceMark = 'skerry.dev/unused-since';
const unusedForMs = 2 * 60_000;

/** Whether the tenant sees this node: one of its pool, or one that its pods are on, wherever that is. */
export function isShown(superObject: KubeObject, context: SyncContext): boolean {
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
export function withoutPlace(tenantObject: KubeObject, context: SyncContext): readonly Action[] {
  const { name = '', annotations, deletionTimestamp } = tenantObject.metadata;
  if (deletionTimestamp !== undefined) return [];
  const superName = realNodeName(context, name);
  const original =
    superName === undefined ? undefined : context.superObjects.get(resources.nodes, { name: superName });
  if (original === undefined || original.metadata.uid !== uidMark(tenantObject)) {
    return servesUnderOldName(tenantObject, context) ? [] : [{ do: 'deleteTenant' }];
  }
  if (context.tenant.nodes === 'all') return [{ do: 'deleteTenant' }];

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

/**
 * Whether nodes have begun or ceased to be hidden while pods are bound to this one: a pod cannot be bound anew,
 * and its API server finds the kubelet by the node's name.
 */
function servesUnderOldName(tenantObject: KubeObject, context: SyncContext): boolean {
  const { name = '' } = tenantObject.metadata;
  const [original] = context.superObjects.byIndex<Node>(
    resources.nodes,
    'byUid',
    uidMark(tenantObject) ?? '',
  );
  if (original === undefined) return false;
  return (
    shownNodeName(context.tenant, original.metadata.name ?? '') !== name &&
    context.tenantObjects.byIndex(resources.pods, 'byNode', name).length > 0
  );
}
