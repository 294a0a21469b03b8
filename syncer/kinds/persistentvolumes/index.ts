import { deepEqual } from 'fast-equals';
import { type KubeObject, type MergePatch, mergePatch, resources } from '../../../kube/index.ts';
import { scrub, uidMark } from '../../mapping/index.ts';
import type { Action, KeyRef } from '../action.ts';
import type { SyncContext } from '../context.ts';
import { exactMetadataPatch } from '../copy.ts';
import type { UpKind } from '../kind.ts';
import { claimRefOf, tenantClaimOf, type Volume } from './claims.ts';
import { copiedMetadata, copiedSpec, keptFields, keptSpec } from './spec.ts';

/** PersistentVolume: a copy of each that is bound to one of the tenant's claims. Those of the tenant stay local. */
export const persistentVolumeKind: UpKind = {
  name: 'persistentvolumes',
  resource: resources.persistentVolumes,
  direction: 'up',
  superScope: 'all',
  superNamespaceOf: (superObject) => claimRefOf(superObject)?.namespace,
  touches: { tenant: claimOf },
  tenantRef(superObject, context) {
    const { name } = superObject.metadata;
    return name !== undefined && tenantClaimOf(superObject, context) !== undefined ? { name } : undefined;
  },
  superRef: ({ name }) => ({ name }),
  toTenant(superObject, context) {
    return {
      apiVersion: 'v1',
      kind: 'PersistentVolume',
      metadata: copiedMetadata(superObject, context),
      spec: copiedSpec(superObject, context),
    };
  },
  up,
  superGone,
};

/** A claim shows its volume only once the tenant can see that volume. */
function claimOf(tenantObject: KubeObject): readonly KeyRef[] {
  const { namespace, name } = claimRefOf(tenantObject) ?? {};
  if (uidMark(tenantObject) === undefined || name === undefined) return [];
  return [{ kind: 'persistentvolumeclaims', namespace, name }];
}

function up(tenantObject: KubeObject, superObject: KubeObject, context: SyncContext): readonly Action[] {
  const actions: Action[] = [];
  const metadata = exactMetadataPatch(tenantObject, copiedMetadata(superObject, context));
  const spec = specPatch(tenantObject as Volume, superObject, context);
  if (metadata !== undefined || spec !== undefined) {
    actions.push({ do: 'patchTenant', patch: { ...metadata, ...(spec === undefined ? {} : { spec }) } });
  }
  const status = statusPatch(tenantObject as Volume, superObject as Volume, context);
  if (status !== undefined) actions.push({ do: 'patchTenant', subresource: 'status', patch: { status } });
  return actions;
}

function specPatch(
  tenantObject: Volume,
  superObject: KubeObject,
  context: SyncContext,
): MergePatch | undefined {
  const wanted = keptSpec(superObject, context);
  const present: Record<string, unknown> = {};
  for (const field of keptFields) {
    const value = tenantObject.spec?.[field];
    if (value !== undefined) present[field] = value;
  }
  return deepEqual(present, wanted) ? undefined : mergePatch(present, wanted);
}

function statusPatch(
  tenantObject: Volume,
  superObject: Volume,
  context: SyncContext,
): MergePatch | undefined {
  const { phase, reason, message } = superObject.status ?? {};
  const own = tenantObject.status ?? {};
  const text = message === undefined ? undefined : scrub(message, context);
  if (own.phase === phase && own.reason === reason && own.message === text) return undefined;
  return mergePatch(
    { phase: own.phase, reason: own.reason, message: own.message },
    { phase: phase ?? own.phase, reason, message: text },
  );
}

/** While a volume counts as bound, the protection that the tenant's control plane gives it never ends. */
function superGone(tenantObject: KubeObject): readonly Action[] {
  const actions: Action[] = [];
  if ((tenantObject as Volume).status?.phase === 'Bound') {
    actions.push({ do: 'patchTenant', subresource: 'status', patch: { status: { phase: 'Released' } } });
  }
  if (tenantObject.metadata.deletionTimestamp === undefined) actions.push({ do: 'deleteTenant' });
  return actions;
}
