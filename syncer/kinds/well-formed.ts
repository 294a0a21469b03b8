import { isRecord, type KubeObject, type ShapeProblem, shapeProblems } from '../../kube/index.ts';
import type { Admission } from './contract.ts';
import { refusedButKept } from './validation.ts';

/** What was wrong with an object as it came. No JSON has such a key. */
const malformed = Symbol('malformed');

type Marked = KubeObject & { [malformed]?: string };

/** The types of the sections that are looked into, by `kube/api-types.ts`. */
export interface Sections {
  readonly spec: string;
  readonly status: string;
}

/**
 * For `compact` in the tenant, whose server may send anything (docs/security.md): the object with fields of the types
 * that code relies on. A null counts as absent, as for any API server; a field of a wrong type is left out, and
 * `malformedAdmission` tells of it. Unknown fields stay. Gives back the object itself where all is well.
 */
export function wellFormed(sections: Sections): (object: KubeObject) => KubeObject {
  return (object) => {
    const problems: ShapeProblem[] = [];
    let result: Marked = object;
    for (const section of ['spec', 'status'] as const) {
      const value = object[section];
      if (value === undefined) continue;
      const fitting = fittingPart(value, sections[section], section, problems);
      if (fitting !== value) result = { ...result, [section]: fitting };
    }
    const [first] = problems;
    return first === undefined ? result : { ...result, [malformed]: first.path };
  };
}

/** Why an object is not to have a super object; one that is there stays. Undefined: it was well formed. */
export function malformedAdmission(object: KubeObject): Admission | undefined {
  const path = (object as Marked)[malformed];
  if (path === undefined) return undefined;
  return refusedButKept('InvalidField', `${path} is not of the type that Kubernetes gives it, or too large`);
}

function fittingPart(value: unknown, type: string, path: string, problems: ShapeProblem[]): unknown {
  // Servers write times that were never set as null; code that reads a status knows that.
  const found = (of: unknown): ShapeProblem[] =>
    shapeProblems(of, type, { path, anyField: true, nullScalars: path === 'status' });
  const before = found(value);
  if (before.length === 0) return value;
  const clean = withoutNulls(value);
  const after = found(clean);
  if (after.length === 0) return clean;
  problems.push(...after);
  if (!isRecord(clean)) return {};
  // Field by field: there is no end to what can be wrong with one.
  return Object.fromEntries(
    Object.entries(clean).filter(([field, inner]) => found({ [field]: inner }).length === 0),
  );
}

/** Depth is bounded where answers are read (`longestNesting`). */
function withoutNulls(value: unknown): unknown {
  if (Array.isArray(value)) return value.map(withoutNulls);
  if (!isRecord(value)) return value;
  return Object.fromEntries(
    Object.entries(value)
      .filter(([, inner]) => inner !== null)
      .map(([field, inner]) => [field, withoutNulls(inner)]),
  );
}
