import { isRecord } from '../../kube/index.ts';
import type { Notice } from './contract.ts';
import { shapeRefusal } from './validation.ts';

/** The fields of a piece of API that a translation knows: `true` is taken as it is, whatever is in it. */
export type Shape = true | readonly [Shape] | { readonly [field: string]: Shape };

/** A value without the fields that its shape does not have. */
export function knownPart(value: unknown, shape: Shape): unknown {
  if (shape === true) return value;
  if (isList(shape)) return Array.isArray(value) ? value.map((item) => knownPart(item, shape[0])) : value;
  if (!isRecord(value)) return value;
  const known: Record<string, unknown> = {};
  for (const [field, inner] of Object.entries(shape)) {
    if (value[field] !== undefined) known[field] = knownPart(value[field], inner);
  }
  return known;
}

/** As many are named, and as many characters of each: the names are a tenant's. */
const maxNamed = 10;
const maxLengthOfName = 100;

/**
 * Paths of the fields that a value has beside its shape, each once, the first few. A tenant may be newer than the
 * translation, and a field that is left out can mean more than one that was never there. A null counts as absent.
 */
export function unknownFields(value: unknown, shape: Shape, path = 'spec'): string[] {
  const found = new Set<string>();
  collectUnknown(value, shape, path, found);
  return [...found];
}

function collectUnknown(value: unknown, shape: Shape, path: string, found: Set<string>): void {
  if (shape === true || found.size >= maxNamed) return;
  if (isList(shape)) {
    if (Array.isArray(value)) for (const item of value) collectUnknown(item, shape[0], `${path}[]`, found);
    return;
  }
  if (!isRecord(value)) return;
  for (const field in value) {
    if (found.size >= maxNamed) return;
    if (value[field] === null || value[field] === undefined) continue;
    const inner = Object.hasOwn(shape, field) ? shape[field] : undefined;
    if (inner === undefined) found.add(pathTo(path, field));
    else collectUnknown(value[field], inner, pathTo(path, field), found);
  }
}

function pathTo(path: string, field: string): string {
  const name = field.slice(0, maxLengthOfName);
  return path === '' ? name : `${path}.${name}`;
}

/** Refuses by name, as for pods, what has fields beside its shape; undefined: there are none. */
export function unknownRefusal(value: unknown, shape: Shape, path?: string): Notice | undefined {
  return shapeRefusal(unknownFields(value, shape, path).map((each) => ({ is: 'unknown', path: each })));
}

/** Of `metav1.LabelSelector`. */
export const selectorShape: Shape = {
  matchLabels: true,
  matchExpressions: [{ key: true, operator: true, values: true }],
};

function isList(shape: Shape): shape is readonly [Shape] {
  return Array.isArray(shape);
}

/**
 * Of one object, as `shapeProblems` has it for each list of a pod. Empty rules take twenty times their JSON in the memory of
 * every replica, and of whatever acts on them.
 */
export const maxEntries = 10_000;

/** Whether lists and labels in a value have more than this many entries; looks at no more than that needs. */
export function hasMoreEntries(value: unknown, most: number): boolean {
  let left = most;
  const count = (part: unknown): void => {
    if (Array.isArray(part)) {
      left -= part.length;
      for (let index = 0; index < part.length && left >= 0; index++) count(part[index]);
      return;
    }
    if (!isRecord(part)) return;
    for (const [key, inner] of Object.entries(part)) {
      if (key === 'matchLabels' && isRecord(inner)) left -= Object.keys(inner).length;
      else if (left >= 0) count(inner);
    }
  };
  count(value);
  return left < 0;
}
