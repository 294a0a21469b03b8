import { deepEqual } from 'fast-equals';
import { apiTypes } from './api-types.ts';
import { printable } from './printable.ts';
import { isRecord } from './types.ts';

/**
 * What is wrong at one place of a value.
 *
 * - `unknown`: the table has no such field.
 * - `type`: an object where a text is expected, and the like; a null in a list.
 * - `null`: a field without a value, which an API server takes for one that is not there.
 * - `size`: the value is too large to be looked through.
 */
export interface ShapeProblem {
  readonly is: 'unknown' | 'type' | 'null' | 'size';
  /** As in `spec.containers[2].image`, safe to print. */
  readonly path: string;
}

export interface ShapeOptions {
  /** Of the value, for the paths of problems. */
  readonly path: string;
  /** What is equal to the same place of this is not looked at: it is there already. Items of lists are found by name. */
  readonly present?: unknown;
  /** The value is a merge patch: a null outside of a list takes a field away. */
  readonly isPatch?: boolean;
  /** Fields that the table does not have are none of the problems, and not looked into. */
  readonly anyField?: boolean;
  /** A null where a text, a number or a truth value could stand is no problem. */
  readonly nullScalars?: boolean;
}

/** As many as a message has room for. */
const mostProblems = 8;
/** A pod of 1.5 MiB has some 100,000 values. */
const mostValues = 500_000;
const longestPath = 200;

interface Walk {
  readonly problems: ShapeProblem[];
  readonly options: ShapeOptions;
  values: number;
}

/**
 * Compares a value with a type of the table (`PodSpec`). Never throws, whatever JSON it is given, and goes no deeper than
 * the table.
 */
export function shapeProblems(value: unknown, type: string, options: ShapeOptions): ShapeProblem[] {
  const walk: Walk = { problems: [], options, values: 0 };
  check(walk, value, { type, path: options.path, present: options.present, inList: false });
  return walk.problems;
}

interface Place {
  readonly type: string;
  readonly path: string;
  readonly present: unknown;
  readonly inList: boolean;
}

function check(walk: Walk, value: unknown, place: Place): void {
  const { type, path, present } = place;
  if (walk.problems.length >= mostProblems) return;
  walk.values += 1;
  if (walk.values > mostValues) {
    if (walk.values === mostValues + 1) report(walk, 'size', path);
    return;
  }
  if (isThere(value, present)) return;
  if (type.startsWith('[]')) checkList(walk, value, { ...place, type: type.slice(2) });
  else if (type.startsWith('{}')) checkMap(walk, value, { ...place, type: type.slice(2) });
  else if (apiTypes[type] !== undefined) checkFields(walk, value, apiTypes[type], place);
  else if (!isScalar(value, type)) report(walk, 'type', path);
}

function checkList(walk: Walk, value: unknown, { type, path, present }: Place): void {
  if (!Array.isArray(value)) {
    report(walk, 'type', path);
    return;
  }
  const there = Array.isArray(present) ? byName(present) : undefined;
  value.forEach((item, index) => {
    const before = there !== undefined && isRecord(item) ? there.get(item['name']) : undefined;
    check(walk, item, { type, path: `${path}[${index}]`, present: before, inList: true });
  });
}

function checkMap(walk: Walk, value: unknown, { type, path, present, inList }: Place): void {
  if (!isRecord(value)) {
    report(walk, 'type', path);
    return;
  }
  for (const key of Object.keys(value)) {
    const inside = { type, path: `${path}[${key}]`, present: own(present, key), inList };
    checkOptional(walk, value[key], inside);
  }
}

function checkFields(
  walk: Walk,
  value: unknown,
  fields: Readonly<Record<string, string>>,
  place: Place,
): void {
  const { path, present, inList } = place;
  if (!isRecord(value)) {
    report(walk, 'type', path);
    return;
  }
  for (const field of Object.keys(value)) {
    const type = Object.hasOwn(fields, field) ? fields[field] : undefined;
    const inside = { type: type ?? '', path: `${path}.${field}`, present: own(present, field), inList };
    if (type !== undefined) checkOptional(walk, value[field], inside);
    else if (walk.options.anyField !== true && !isThere(value[field], inside.present))
      report(walk, 'unknown', inside.path);
  }
}

/** Of a field or a key, which may be there without a value. */
function checkOptional(walk: Walk, value: unknown, place: Place): void {
  if (value === undefined) return;
  if (value !== null) {
    check(walk, value, place);
    return;
  }
  const { isPatch, nullScalars } = walk.options;
  if (isPatch === true && !place.inList) return;
  if (nullScalars === true && scalars.has(place.type)) return;
  report(walk, 'null', place.path);
}

const scalars: ReadonlySet<string> = new Set([
  'string',
  'boolean',
  'number',
  'integer',
  'intOrString',
  'quantity',
]);

function isScalar(value: unknown, type: string): boolean {
  switch (type) {
    case 'string':
    case 'boolean':
    case 'number':
      return typeof value === type;
    case 'integer':
      return Number.isSafeInteger(value);
    case 'intOrString':
      return typeof value === 'string' || Number.isSafeInteger(value);
    case 'quantity':
      return typeof value === 'string' || typeof value === 'number';
    default:
      return type === 'any';
  }
}

function isThere(value: unknown, present: unknown): boolean {
  return present !== undefined && deepEqual(value, present);
}

function byName(list: readonly unknown[]): Map<unknown, unknown> {
  return new Map(list.flatMap((item) => (isRecord(item) ? [[item['name'], item] as const] : [])));
}

function own(value: unknown, key: string): unknown {
  return isRecord(value) && Object.hasOwn(value, key) ? value[key] : undefined;
}

function report(walk: Walk, is: ShapeProblem['is'], path: string): void {
  if (walk.problems.length < mostProblems) walk.problems.push({ is, path: printable(path, longestPath) });
}
