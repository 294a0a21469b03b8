import { isRecord, type MergePatch } from './types.ts';

type JsonObject = { [field: string]: unknown };

/**
 * The JSON merge patch (RFC 7386) that turns `from` into `to`, or undefined when they are equal.
 * Both must be objects. A null within `to` means the same as an absent field, as merge patches
 * cannot tell them apart.
 */
export function mergePatch(from: unknown, to: unknown): MergePatch | undefined {
  if (!isRecord(from) || !isRecord(to)) throw new TypeError('only objects have a merge patch');
  return difference(from, to);
}

/** `target` with the patch applied. Neither argument is changed; unchanged parts are shared. */
export function applyMergePatch(target: unknown, patch: unknown): unknown {
  if (!isRecord(patch)) return patch;
  const result: JsonObject = isRecord(target) ? copy(target) : {};
  for (const key of Object.keys(patch)) {
    const value = patch[key];
    if (value === null) delete result[key];
    else setOwn(result, key, applyMergePatch(own(result, key), value));
  }
  return result;
}

function difference(from: JsonObject, to: JsonObject): MergePatch | undefined {
  let patch: MergePatch | undefined;
  for (const key of Object.keys(to)) {
    const wanted = own(to, key);
    if (wanted === null || wanted === undefined) continue;
    const current = own(from, key);
    const change =
      isRecord(current) && isRecord(wanted)
        ? difference(current, wanted)
        : equal(current, wanted)
          ? undefined
          : withoutNulls(wanted);
    if (change !== undefined) {
      patch ??= {};
      setOwn(patch, key, change);
    }
  }
  for (const key of Object.keys(from)) {
    if (own(from, key) === undefined || own(from, key) === null) continue;
    const wanted = own(to, key);
    if (wanted === undefined || wanted === null) {
      patch ??= {};
      setOwn(patch, key, null);
    }
  }
  return patch;
}

/** Equality of JSON values. */
function equal(a: unknown, b: unknown): boolean {
  if (a === b) return true;
  if (Array.isArray(a)) {
    return Array.isArray(b) && a.length === b.length && a.every((item, i) => equal(item, b[i]));
  }
  if (!isRecord(a) || !isRecord(b)) return false;
  const keys = Object.keys(a);
  return (
    keys.length === Object.keys(b).length &&
    keys.every((key) => Object.hasOwn(b, key) && equal(own(a, key), own(b, key)))
  );
}

/** A null inside of a new object would be read as "remove" by some servers and stored by none. */
function withoutNulls(value: unknown): unknown {
  if (!isRecord(value)) return value;
  const result: JsonObject = {};
  for (const key of Object.keys(value)) {
    const item = own(value, key);
    if (item !== null && item !== undefined) setOwn(result, key, withoutNulls(item));
  }
  return result;
}

// "__proto__" is a legal key of a ConfigMap: it must neither be read from nor written to the prototype.
function own(object: JsonObject, key: string): unknown {
  return Object.hasOwn(object, key) ? object[key] : undefined;
}

function setOwn(object: JsonObject, key: string, value: unknown): void {
  if (key === '__proto__') {
    Object.defineProperty(object, key, { value, enumerable: true, configurable: true, writable: true });
  } else {
    object[key] = value;
  }
}

function copy(object: JsonObject): JsonObject {
  const result: JsonObject = {};
  for (const key of Object.keys(object)) setOwn(result, key, own(object, key));
  return result;
}
