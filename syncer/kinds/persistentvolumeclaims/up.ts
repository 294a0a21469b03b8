import { deepEqual } from 'fast-equals';
import {
  type Condition,
  isRecord,
  type KubeObject,
  type MergePatch,
  mergePatch,
  resources,
} from '../../../kube/index.ts';
import { scrub, transparentMetadataPatch } from '../../mapping/index.ts';
import type { Action } from '../action.ts';
import type { SyncContext } from '../context.ts';
import { classOf, specOf, statusOf } from './model.ts';

/** What a volume controller says of a claim; nobody in the tenant says any of it. */
const statusFields = [
  'phase',
  'accessModes',
  'capacity',
  'conditions',
  'allocatedResources',
  'allocatedResourceStatuses',
] as const;

/** What the volume controller leaves on a claim that it has bound. */
const bindingMarks = ['pv.kubernetes.io/bind-completed', 'pv.kubernetes.io/bound-by-controller'] as const;

/** Brings up which volume S got, once the tenant can see that volume, and how S fares. */
export function up(
  tenantObject: KubeObject,
  superObject: KubeObject,
  context: SyncContext,
): readonly Action[] {
  const own = specOf(tenantObject);
  const { volumeName, storageClassName } = specOf(superObject);
  const spec: MergePatch = {};
  if (volumeName !== undefined && volumeName !== own.volumeName) {
    // The tenant has named another one, and a claim is bound but once.
    if (own.volumeName !== undefined) return [];
    const volume = context.tenantObjects.get(resources.persistentVolumes, { name: volumeName });
    if (!isFor(volume, tenantObject)) {
      return [{ do: 'require', keys: [{ kind: 'persistentvolumes', name: volumeName }] }];
    }
    spec['volumeName'] = volumeName;
  }
  if (storageClassName !== undefined && classOf(tenantObject) === undefined)
    spec['storageClassName'] = storageClassName;

  const actions: Action[] = [];
  const metadata = metadataPatch(tenantObject, superObject, context);
  if (metadata !== undefined || Object.keys(spec).length > 0) {
    actions.push({
      do: 'patchTenant',
      patch: { ...metadata, ...(Object.keys(spec).length === 0 ? {} : { spec }) },
    });
  }
  const status = statusPatch(tenantObject, superObject, context);
  if (status !== undefined) actions.push({ do: 'patchTenant', subresource: 'status', patch: { status } });
  return actions;
}

/** S had a volume and is no more: no new, empty volume may stand in for it. */
export function superGone(tenantObject: KubeObject): readonly Action[] | undefined {
  if (tenantObject.metadata.deletionTimestamp !== undefined) return undefined;
  const { phase } = statusOf(tenantObject);
  if (specOf(tenantObject).volumeName === undefined || (phase !== 'Bound' && phase !== 'Lost'))
    return undefined;
  if (phase === 'Lost') return [];
  return [
    { do: 'patchTenant', subresource: 'status', patch: { status: { phase: 'Lost' } } },
    {
      do: 'notice',
      notice: {
        type: 'Warning',
        reason: 'ClaimLost',
        message: 'the claim was deleted in the cluster that held its volume',
      },
    },
  ];
}

function isFor(volume: KubeObject | undefined, tenantObject: KubeObject): boolean {
  const claimRef = (volume?.['spec'] as { claimRef?: { uid?: string } } | undefined)?.claimRef;
  return claimRef?.uid !== undefined && claimRef.uid === tenantObject.metadata.uid;
}

function metadataPatch(
  tenantObject: KubeObject,
  superObject: KubeObject,
  context: SyncContext,
): MergePatch | undefined {
  const patch = transparentMetadataPatch(tenantObject, superObject, context);
  const marks: MergePatch = {};
  for (const key of bindingMarks) {
    const value = superObject.metadata.annotations?.[key];
    if (value !== undefined && value !== tenantObject.metadata.annotations?.[key]) marks[key] = value;
  }
  if (Object.keys(marks).length === 0) return patch;
  const metadata = (patch?.['metadata'] ?? {}) as MergePatch;
  const annotations = { ...(metadata['annotations'] as MergePatch | undefined), ...marks };
  return { ...patch, metadata: { ...metadata, annotations } };
}

function statusPatch(
  tenantObject: KubeObject,
  superObject: KubeObject,
  context: SyncContext,
): MergePatch | undefined {
  const own = statusOf(tenantObject);
  const there = statusOf(superObject);
  const patch: MergePatch = {};
  for (const field of statusFields) {
    const from = own[field];
    const to =
      field === 'conditions' ? scrubbed(there[field] as Condition[] | undefined, context) : there[field];
    if (from === to || deepEqual(from, to)) continue;
    if (to === undefined) patch[field] = null;
    else patch[field] = isRecord(from) && isRecord(to) ? mergePatch(from, to) : to;
  }
  return Object.keys(patch).length === 0 ? undefined : patch;
}

function scrubbed(
  conditions: readonly Condition[] | undefined,
  context: SyncContext,
): Condition[] | undefined {
  return conditions?.map((condition) =>
    condition.message === undefined
      ? condition
      : { ...condition, message: scrub(condition.message, context) },
  );
}
