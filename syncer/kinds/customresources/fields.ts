import { deepEqual } from 'fast-equals';
import { type KubeObject, type MergePatch, mergePatch } from '../../../kube/index.ts';

type Fields = Readonly<Record<string, unknown>>;
/** Which fields an object has, without their values; `1` for what is carried over whole, lists for example. */
export interface Shape {
  readonly [field: string]: Shape | 1;
}

/** Everything of a custom resource that belongs to whoever wrote it. */
export function payloadOf(object: KubeObject): Fields {
  const { apiVersion: _apiVersion, kind: _kind, metadata: _metadata, status: _status, ...payload } = object;
  return payload;
}

const longestShape = 16_384;

/**
 * What S remembers of the fields that came from T, so that one which T has dropped can be told from one that
 * the super cluster added. Of large objects only the outer fields, which are then carried over whole.
 */
export function shapeText(payload: Fields): string {
  for (const depth of [16, 4, 2]) {
    const text = JSON.stringify(shapeOf(payload, depth));
    if (text.length <= longestShape) return text;
  }
  return JSON.stringify(shapeOf(payload, 1));
}

/** Tolerates anything: the annotation can be edited in the super cluster. */
export function parseShape(text: string | undefined): Shape {
  try {
    const parsed: unknown = JSON.parse(text ?? '{}');
    return isFields(parsed) ? (parsed as Shape) : {};
  } catch {
    return {};
  }
}

/**
 * Brings what came from T to what T has now, and leaves alone what others put beside it.
 * @param shape of T as it is now
 * @param before what S remembers
 */
export function payloadPatch(from: Fields, to: Fields, shape: Shape, before: Shape): MergePatch | undefined {
  const patch = new Map<string, unknown>();
  for (const [field, value] of Object.entries(to)) {
    const present = own(from, field);
    const inner = own(shape, field);
    const known = own(before, field);
    // What was carried over whole is replaced as a whole.
    if (isFields(value) && isFields(present) && isShape(inner) && known !== 1) {
      const change = payloadPatch(present, value, inner, known ?? {});
      if (change !== undefined) patch.set(field, change);
    } else if (!deepEqual(present ?? null, value ?? null)) {
      const change = isFields(value) && isFields(present) ? mergePatch(present, value) : value;
      if (change !== undefined) patch.set(field, change);
    }
  }
  for (const [field, known] of Object.entries(before)) {
    const present = own(from, field);
    if (Object.hasOwn(to, field) || present === undefined) continue;
    const change = isShape(known) && isFields(present) ? removal(present, known) : null;
    if (change !== undefined) patch.set(field, change);
  }
  return patch.size === 0 ? undefined : Object.fromEntries(patch);
}

/** Takes away what came from T: the whole of it, if nobody has added anything. */
function removal(from: Fields, known: Shape): MergePatch | null | undefined {
  return hasMore(from, known) ? payloadPatch(from, {}, {}, known) : null;
}

function hasMore(value: unknown, known: Shape | 1 | undefined): boolean {
  if (known === undefined) return true;
  if (!isFields(value) || !isShape(known)) return false;
  return Object.entries(value).some(([field, part]) => hasMore(part, own(known, field)));
}

function shapeOf(fields: Fields, depth: number): Shape {
  return Object.fromEntries(
    Object.entries(fields)
      .filter(([, value]) => value !== null)
      .map(([field, value]) => [field, isFields(value) && depth > 1 ? shapeOf(value, depth - 1) : 1]),
  );
}

function own<T>(object: Readonly<Record<string, T>>, field: string): T | undefined {
  return Object.hasOwn(object, field) ? object[field] : undefined;
}

function isShape(value: Shape | 1 | undefined): value is Shape {
  return isFields(value);
}

function isFields(value: unknown): value is Fields {
  return typeof value === 'object' && value !== null && !Array.isArray(value);
}
