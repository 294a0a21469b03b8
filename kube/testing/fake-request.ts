import type { Status, StatusCause } from '../errors.ts';
import type { KubeObject } from '../types.ts';

/** Thrown by a fake's handler: becomes the Status that the client gets. */
export class Refusal extends Error {
  readonly status: Status & { code: number };

  constructor(
    code: number,
    reason: string,
    message: string,
    details: { kind?: string; causes?: StatusCause[]; retryAfterSeconds?: number } = {},
  ) {
    super(message);
    this.status = {
      kind: 'Status',
      apiVersion: 'v1',
      metadata: {},
      status: 'Failure',
      message,
      reason,
      code,
      ...(Object.keys(details).length === 0 ? {} : { details }),
    };
  }
}

export const refusals = {
  /** `kind`: plural of what is not there. */
  notFound: (what: string, kind?: string): Refusal =>
    new Refusal(404, 'NotFound', `${what} not found`, kind === undefined ? {} : { kind }),
  alreadyExists: (what: string): Refusal => new Refusal(409, 'AlreadyExists', `${what} already exists`),
  conflict: (what: string): Refusal =>
    new Refusal(409, 'Conflict', `Operation cannot be fulfilled on ${what}: the object has been modified`),
  invalid: (message: string): Refusal => new Refusal(422, 'Invalid', message),
  badRequest: (message: string): Refusal => new Refusal(400, 'BadRequest', message),
  expired: (): Refusal => new Refusal(410, 'Expired', 'too old resource version'),
  tooLarge: (asked: number, current: number): Refusal =>
    new Refusal(504, 'Timeout', `Too large resource version: ${asked}, current: ${current}`, {
      causes: [{ reason: 'ResourceVersionTooLarge', message: 'Too large resource version' }],
      retryAfterSeconds: 1,
    }),
};

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
    // What API servers call `source` of an event.
    for (const field of (path === 'source' ? 'source.component' : path).split('.')) {
      found =
        typeof found === 'object' && found !== null ? (found as Record<string, unknown>)[field] : undefined;
    }
    return (String(found ?? '') === value) !== (operator === '!=');
  };
}

/** What a request is about, read from its URL. */
export interface RequestInfo {
  readonly method: string;
  readonly verb: 'get' | 'list' | 'watch' | 'create' | 'update' | 'patch' | 'delete' | 'other';
  /** `group/version/plural` with an empty group for core: the name of a collection. */
  readonly collection: string;
  readonly plural: string;
  readonly apiVersion: string;
  readonly namespace: string | undefined;
  readonly name: string | undefined;
  readonly subresource: string | undefined;
  readonly query: URLSearchParams;
  readonly path: string;
  /** The client asks for the metadata of objects alone. */
  readonly metadataOnly?: boolean;
}

/** An object as it is answered to one who asks for metadata alone. */
export function partial({ metadata }: KubeObject): KubeObject {
  return { apiVersion: 'meta.k8s.io/v1', kind: 'PartialObjectMetadata', metadata };
}

export function parseRequest(method: string, url: string): RequestInfo {
  const { pathname, searchParams } = new URL(url, 'http://localhost');
  const segments = pathname.split('/').filter(Boolean).map(decodeURIComponent);
  const root = segments.shift();
  const group = root === 'apis' ? (segments.shift() ?? '') : '';
  const version = segments.shift() ?? '';
  let namespace: string | undefined;
  // /namespaces/x/pods is about pods, /namespaces/x and /namespaces/x/status about the namespace.
  if (
    segments[0] === 'namespaces' &&
    segments.length > 2 &&
    !['status', 'finalize'].includes(segments[2] ?? '')
  ) {
    namespace = segments[1];
    segments.splice(0, 2);
  }
  const [plural = '', name, subresource] = segments;
  const isResource = (root === 'api' || root === 'apis') && plural !== '';
  return {
    method,
    verb: isResource ? verbOf(method, name, searchParams) : 'other',
    collection: `${group}/${version}/${plural}`,
    plural,
    apiVersion: group === '' ? version : `${group}/${version}`,
    namespace,
    name,
    subresource,
    query: searchParams,
    path: pathname,
  };
}

function verbOf(method: string, name: string | undefined, query: URLSearchParams): RequestInfo['verb'] {
  switch (method) {
    case 'GET':
      if (name !== undefined) return 'get';
      return ['1', 'true'].includes(query.get('watch') ?? '') ? 'watch' : 'list';
    case 'POST':
      return 'create';
    case 'PUT':
      return 'update';
    case 'PATCH':
      return 'patch';
    case 'DELETE':
      return 'delete';
    default:
      return 'other';
  }
}
