import { annotationKeys } from '../../../api/labels.ts';
import { type MergePatch, resources } from '../../../kube/index.ts';
import { shownNodeName, transparentMetadataPatch } from '../../mapping/index.ts';
import type { Action } from '../action.ts';
import type { SyncContext } from '../context.ts';
import { graceForSuper, graceForTenant } from './deletion.ts';
import { ephemeralActions } from './ephemeral.ts';
import { restBeforeFirstWord } from './first-word.ts';
import { placedLabels } from './metadata.ts';
import { resizeActions } from './resize.ts';
import { statusPatch } from './status.ts';
import { isDeleting, type Pod } from './types.ts';

/** Sync rules 19 to 21: binding, status and deletion, all that is needed in one go. */
export function podUp(tenantPod: Pod, superPod: Pod, context: SyncContext): readonly Action[] {
  const actions: Action[] = [];
  const deleting = isDeleting(tenantPod);
  if (deleting) {
    const grace = graceForSuper(tenantPod, superPod, context.nowMs);
    if (grace !== undefined) actions.push({ do: 'deleteSuper', gracePeriodSeconds: grace });
  }
  const superNode = superPod.spec?.nodeName ?? '';
  const tenantNode = tenantPod.spec?.nodeName ?? '';
  if (superNode !== '' && tenantNode === '') {
    if (!deleting && !isDeleting(superPod))
      actions.push(...bind(shownNodeName(context.tenant, superNode), superPod, context));
  } else {
    const metadata = metadataPatch(tenantPod, superPod, context);
    if (metadata !== undefined) actions.push({ do: 'patchTenant', patch: metadata });
  }
  const status = statusPatch(tenantPod, superPod, context);
  if (status !== undefined) {
    const restMs = deleting ? 0 : restBeforeFirstWord(superPod, context.nowMs);
    if (restMs > 0) actions.push({ do: 'later', afterMs: restMs });
    else actions.push({ do: 'patchTenant', patch: { status }, subresource: 'status' });
  }
  if (!deleting && isDeleting(superPod)) {
    actions.push({ do: 'deleteTenant', gracePeriodSeconds: graceForTenant(superPod, context.nowMs) });
  }
  if (!deleting && !isDeleting(superPod)) actions.push(...sideDoors(tenantPod, superPod, context));
  return actions;
}

/**
 * What goes down by a subresource of its own (sync rule 16). It comes last: the super cluster may refuse it for
 * as long as it likes, and T's status must not wait for that. One at a time: each write makes S another one.
 */
function sideDoors(tenantPod: Pod, superPod: Pod, context: SyncContext): readonly Action[] {
  const ephemeral = ephemeralActions(tenantPod, superPod, context);
  return ephemeral.some((action) => action.do === 'patchSuper')
    ? ephemeral
    : [...ephemeral, ...resizeActions(tenantPod, superPod)];
}

function bind(node: string, superPod: Pod, context: SyncContext): Action[] {
  // The tenant's API server may not know its new node yet, and would leave them out.
  const labels = placedLabels(superPod, context);
  const binding: Action = {
    do: 'bindTenant',
    node,
    annotations: { [annotationKeys.superUid]: superPod.metadata.uid ?? '' },
    ...(labels === undefined ? {} : { labels }),
  };
  if (context.tenantObjects.get(resources.nodes, { name: node }) !== undefined) return [binding];
  return [{ do: 'require', keys: [{ kind: 'nodes', name: node }] }, binding];
}

/** Transparent keys, and the mark of a bound pod, which goes when somebody replaces all annotations. */
function metadataPatch(tenantPod: Pod, superPod: Pod, context: SyncContext): MergePatch | undefined {
  const transparent = transparentMetadataPatch(tenantPod, superPod, context);
  const { uid } = superPod.metadata;
  const bound = (tenantPod.spec?.nodeName ?? '') !== '';
  if (!bound || uid === undefined || tenantPod.metadata.annotations?.[annotationKeys.superUid] === uid)
    return transparent;
  const metadata = (transparent?.['metadata'] ?? {}) as { annotations?: Record<string, unknown> };
  return {
    metadata: { ...metadata, annotations: { ...metadata.annotations, [annotationKeys.superUid]: uid } },
  };
}
