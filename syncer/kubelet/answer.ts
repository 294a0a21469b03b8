/** What a tenant's API server asked its supposed kubelet for. */
export interface KubeletRequest {
  readonly verb: 'logs' | 'exec' | 'attach' | 'port-forward' | 'other';
  readonly pod?: string;
}

/** Reads the path of a kubelet's API, e.g. `/containerLogs/<namespace>/<pod>/<container>`. */
export function parseKubeletPath(url: string): KubeletRequest {
  const [verb, , pod] = url.split('?')[0]?.split('/').slice(1) ?? [];
  const verbs = { containerLogs: 'logs', exec: 'exec', run: 'exec', attach: 'attach', portForward: 'port-forward' } as const;
  if (verb !== undefined && verb in verbs && pod !== undefined && pod !== '') {
    return { verb: verbs[verb as keyof typeof verbs], pod: decodeURIComponent(pod) };
  }
  return { verb: 'other' };
}

/** One sentence for the person at kubectl. */
export function unavailable(request: KubeletRequest, nodesAreSimulated: boolean): string {
  const what = request.verb === 'other' ? 'this request' : request.verb;
  const whose = request.pod === undefined ? '' : ` for pod ${request.pod}`;
  return nodesAreSimulated
    ? `${what} is not available${whose}: its node is simulated and runs no containers`
    : `${what} is not available${whose}: this version of Skerry does not reach the containers of a tenant's pods`;
}
