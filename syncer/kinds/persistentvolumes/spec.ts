import type { KubeObject, ObjectMeta } from '../../../kube/index.ts';
import { copyMetadata, scrub } from '../../mapping/index.ts';
import type { SyncContext } from '../context.ts';
import { type ClaimRef, tenantClaimOf, type Volume } from './claims.ts';

/** Fields of the copy that can be put back when the tenant edits them. */
export const keptFields = [
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
export function keptSpec(superObject: KubeObject, context: SyncContext): Record<string, unknown> {
  const spec = (superObject as Volume).spec ?? {};
  const kept: Record<string, unknown> = {};
  for (const field of keptFields) {
    if (spec[field] !== undefined) kept[field] = spec[field];
  }
  kept['claimRef'] = claimRefFor(superObject, context);
  return kept;
}

/** Provisioners note on a volume which Secret they will delete it with. */
export function copiedMetadata(superObject: KubeObject, context: SyncContext): ObjectMeta {
  const { annotations, labels, ...metadata } = copyMetadata(superObject);
  const shown = (keys: Record<string, string>): Record<string, string> =>
    Object.fromEntries(Object.entries(keys).map(([key, value]) => [key, scrub(value, context)]));
  const harmless = Object.entries(annotations ?? {}).filter(([key]) => !/secret/i.test(key));
  return {
    ...metadata,
    ...(labels === undefined ? {} : { labels: shown(labels) }),
    ...(annotations === undefined ? {} : { annotations: shown(Object.fromEntries(harmless)) }),
  };
}

/** The whole spec of a new copy. What it is stored on is shown, but not with whose credentials. */
export function copiedSpec(superObject: KubeObject, context: SyncContext): Record<string, unknown> {
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
  return {
    apiVersion: 'v1',
    kind: 'PersistentVolumeClaim',
    ...(namespace === undefined ? {} : { namespace }),
    ...(name === undefined ? {} : { name }),
    ...(uid === undefined ? {} : { uid }),
  };
}

/** Paths and attributes like to contain the claim's namespace; references to Secrets lead nowhere in the tenant. */
function cleaned(value: unknown, context: SyncContext): unknown {
  if (typeof value === 'string') return scrub(value, context);
  if (Array.isArray(value)) return value.map((item) => cleaned(item, context));
  if (typeof value !== 'object' || value === null) return value;
  const entries = Object.entries(value).filter(([key]) => !/secretref$|^secretnamespace$/i.test(key));
  return Object.fromEntries(entries.map(([key, item]) => [key, cleaned(item, context)]));
}
