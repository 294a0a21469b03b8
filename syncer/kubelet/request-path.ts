import type { ObjectRef } from '../../kube/index.ts';
import { tooMany } from './refusal.ts';

/** What can be asked of one pod, in the words in which people know it. */
type PodVerb = 'logs' | 'exec' | 'attach' | 'port-forward' | 'run';

/** One request to a kubelet about one pod, in the tenant's names. */
export interface PodRequest {
  readonly verb: PodVerb;
  readonly namespace: string;
  readonly pod: string;
  /** UID that the pod must have, where the path names one. */
  readonly uid?: string;
  /** Absent only for port-forward. */
  readonly container?: string;
  readonly query: URLSearchParams;
}

/** What a request to a kubelet asks for. */
export type KubeletRequest =
  | { readonly about: 'pod'; readonly pod: PodRequest }
  | { readonly about: 'health' }
  /** The aggregated API of metrics, or its discovery. */
  | { readonly about: 'metrics-api'; readonly path: string; readonly query: URLSearchParams }
  /** What a kubelet tells of all pods of its node. */
  | { readonly about: 'node-pods'; readonly what: 'pods' | 'summary' }
  /** Something else that concerns a whole node. `path`: its first segment. */
  | { readonly about: 'node'; readonly path: string }
  | { readonly about: 'unknown'; readonly path: string };

const verbs: Readonly<Record<string, PodVerb>> = {
  containerLogs: 'logs',
  exec: 'exec',
  attach: 'attach',
  portForward: 'port-forward',
  run: 'run',
};

const nodeWide: ReadonlySet<string> = new Set([
  'pods',
  'runningpods',
  'logs',
  'stats',
  'metrics',
  'spec',
  'configz',
  'flagz',
  'statusz',
  'debug',
  'checkpoint',
  'cri',
]);

/** In characters: several times a path that names a pod, with each of them encoded. */
const maxPathLength = 4_096;
/** Of a query, which is parsed in time that grows with the square of their number. */
const maxParameters = 4_096;
/** Of a query, each of which is decoded by itself: as many characters as Linux takes in one word of a command. */
const maxSpaces = 131_072;
/** That a command for `/run` is cut into. */
const maxWords = 4_096;
/** Of one port-forward. */
const maxPorts = 64;

/** Whether a request is for the aggregated API of metrics, as its path alone says. */
export function isMetricsApi(url: string): boolean {
  return /^\/(?:apis|openapi)(?:[/?]|$)/.test(url);
}

/**
 * Reads the path and query of a kubelet's API: of an authenticated client, which may send anything. Throws Refusal for
 * more parameters than are read, and nothing else.
 */
export function parseKubeletRequest(url: string): KubeletRequest {
  const [path, search] = splitOnce(url, '?');
  if (path.length > maxPathLength) return { about: 'unknown', path: shown(path) };
  const query = parseQuery(search);
  const segments = path.split('/').slice(1);
  const [first = ''] = segments;
  if (first === 'healthz') return { about: 'health' };
  if (isMetricsApi(path)) return { about: 'metrics-api', path, query };
  if (/^\/pods\/?$/.test(path)) return { about: 'node-pods', what: 'pods' };
  if (/^\/stats\/summary\/?$/.test(path)) return { about: 'node-pods', what: 'summary' };
  if (nodeWide.has(first)) return { about: 'node', path: `/${first}` };
  const verb = Object.hasOwn(verbs, first) ? verbs[first] : undefined;
  const pod = verb === undefined ? undefined : podRequest(verb, segments.slice(1), query);
  if (pod === undefined) return { about: 'unknown', path: shown(path) };
  return { about: 'pod', pod };
}

/**
 * The node that an API server was asked for, by the header in which it says what it was asked: a request for
 * `/api/v1/nodes/NAME:PORT/proxy/...` reaches the same address for every node.
 */
export function askedNode(forwardedUri: string | undefined): string | undefined {
  const name = /^\/api\/v1\/nodes\/([^/]{1,300})\/proxy\//.exec(forwardedUri ?? '')?.[1];
  const parts = name === undefined ? [] : (decode(name)?.split(':') ?? []);
  // `NAME`, `NAME:PORT` or `SCHEME:NAME:PORT`.
  const node = parts.length === 3 ? parts[1] : parts[0];
  return node !== undefined && parts.length <= 3 && namePattern.test(node) ? node : undefined;
}

/** `<namespace>/<pod>/<container>` or `<namespace>/<pod>/<uid>/<container>`; port-forward without containers. */
function podRequest(
  verb: PodVerb,
  encoded: readonly string[],
  query: URLSearchParams,
): PodRequest | undefined {
  const names = encoded.map(decode);
  if (!names.every((name) => name !== undefined && namePattern.test(name))) return undefined;
  const [namespace = '', pod = '', ...rest] = names as string[];
  if (verb === 'port-forward') {
    const [uid] = rest;
    if (encoded.length < 2 || encoded.length > 3) return undefined;
    return { verb, namespace, pod, query, ...(uid === undefined ? {} : { uid }) };
  }
  // A kubelet knows no UID in the path of logs.
  if (encoded.length !== 3 && (encoded.length !== 4 || verb === 'logs')) return undefined;
  const [uid, container] = rest.length === 2 ? rest : [undefined, rest[0]];
  if (container === undefined) return undefined;
  return { verb, namespace, pod, container, query, ...(uid === undefined ? {} : { uid }) };
}

/** Names of namespaces, pods and containers, and UIDs: nothing else may reach a path of the super cluster. */
const namePattern = /^[a-z0-9]([-a-z0-9.]{0,251}[a-z0-9])?$/;

function decode(encoded: string): string | undefined {
  try {
    return decodeURIComponent(encoded);
  } catch {
    return undefined;
  }
}

function parseQuery(search: string): URLSearchParams {
  // Only counted here.
  splitUpTo(maxParameters, search, '&', 'parameters');
  splitUpTo(maxSpaces, search, '+', 'spaces');
  return new URLSearchParams(search);
}

function splitOnce(text: string, separator: string): [string, string] {
  const at = text.indexOf(separator);
  return at < 0 ? [text, ''] : [text.slice(0, at), text.slice(at + separator.length)];
}

/** For a message: short, and of characters that show. */
function shown(path: string): string {
  const text = path.slice(0, 65).replace(/[^\x21-\x7e]/g, '?');
  return text.length > 64 ? `${text.slice(0, 64)}...` : text;
}

/** Parameters of a kubelet's logs that a pod's `log` knows by the same name. */
const logParameters = [
  'follow',
  'previous',
  'sinceSeconds',
  'sinceTime',
  'timestamps',
  'tailLines',
  'limitBytes',
  'stream',
] as const;

/** How a kubelet and how a pod's subresources call the streams of a command. */
const streams = { input: 'stdin', output: 'stdout', error: 'stderr', tty: 'tty' } as const;

const subresources = {
  logs: 'log',
  exec: 'exec',
  run: 'exec',
  attach: 'attach',
  'port-forward': 'portforward',
} as const;

/**
 * Path and query of the pod's subresource that does what a kubelet is asked for, in the API of the super cluster. Throws
 * Refusal for more words or ports than are passed on.
 */
export function subresourcePath(request: PodRequest, target: Required<ObjectRef>): string {
  const { namespace, name } = target;
  const path = `/api/v1/namespaces/${encodeURIComponent(namespace ?? '')}/pods/${encodeURIComponent(name)}`;
  const query = parameters(request).toString();
  return `${path}/${subresources[request.verb]}${query === '' ? '' : `?${query}`}`;
}

function parameters({ verb, container, query }: PodRequest): URLSearchParams {
  const wanted = new URLSearchParams();
  if (container !== undefined) wanted.set('container', container);
  if (verb === 'logs') logs(query, wanted);
  else if (verb === 'port-forward') ports(query, wanted);
  else if (verb === 'run') run(query, wanted);
  else {
    if (verb === 'exec') for (const word of query.getAll('command')) wanted.append('command', word);
    // A kubelet takes "1" for yes and all else for no. Said in so many words, as an absent parameter may have
    // another default on the other side.
    for (const [there, here] of Object.entries(streams)) wanted.set(here, String(query.get(there) === '1'));
  }
  return wanted;
}

function logs(query: URLSearchParams, wanted: URLSearchParams): void {
  for (const name of logParameters) {
    const value = query.get(name);
    // What is the default anyway is refused by super clusters that cannot tell the streams apart.
    if (value === null || (name === 'stream' && value === 'All')) continue;
    wanted.set(name, value);
  }
  // The old name, which kubelets still take.
  const tail = query.get('tail');
  if (tail === null || tail === '') return;
  if (tail === 'all') wanted.delete('tailLines');
  else wanted.set('tailLines', tail);
}

/** A kubelet takes `port=80,443`, a pod's `portforward` one `ports` for each. */
function ports(query: URLSearchParams, wanted: URLSearchParams): void {
  const lists = query.getAll('port').join(',');
  for (const port of splitUpTo(maxPorts, lists, ',', 'ports')) if (port !== '') wanted.append('ports', port);
}

/** A command without input whose output is wanted as a whole. */
function run(query: URLSearchParams, wanted: URLSearchParams): void {
  const command = query.get('cmd') ?? '';
  for (const word of splitUpTo(maxWords, command, ' ', 'words of a command')) wanted.append('command', word);
  wanted.set('stdin', 'false');
  wanted.set('stdout', 'true');
  wanted.set('stderr', 'true');
  wanted.set('tty', 'false');
}

/** Throws Refusal for more parts than `most`, without making them all. */
function splitUpTo(most: number, text: string, separator: string, what: string): string[] {
  const parts = text.split(separator, most + 1);
  if (parts.length > most) throw tooMany(what, most);
  return parts;
}
