import { labelKeys } from '../../api/labels.ts';
import { isRecord, type ShapeProblem } from '../../kube/index.ts';
import type { SyncContext } from '../context.ts';
import { isOwnKey } from '../mapping/labels.ts';
import { superNamespaceName } from '../mapping/names.ts';
import type { Admission, Notice } from './contract.ts';

export function warning(reason: string, message: string): Notice {
  return { type: 'Warning', reason, message };
}

/** The object does not go down. */
export function refused(reason: string, message: string): Admission {
  return { wanted: false, notice: warning(reason, message) };
}

/** The same, but what is in the super cluster stays. */
export function refusedButKept(reason: string, message: string): Admission {
  return { ...refused(reason, message), keep: true };
}

/** In words, by the first that counts most; undefined: there are none. */
export function shapeRefusal(problems: readonly ShapeProblem[]): Notice | undefined {
  const unknown = [...new Set(problems.filter(({ is }) => is === 'unknown').map(({ path }) => path))];
  if (unknown.length > 0)
    return warning(
      'UnknownField',
      `this cluster does not take the field ${unknown.join(', ')}: Skerry does not know it, so it is not sent; leave it out`,
    );
  const [first] = problems;
  if (first === undefined) return undefined;
  const what = {
    null: 'has no value',
    type: 'is not of the type that Kubernetes gives it',
    size: 'is too large',
  };
  return warning('InvalidField', `${first.path} ${what[first.is as keyof typeof what]}`);
}

/** Fields of an object or of a part of a patch that are never sent. */
export function unexpectedFields(
  value: unknown,
  path: string,
  expected: readonly string[],
): Notice | undefined {
  if (!isRecord(value)) return warning('InvalidField', `${path} is no object`);
  const other = Object.keys(value).filter((field) => !expected.includes(field));
  return shapeRefusal(
    other.map((field) => ({ is: 'unknown', path: path === '' ? field : `${path}.${field}` })),
  );
}

/** Which labels and annotations of a kind go down. */
export interface KeyRules {
  label(key: string): boolean;
  annotation(key: string): boolean;
}

const objectName = /^[a-z0-9]([-a-z0-9.]{0,251}[a-z0-9])?$/;
const labelValue = /^([A-Za-z0-9]([-A-Za-z0-9_.]{0,61}[A-Za-z0-9])?)?$/;

/** The object stands in a namespace of this tenant, carries its mark, and no key that is not allowed. */
export function validateCreatedMetadata(
  metadata: unknown,
  rules: KeyRules,
  { tenant }: SyncContext,
): Notice | undefined {
  const fields = unexpectedFields(metadata, 'metadata', ['name', 'namespace', 'labels', 'annotations']);
  if (fields !== undefined || !isRecord(metadata)) return fields;
  const { name, namespace, labels } = metadata;
  if (typeof name !== 'string' || !objectName.test(name))
    return warning('InvalidField', 'metadata.name is no name that Kubernetes takes');
  const marked = isRecord(labels) ? labels : {};
  const own = marked[labelKeys.namespace];
  const isOurs =
    marked[labelKeys.tenant] === tenant.uid &&
    typeof own === 'string' &&
    namespace === superNamespaceName(tenant, own);
  if (!isOurs) return warning('InvalidField', 'metadata.namespace is none of this tenant');
  return validateKeys(metadata, rules, false);
}

/** The labels and annotations of a patch; a null takes one away. */
export function validatePatchedMetadata(metadata: unknown, rules: KeyRules): Notice | undefined {
  return (
    unexpectedFields(metadata, 'metadata', ['labels', 'annotations']) ?? validateKeys(metadata, rules, true)
  );
}

function validateKeys(metadata: unknown, rules: KeyRules, isPatch: boolean): Notice | undefined {
  if (!isRecord(metadata)) return undefined;
  for (const [field, passes] of [
    ['labels', rules.label],
    ['annotations', rules.annotation],
  ] as const) {
    const keys = metadata[field];
    if (keys === undefined) continue;
    if (!isRecord(keys)) return warning('InvalidField', `metadata.${field} is no map`);
    for (const [key, value] of Object.entries(keys)) {
      if (value === null && isPatch) continue;
      const path = `metadata.${field}[${key}]`;
      if (typeof value !== 'string') return shapeRefusal([{ is: 'type', path }]);
      if (field === 'labels' && !labelValue.test(value))
        return warning('InvalidField', `${path} is no value that Kubernetes takes for a label`);
      if (!isOwnKey(key) && !passes(key))
        return warning('UnknownField', `${path} is none of the ${field} that go down`);
    }
  }
  return undefined;
}
