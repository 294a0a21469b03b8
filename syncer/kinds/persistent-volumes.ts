import { deepEqual } from 'fast-equals';
import {
  type KubeObject,
  type MergePatch,
  mergePatch,
  type ObjectMeta,
  resources,
  withoutUndefined,
} from '../../kube/index.ts';
import type { KeyRef, SyncContext } from '../context.ts';
import { isOurs, originalUid, tenantNamespaceOf } from '../mapping/labels.ts';
import { copyMetadata, exactMetadataPatch } from '../mapping/metadata.ts';
import { scrub } from '../mapping/scrub.ts';
import type { Action, UpKind } from './contract.ts';

interface ClaimRef {
  apiVersion?: string;
  kind?: string;
  namespace?: string;
  name?: string;
  uid?: string;
  [field: string]: unknown;
}

interface Volume extends KubeObject {
  spec?: { claimRef?: ClaimRef; [field: string]: unknown };
  status?: { phase?: string; message?: string; reason?: string; [field: string]: unknown };
}

function claimRefOf(volume: KubeObject): ClaimRef | undefined {
  return (volume as Volume).spec?.claimRef;
}

/**
 * The tenant's claim that a volume of the super cluster is bound to. Names are not enough: the volume
 * must be the super object's by UID, and the super object must be made from the tenant object that is there now.
 */
function tenantClaimOf(superObject: KubeObject, context: SyncContext): KubeObject | undefined {
  const ref = claimRefOf(superObject);
  if (ref?.namespace === undefined || ref.name === undefined || ref.uid === undefined) return undefined;
  const superNamespace = context.superObjects.get(resources.namespaces, { name: ref.namespace });
  if (superNamespace === undefined || !isOurs(superNamespace, context.tenant)) return undefined;
  const namespace = tenantNamespaceOf(superNamespace);
  if (namespace === undefined) return undefined;
  const claim = { namespace: ref.namespace, name: ref.name };
  const superClaim = context.superObjects.get(resources.persistentVolumeClaims, claim);
  if (superClaim === undefined || superClaim.metadata.uid !== ref.uid) return undefined;
  const own = context.tenantObjects.get(resources.persistentVolumeClaims, { namespace, name: ref.name });
  return own !== undefined && originalUid(superClaim) === own.metadata.uid ? own : undefined;
}

/** Fields of the copy that can be put back when the tenant edits them. */
const keptFields = [
  'accessModes',
  'capacity',
  'claimRef',
  'mountOptions',
  'persistentVolumeReclaimPolicy',
  'storageClassName',
] as const;

/** Fields that a volume may be given only once. */
const onceFields = ['nodeAffinity', 'volumeMode'] as const;

const known = new Set<string>([...keptFields, ...onceFields, 'volumeAttributesClassName']);

/** The copy's fields that may be put back, `claimRef` as the tenant knows its claim. */
function keptSpec(superObject: KubeObject, context: SyncContext): Record<string, unknown> {
  const spec = (superObject as Volume).spec ?? {};
  const kept: Record<string, unknown> = {};
  for (const field of keptFields) {
    if (spec[field] !== undefined) kept[field] = spec[field];
  }
  kept['claimRef'] = claimRefFor(superObject, context);
  return kept;
}

/** Provisioners note on a volume which Secret they will delete it with. */
function copiedMetadata(superObject: KubeObject, context: SyncContext): ObjectMeta {
  const { annotations, labels, ...metadata } = copyMetadata(superObject);
  const shown = (keys: Record<string, string>): Record<string, string> =>
    Object.fromEntries(Object.entries(keys).map(([key, value]) => [key, scrub(value, context)]));
  const harmless = Object.entries(annotations ?? {}).filter(([key]) => !/secret/i.test(key));
  return {
    ...metadata,
    ...withoutUndefined({
      labels: labels && shown(labels),
      annotations: annotations && shown(Object.fromEntries(harmless)),
    }),
  };
}

/** The whole spec of a new copy. What it is stored on is shown, but not with whose credentials. */
function copiedSpec(superObject: KubeObject, context: SyncContext): Record<string, unknown> {
  const spec = (superObject as Volume).spec ?? {};
  const copy = keptSpec(superObject, context);
  for (const field of onceFields) {
    if (spec[field] !== undefined) copy[field] = cleaned(spec[field], context);
  }
  for (const [field, value] of Object.entries(spec)) {
    if (!known.has(field)) copy[field] = cleaned(value, context);
  }
  return copy;
}

function claimRefFor(superObject: KubeObject, context: SyncContext): ClaimRef {
  const { namespace, name, uid } = tenantClaimOf(superObject, context)?.metadata ?? {};
  return withoutUndefined({ apiVersion: 'v1', kind: 'PersistentVolumeClaim', namespace, name, uid });
}

/** Paths and attributes like to contain the claim's namespace; references to Secrets lead nowhere in the tenant. */
function cleaned(value: unknown, context: SyncContext): unknown {
  if (typeof value === 'string') return scrub(value, context);
  if (Array.isArray(value)) return value.map((item) => cleaned(item, context));
  if (typeof value !== 'object' || value === null) return value;
  const entries = Object.entries(value).filter(([key]) => !/secretref$|^secretnamespace$/i.test(key));
  return Object.fromEntries(entries.map(([key, item]) => [key, cleaned(item, context)]));
}

/**
 * PersistentVolume: a copy of each that is bound to one of the tenant's claims. Those of the tenant stay local (sync rule
 * `persistent-volumes`).
 */
export const persistentVolumeKind: UpKind = {
  name: 'persistentvolumes',
  resource: resources.persistentVolumes,
  direction: 'up',
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
  if (originalUid(tenantObject) === undefined || name === undefined) return [];
  return [{ kind: 'persistentvolumeclaims', namespace, name }];
}

function up(tenantObject: KubeObject, superObject: KubeObject, context: SyncContext): readonly Action[] {
  const actions: Action[] = [];
  const metadata = exactMetadataPatch(tenantObject, copiedMetadata(superObject, context));
  const spec = specPatch(tenantObject as Volume, superObject, context);
  if (metadata !== undefined || spec !== undefined) {
    actions.push({ do: 'patchTenant', patch: withoutUndefined({ ...metadata, spec }) });
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
