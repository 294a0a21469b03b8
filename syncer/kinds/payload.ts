import { createHash } from 'node:crypto';
import { deepEqual } from 'fast-equals';
import { isRecord, type KubeObject, type MergePatch, mergePatch } from '../../kube/index.ts';
import type { Action } from './contract.ts';

/** The named top-level fields of an object that has them; for kinds that are data and little else. */
export function payloadOf(object: KubeObject, fields: readonly string[]): Record<string, unknown> {
  return Object.fromEntries(
    fields
      .filter((field) => object[field] !== undefined && object[field] !== null)
      .map((field) => [field, object[field]]),
  );
}

/**
 * Makes the super object's payload the tenant object's, together with a patch of its metadata; one that is immutable is
 * made anew. Of objects without payloads only the metadata is written.
 */
export function bringPayloadDown(
  tenantObject: KubeObject,
  superObject: KubeObject,
  fields: readonly string[],
  metadata: MergePatch | undefined,
): readonly Action[] {
  const patch: MergePatch = { ...metadata };
  // Where a payload differs, both objects have been read as they are.
  let isWhole = false;
  for (const field of fields) {
    const from = superObject[field];
    const to = tenantObject[field] ?? undefined;
    if (from === to || deepEqual(from, to)) continue;
    // The tenant object's cannot have changed either: a user of the super cluster froze something else.
    if (superObject['immutable'] === true) return [{ do: 'deleteSuper' }];
    if (to === undefined) patch[field] = null;
    else patch[field] = typeof from === 'object' && typeof to === 'object' ? mergePatch(from, to) : to;
    isWhole = true;
  }
  if (Object.keys(patch).length === 0) return [];
  return [{ do: 'patchSuper', patch, ...(isWhole ? { isWhole: true } : {}) }];
}

/** What is kept of a payload that is not kept itself. */
export interface PayloadSummary {
  /** Equal for equal payloads. */
  readonly digest: string;
  /** Keys of `data`. */
  readonly keys: readonly string[];
  /** Size as JSON, about. */
  readonly bytes: number;
}

const summaries = Symbol('summary of the payload');

type Summarized = KubeObject & { [summaries]?: PayloadSummary };

/** The summary of an object that `summarized` has made, or of a whole one. */
export function payloadSummary(object: KubeObject, fields: readonly string[]): PayloadSummary {
  const kept = (object as Summarized)[summaries];
  if (kept !== undefined) return kept;
  const hash = createHash('sha256');
  let bytes = 0;
  const add = (text: string): void => {
    hash.update(text);
    bytes += Buffer.byteLength(text);
  };
  for (const field of fields) {
    const value = object[field];
    if (value === undefined || value === null) continue;
    add(JSON.stringify(field));
    if (!isRecord(value)) add(JSON.stringify(value));
    else for (const key of Object.keys(value).sort()) add(JSON.stringify([key, value[key]]));
  }
  const { data } = object;
  return { digest: hash.digest('base64'), keys: isRecord(data) ? Object.keys(data) : [], bytes };
}

/** For `compact` in the super cluster: the object with a summary in place of its payload. */
export function summarized(fields: readonly string[]): (object: KubeObject) => KubeObject {
  return (object) => ({ ...metadataAlone(object), [summaries]: payloadSummary(object, fields) });
}

/** For `compact` in the tenant, whose server may send more than it was asked for. */
export function metadataAlone({ apiVersion, kind, metadata }: KubeObject): KubeObject {
  return {
    ...(apiVersion === undefined ? {} : { apiVersion }),
    ...(kind === undefined ? {} : { kind }),
    metadata,
  };
}
