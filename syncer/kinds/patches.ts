import { deepEqual } from 'fast-equals';
import { isRecord, type KubeObject, type MergePatch, mergePatch } from '../../kube/index.ts';
import type { SyncContext } from '../context.ts';
import { transparentMetadataPatch } from '../mapping/metadata.ts';
import type { Action } from './contract.ts';

/** Adds what makes a field the wanted one: of an object the difference, of anything else the whole. */
export function setField(patch: MergePatch, field: string, from: unknown, to: unknown): void {
  if (from === to || deepEqual(from, to)) return;
  if (to === undefined) patch[field] = null;
  else patch[field] = isRecord(from) && isRecord(to) ? mergePatch(from, to) : to;
}

/** What makes these fields the wanted ones; undefined: they are. */
export function fieldsPatch<Field extends string>(
  from: { readonly [F in Field]?: unknown },
  to: { readonly [F in Field]?: unknown },
  fields: readonly Field[],
): MergePatch | undefined {
  const patch: MergePatch = {};
  for (const field of fields) setField(patch, field, from[field], to[field]);
  return unlessEmpty(patch);
}

export function unlessEmpty(patch: MergePatch): MergePatch | undefined {
  return Object.keys(patch).length === 0 ? undefined : patch;
}

/** With these labels or annotations too; null takes one away. */
export function withKeys(
  patch: MergePatch | undefined,
  field: 'labels' | 'annotations',
  keys: Readonly<Record<string, string | null>>,
): MergePatch | undefined {
  if (Object.keys(keys).length === 0) return patch;
  const metadata = (patch?.['metadata'] ?? {}) as Record<string, MergePatch | undefined>;
  return { ...patch, metadata: { ...metadata, [field]: { ...metadata[field], ...keys } } };
}

/** `up` of kinds of which metadata alone comes up. */
export function metadataUp(
  tenantObject: KubeObject,
  superObject: KubeObject,
  context: SyncContext,
): readonly Action[] {
  const patch = transparentMetadataPatch(tenantObject, superObject, context);
  return patch === undefined ? [] : [{ do: 'patchTenant', patch }];
}
