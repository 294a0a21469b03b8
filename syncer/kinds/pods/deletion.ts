import { annotationKeys } from '../../../api/labels.ts';
import { findCondition, type MergePatch, setCondition, withoutUndefined } from '../../../kube/index.ts';
import type { SyncContext } from '../../context.ts';
import { originalUid } from '../../mapping/labels.ts';
import type { Action } from '../contract.ts';
import { resourcesAnnotation } from './resize.ts';
import { statusPatch } from './status.ts';
import { isDeleting, isFinished, type Pod, type PodStatus } from './types.ts';

/**
 * The tenant object is being deleted: the grace to delete the super object with, or undefined when the super object
 * knows already (sync rule `pod-deletion`).
 */
export function graceForSuper(tenantPod: Pod, superPod: Pod, nowMs: number): number | undefined {
  const asked = tenantPod.metadata.deletionGracePeriodSeconds ?? 0;
  if (isDeleting(superPod) && asked >= (superPod.metadata.deletionGracePeriodSeconds ?? 0)) return undefined;
  return asked === 0 ? 0 : remainingSeconds(tenantPod, nowMs);
}

/**
 * The super object is being deleted, by the super cluster: the grace to delete the tenant object with. Never 0, at
 * which the tenant object would be gone before the super object's last status can be written to it.
 */
export function graceForTenant(superPod: Pod, nowMs: number): number {
  return remainingSeconds(superPod, nowMs);
}

/** At least a second: only an explicit grace of 0 deletes a pod before its kubelet has stopped it. */
function remainingSeconds({ metadata }: Pod, nowMs: number): number {
  const left = Math.ceil((Date.parse(metadata.deletionTimestamp ?? '') - nowMs) / 1000);
  const asked = metadata.deletionGracePeriodSeconds ?? 1;
  return Math.max(1, Math.min(Number.isNaN(left) ? asked : left, asked));
}

/** An API server that has not removed a pod so long after it was marked has stopped in between: only another delete removes it. */
const forcedWithinMs = 5_000;

function forcedAtMs({ metadata }: Pod): number {
  const atMs = Date.parse(metadata.deletionTimestamp ?? '');
  return Number.isNaN(atMs) ? 0 : atMs;
}

/**
 * The tenant object is there and the super object is not (sync rule `pod-deletion`). `last` is the super object's last
 * known state, when it was seen. Undefined: the super object never was, and is to be made.
 */
export function superPodGone(
  tenantPod: Pod,
  context: SyncContext,
  last: Pod | undefined,
): readonly Action[] | undefined {
  const known = last !== undefined && originalUid(last) === tenantPod.metadata.uid ? last : undefined;
  if (isDeleting(tenantPod)) {
    const actions = writeStatus(lastStatus(tenantPod, known, context));
    if (tenantPod.metadata.deletionGracePeriodSeconds === 0) {
      if ((tenantPod.metadata.finalizers ?? []).length > 0) return actions;
      // A delete with grace 0 has two steps, mark and remove: who asked for it would hear 404, if another one came between them.
      const restMs = forcedWithinMs - Math.max(0, context.nowMs - forcedAtMs(tenantPod));
      if (restMs > 0) return [...actions, { do: 'later', afterMs: restMs }];
    }
    return [...actions, { do: 'deleteTenant', gracePeriodSeconds: 0 }];
  }
  if (isFinished(tenantPod)) return [];
  if (
    (tenantPod.spec?.nodeName ?? '') === '' ||
    tenantPod.metadata.annotations?.[annotationKeys.superUid] === undefined
  ) {
    return undefined;
  }
  const status = lastStatus(tenantPod, known, context);
  // It finished, and the super cluster was quick to tidy up.
  if (known !== undefined && isFinished(known)) return writeStatus(status);
  return [
    ...writeStatus(disrupted(status, tenantPod, context)),
    { do: 'deleteTenant', gracePeriodSeconds: 0 },
  ];
}

/**
 * What `superPodGone` asks for of a super object that is gone: its status, and the part of its spec that says whether that is
 * the status of the present tenant object. The rest can be a megabyte of variables.
 */
export function lastPodState({ metadata, spec = {}, status }: Pod): Record<string, unknown> {
  const { nodeName, readinessGates, tolerations, resources } = spec;
  const { activeDeadlineSeconds, terminationGracePeriodSeconds } = spec;
  const asked = metadata.annotations?.[resourcesAnnotation];
  const plain = { nodeName, readinessGates, tolerations, resources };
  const lists = (['containers', 'initContainers', 'ephemeralContainers'] as const).flatMap((list) => {
    const containers = spec[list]?.map(({ name, image, resources: sizes }) => ({
      name,
      ...withoutUndefined({ image, resources: sizes }),
    }));
    return containers === undefined ? [] : [[list, containers]];
  });
  return {
    ...(asked !== undefined && { metadata: { annotations: { [resourcesAnnotation]: asked } } }),
    spec: { ...plain, activeDeadlineSeconds, terminationGracePeriodSeconds, ...Object.fromEntries(lists) },
    ...(status !== undefined && { status }),
  };
}

/** What the super object said last; a pod that is gone has ended, well or, if unknown, not. */
function lastStatus(tenantPod: Pod, last: Pod | undefined, context: SyncContext): MergePatch {
  const status = last === undefined ? {} : (statusPatch(tenantPod, last, context) ?? {});
  const phase = (status['phase'] ?? tenantPod.status?.phase) as string | undefined;
  return phase === 'Succeeded' || phase === 'Failed' ? status : { ...status, phase: 'Failed' };
}

/** Jobs with a podFailurePolicy tell by this condition that the pod's own program is not to blame. */
function disrupted(status: MergePatch, tenantPod: Pod, context: SyncContext): MergePatch {
  const conditions = (status['conditions'] ?? tenantPod.status?.conditions) as PodStatus['conditions'];
  if (findCondition(conditions, 'DisruptionTarget')?.status === 'True') return status;
  const condition = {
    type: 'DisruptionTarget',
    status: 'True',
    reason: 'DeletedOnNode',
    message: 'the pod was taken off its node',
  } as const;
  return { ...status, conditions: setCondition(conditions, condition, new Date(context.nowMs)) };
}

function writeStatus(status: MergePatch): Action[] {
  if (Object.keys(status).length === 0) return [];
  return [{ do: 'patchTenant', patch: { status }, subresource: 'status' }];
}
