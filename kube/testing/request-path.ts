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
