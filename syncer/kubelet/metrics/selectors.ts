import type { KubeObject } from '../../../kube/index.ts';

export type Selector = (object: KubeObject) => boolean;

/** What is wrong with a selector, for a 400. */
export class SelectorError extends Error {}

/** A label selector as it stands in a query, as a predicate. Throws SelectorError. */
export function labelSelector(text: string): Selector {
  const terms = split(text).map(labelTerm);
  return (object) => terms.every((term) => term(object.metadata.labels ?? {}));
}

/** A field selector; of fields only the name and the namespace can be had. Throws SelectorError. */
export function fieldSelector(text: string): Selector {
  const terms = split(text).map((term) => {
    const match = /^metadata\.(name|namespace)\s*(!=|==|=)\s*(\S*)$/.exec(term);
    if (match === null) throw new SelectorError(`field selector "${term}" is not supported`);
    const [, field, operator, value] = match;
    return ({ metadata }: KubeObject) =>
      ((field === 'name' ? metadata.name : metadata.namespace) === value) !== (operator === '!=');
  });
  return (object) => terms.every((term) => term(object));
}

type LabelTerm = (labels: Record<string, string>) => boolean;

const key = '[A-Za-z0-9][-A-Za-z0-9_./]*';
const setTerm = new RegExp(`^(${key})\\s+(in|notin)\\s*\\(([^()]*)\\)$`);
const equalTerm = new RegExp(`^(${key})\\s*(!=|==|=)\\s*([-A-Za-z0-9_.]*)$`);
const orderTerm = new RegExp(`^(${key})\\s*([<>])\\s*(-?[0-9]+)$`);
const presenceTerm = new RegExp(`^(!?)\\s*(${key})$`);

function labelTerm(term: string): LabelTerm {
  const set = setTerm.exec(term);
  if (set !== null) {
    const [, name = '', operator, list = ''] = set;
    const values = new Set(list.split(',').map((value) => value.trim()));
    return (labels) => {
      const value = own(labels, name);
      return (value !== undefined && values.has(value)) === (operator === 'in');
    };
  }
  const equal = equalTerm.exec(term);
  if (equal !== null) {
    const [, name = '', operator, value] = equal;
    return (labels) => (own(labels, name) === value) !== (operator === '!=');
  }
  const order = orderTerm.exec(term);
  if (order !== null) {
    const [, name = '', operator, bound] = order;
    return (labels) => {
      const value = own(labels, name);
      if (value === undefined || !/^-?[0-9]+$/.test(value)) return false;
      return operator === '>' ? Number(value) > Number(bound) : Number(value) < Number(bound);
    };
  }
  const presence = presenceTerm.exec(term);
  if (presence === null) throw new SelectorError(`unable to parse requirement: "${term}"`);
  const [, not, name = ''] = presence;
  return (labels) => (own(labels, name) !== undefined) === (not === '');
}

function own(labels: Record<string, string>, name: string): string | undefined {
  return Object.hasOwn(labels, name) ? labels[name] : undefined;
}

/** At commas outside of parentheses. */
function split(text: string): string[] {
  return text
    .split(/,(?![^(]*\))/)
    .map((term) => term.trim())
    .filter((term) => term !== '');
}
