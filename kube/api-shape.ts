import { deepEqual } from 'fast-equals';
import { apiTypes } from './api-types.ts';
import { printable } from './errors.ts';
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
const maxProblems = 8;
/** A pod of 1.5 MiB has some 100,000 values. */
const maxValues = 500_000;
/** Of one list, unless its items are texts or numbers. The longest of honest pods name the files of a ConfigMap. */
const maxItems = 10_000;
const longestPath = 200;

interface Walk {
  readonly problems: ShapeProblem[];
  readonly options: ShapeOptions;
  /** Steps to the value that is looked at, below that of the options: fields, `[index]` and `[key]`. */
  readonly steps: string[];
  values: number;
}

/**
 * Compares a value with a type of the table (`PodSpec`). Never throws, whatever JSON it is given, and goes no deeper than
 * the table. Runs for every object that a tenant's server sends: kept cheap.
 */
export function shapeProblems(value: unknown, type: string, options: ShapeOptions): ShapeProblem[] {
  const walk: Walk = { problems: [], options, steps: [], values: 0 };
  check(walk, value, type, options.present, false);
  return walk.problems;
}

function check(walk: Walk, value: unknown, type: string, present: unknown, inList: boolean): void {
  if (walk.problems.length >= maxProblems) return;
  walk.values += 1;
  if (walk.values > maxValues) {
    if (walk.values === maxValues + 1) report(walk, 'size');
    return;
  }
  if (isThere(value, present)) return;
  if (type.startsWith('[]')) checkList(walk, value, type.slice(2), present);
  else if (type.startsWith('{}')) checkMap(walk, value, type.slice(2), present, inList);
  else if (apiTypes[type] !== undefined) checkFields(walk, value, apiTypes[type], present, inList);
  else if (type !== 'any' && scalars[type]?.(value) !== true) report(walk, 'type');
}

function checkList(walk: Walk, value: unknown, type: string, present: unknown): void {
  if (!Array.isArray(value)) {
    report(walk, 'type');
    return;
  }
  if (value.length > maxItems && apiTypes[type] !== undefined) {
    report(walk, 'size');
    return;
  }
  const there = Array.isArray(present) ? byName(present) : undefined;
  for (let index = 0; index < value.length; index++) {
    const item: unknown = value[index];
    const before = there !== undefined && isRecord(item) ? there.get(item['name']) : undefined;
    walk.steps.push(`[${index}]`);
    check(walk, item, type, before, true);
    walk.steps.pop();
  }
}

function checkMap(walk: Walk, value: unknown, type: string, present: unknown, inList: boolean): void {
  if (!isRecord(value)) {
    report(walk, 'type');
    return;
  }
  for (const key of Object.keys(value)) {
    walk.steps.push(`[${key}]`);
    checkOptional(walk, value[key], type, own(present, key), inList);
    walk.steps.pop();
  }
}

function checkFields(
  walk: Walk,
  value: unknown,
  fields: Readonly<Record<string, string>>,
  present: unknown,
  inList: boolean,
): void {
  if (!isRecord(value)) {
    report(walk, 'type');
    return;
  }
  for (const field of Object.keys(value)) {
    const type = Object.hasOwn(fields, field) ? fields[field] : undefined;
    const before = present === undefined ? undefined : own(present, field);
    walk.steps.push(field);
    if (type !== undefined) checkOptional(walk, value[field], type, before, inList);
    else if (walk.options.anyField !== true && !isThere(value[field], before)) report(walk, 'unknown');
    walk.steps.pop();
  }
}

/** Of a field or a key, which may be there without a value. */
function checkOptional(walk: Walk, value: unknown, type: string, present: unknown, inList: boolean): void {
  if (value === undefined) return;
  if (value !== null) {
    check(walk, value, type, present, inList);
    return;
  }
  const { isPatch, nullScalars } = walk.options;
  if (isPatch === true && !inList) return;
  if (nullScalars === true && scalars[type] !== undefined) return;
  report(walk, 'null');
}

const scalars: Readonly<Record<string, (value: unknown) => boolean>> = {
  string: (value) => typeof value === 'string',
  boolean: (value) => typeof value === 'boolean',
  number: (value) => typeof value === 'number',
  integer: Number.isSafeInteger,
  intOrString: (value) => typeof value === 'string' || Number.isSafeInteger(value),
  quantity: (value) => typeof value === 'string' || typeof value === 'number',
};

function isThere(value: unknown, present: unknown): boolean {
  return present !== undefined && deepEqual(value, present);
}

function byName(list: readonly unknown[]): Map<unknown, unknown> {
  return new Map(list.flatMap((item) => (isRecord(item) ? [[item['name'], item] as const] : [])));
}

function own(value: unknown, key: string): unknown {
  return isRecord(value) && Object.hasOwn(value, key) ? value[key] : undefined;
}

function report({ problems, options, steps }: Walk, is: ShapeProblem['is']): void {
  if (problems.length >= maxProblems) return;
  const path = steps.reduce(
    (before, step) => before + (step.startsWith('[') ? step : `.${step}`),
    options.path,
  );
  problems.push({ is, path: printable(path, longestPath) });
}
