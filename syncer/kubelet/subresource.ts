import type { ObjectRef } from '../../kube/index.ts';
import type { PodRequest } from './request-path.ts';

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

/** Path and query of the pod's subresource that does what a kubelet is asked for, in the API of the super cluster. */
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
  for (const port of query.getAll('port').flatMap((list) => list.split(',')))
    if (port !== '') wanted.append('ports', port);
}

/** A command without input whose output is wanted as a whole. */
function run(query: URLSearchParams, wanted: URLSearchParams): void {
  for (const word of (query.get('cmd') ?? '').split(' ')) wanted.append('command', word);
  wanted.set('stdin', 'false');
  wanted.set('stdout', 'true');
  wanted.set('stderr', 'true');
  wanted.set('tty', 'false');
}
