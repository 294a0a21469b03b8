/** What a tenant's API server asked its supposed kubelet for. */
export interface KubeletRequest {
  readonly verb: 'logs' | 'exec' | 'attach' | 'port-forward' | 'other';
  readonly pod?: string;
}

/** Reads the path of a kubelet's API, e.g. `/containerLogs/<namespace>/<pod>/<container>`. */
export function parseKubeletPath(url: string): KubeletRequest {
  const [verb, , pod] = url.split('?')[0]?.split('/').slice(1) ?? [];
  const name = text(pod);
  if (verb === undefined || !Object.hasOwn(verbs, verb) || name === undefined) return { verb: 'other' };
  return { verb: verbs[verb as keyof typeof verbs], pod: name };
}

const verbs = {
  containerLogs: 'logs',
  exec: 'exec',
  run: 'exec',
  attach: 'attach',
  portForward: 'port-forward',
} as const;

/** Whoever asks may send anything: what cannot be decoded is no name. */
function text(encoded: string | undefined): string | undefined {
  try {
    return decodeURIComponent(encoded ?? '') || undefined;
  } catch {
    return undefined;
  }
}

/** One sentence for the person at kubectl. */
export function unavailable(request: KubeletRequest, nodesAreSimulated: boolean): string {
  const what = request.verb === 'other' ? 'this request' : request.verb;
  const whose = request.pod === undefined ? '' : ` for pod ${request.pod}`;
  return nodesAreSimulated
    ? `${what} is not available${whose}: its node is simulated and runs no containers`
    : `${what} is not available${whose}: this version of Skerry does not reach the containers of a tenant's pods`;
}
