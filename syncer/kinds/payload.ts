import { createHash } from 'node:crypto';
import { deepEqual } from 'fast-equals';
import { isPartial, isRecord, type KubeObject, type MergePatch, withoutUndefined } from '../../kube/index.ts';
import type { Action } from './contract.ts';
import { setField } from './patches.ts';

/** The named top-level fields of an object that has them; for kinds that are data and little else. */
export function payloadOf(
  object: Readonly<Record<string, unknown>>,
  fields: readonly string[],
): Record<string, unknown> {
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
  const isUnread = isToBeReplaced(superObject);
  // Where a payload differs, the tenant object has been read as it is.
  let isWhole = isUnread;
  for (const field of fields) {
    const from = superObject[field];
    const to = tenantObject[field] ?? undefined;
    if (isUnread) {
      patch[field] = to ?? null;
      continue;
    }
    if (from === to || deepEqual(from, to)) continue;
    // The tenant object's cannot have changed either: a user of the super cluster froze something else.
    if (superObject['immutable'] === true) return [{ do: 'deleteSuper' }];
    setField(patch, field, from, to);
    isWhole = true;
  }
  if (Object.keys(patch).length === 0) return [];
  return [{ do: 'patchSuper', patch, ...(isWhole ? { isWhole: true } : {}) }];
}

/** What is kept of a payload that is not kept itself. */
export interface PayloadSummary {
  /** Equal for equal payloads. */
  readonly digest: string;
  /** Keys of `data`, the first thousand or so. */
  readonly keys: readonly string[];
  /** Size as JSON, about. */
  readonly bytes: number;
}

/**
 * How a summary is known: the payload was `read`, or it is what we have `written` ourselves, or it is of an earlier version
 * (`outdated`), as a watch has shown the metadata of a later one.
 */
type Source = 'read' | 'written' | 'outdated';

interface Kept extends PayloadSummary {
  readonly source: Source;
}

const summaries = Symbol('summary of the payload');
const toBeReplaced = Symbol('the payload was not read and is to be replaced');

type Summarized = KubeObject & { [summaries]?: Kept; [toBeReplaced]?: true };

/** The summary that an object carries, be it outdated, or that of a whole one. */
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
  return { digest: hash.digest('base64'), keys: firstKeys(object['data']), bytes };
}

/**
 * They are kept for each object and are not part of what a tenant's cache is charged: a megabyte of short keys would take
 * three. They matter where a pod takes all of them as variables.
 */
const maxBytesOfKeys = 64 * 1024;
/** Of a text in memory, beside its characters. */
const bytesBeside = 32;

function firstKeys(data: unknown): readonly string[] {
  if (!isRecord(data)) return [];
  const keys: string[] = [];
  let bytes = 0;
  for (const key of Object.keys(data)) {
    bytes += key.length + bytesBeside;
    if (bytes > maxBytesOfKeys) break;
    keys.push(key);
  }
  return keys;
}

/** The same object, which carries this summary from now on. */
export function withSummary(
  object: KubeObject,
  summary: PayloadSummary,
  source: Source = 'read',
): KubeObject {
  const { digest, keys, bytes } = summary;
  (object as Summarized)[summaries] = { digest, keys, bytes, source };
  return object;
}

/** The super object as one of which the payload was not read, and is to become the tenant object's whatever it is. */
export function asToBeReplaced(superObject: KubeObject): KubeObject {
  return { ...superObject, [toBeReplaced]: true } as KubeObject;
}

export function isToBeReplaced(superObject: KubeObject): boolean {
  return (superObject as Summarized)[toBeReplaced] === true;
}

/**
 * For `compact` in the super cluster: the object with a summary in place of its payload. Of one that came without, the
 * earlier one's.
 */
export function summarized(
  fields: readonly string[],
): (object: KubeObject, previous?: KubeObject) => KubeObject {
  return (object, previous) => {
    if (!isPartial(object)) return withSummary(metadataAlone(object), payloadSummary(object, fields));
    const isSame = previous !== undefined && previous.metadata.uid === object.metadata.uid;
    const earlier = isSame ? payloadSummary(previous, fields) : nothing;
    return withSummary(metadataAlone(object), earlier, 'outdated');
  };
}

const nothing: PayloadSummary = { digest: '', keys: [], bytes: 0 };

/** For `compact` in the tenant, whose server may send more than it was asked for. */
export function metadataAlone({ apiVersion, kind, metadata }: KubeObject): KubeObject {
  return {
    ...withoutUndefined({ apiVersion, kind }),
    metadata,
  };
}

/** How the payload of a super object is known. */
export function payloadSource(superObject: KubeObject): Source | undefined {
  return (superObject as Summarized)[summaries]?.source;
}
