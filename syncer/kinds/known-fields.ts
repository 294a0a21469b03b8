import { isRecord } from '../../kube/index.ts';

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

/**
 * Paths of the fields that a value has beside its shape. A tenant may be newer than the translation, and
 * a field that is left out can mean more than one that was never there.
 */
export function unknownFields(value: unknown, shape: Shape, path = 'spec'): string[] {
  if (shape === true) return [];
  if (isList(shape)) {
    return Array.isArray(value) ? value.flatMap((item) => unknownFields(item, shape[0], `${path}[]`)) : [];
  }
  if (!isRecord(value)) return [];
  return Object.keys(value).flatMap((field) => {
    const inner = shape[field];
    return inner === undefined
      ? [`${path}.${field}`]
      : unknownFields(value[field], inner, `${path}.${field}`);
  });
}

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
