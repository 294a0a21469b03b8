import type { KubeObject } from '../types.ts';

export type Selector = (object: KubeObject) => boolean;

/** Both selectors of a request, as a predicate. Throws for syntax that this fake does not know. */
export function selector(labels: string | null, fields: string | null): Selector {
  const terms = [...split(labels ?? '').map(labelTerm), ...split(fields ?? '').map(fieldTerm)];
  return (object) => terms.every((term) => term(object));
}

/** Splits at commas outside of parentheses. */
function split(text: string): string[] {
  return text
    .split(/,(?![^(]*\))/)
    .map((term) => term.trim())
    .filter((term) => term !== '');
}

function labelTerm(term: string): Selector {
  const set = /^(\S+)\s+(in|notin)\s+\(([^)]*)\)$/.exec(term);
  if (set) {
    const [, key = '', operator, list = ''] = set;
    const values = list.split(',').map((value) => value.trim());
    return ({ metadata }) => {
      const value = metadata.labels?.[key];
      const inside = value !== undefined && values.includes(value);
      return operator === 'in' ? inside : !inside;
    };
  }
  const comparison = /^([^=!\s]+)\s*(!=|==|=)\s*(.*)$/.exec(term);
  if (comparison) {
    const [, key = '', operator, value] = comparison;
    return ({ metadata }) => (metadata.labels?.[key] === value) !== (operator === '!=');
  }
  if (term.startsWith('!')) return ({ metadata }) => metadata.labels?.[term.slice(1)] === undefined;
  return ({ metadata }) => metadata.labels?.[term] !== undefined;
}

function fieldTerm(term: string): Selector {
  const [, path = '', operator, value = ''] = /^([^=!]+)(!=|==|=)(.*)$/.exec(term) ?? [];
  if (operator === undefined) throw new SyntaxError(`field selector "${term}"`);
  return (object) => {
    let found: unknown = object;
    for (const field of path.split('.')) {
      found =
        typeof found === 'object' && found !== null ? (found as Record<string, unknown>)[field] : undefined;
    }
    return (String(found ?? '') === value) !== (operator === '!=');
  };
}
