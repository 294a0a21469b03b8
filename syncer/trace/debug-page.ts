import { podList } from './pod-list.ts';
import type { PodTraces } from './pod-traces.ts';

export interface DebugAnswer {
  status: number;
  body: object;
}

const mostListed = 1_000;
const listedByDefault = 20;

/**
 * What `/debug/pods` answers: `?tenant=NAMESPACE/NAME&namespace=..&name=..` the way of one pod, without `name` the
 * slowest pods (`&slowest=N`) of that tenant, or of all, and how long each span takes.
 */
export function podsPage(traces: PodTraces, query: URLSearchParams): DebugAnswer {
  const tenant = query.get('tenant') ?? undefined;
  const namespace = query.get('namespace') ?? undefined;
  const name = query.get('name') ?? undefined;
  if (tenant !== undefined && !traces.tenants.includes(tenant))
    return refusal(404, 'UnknownTenant', `this syncer does not serve ${tenant}`);
  if (name === undefined) {
    const most = Number(query.get('slowest') ?? listedByDefault);
    if (!(Number.isInteger(most) && most >= 1 && most <= mostListed))
      return refusal(400, 'BadRequest', `slowest: give a whole number from 1 to ${mostListed}`);
    return { status: 200, body: podList(traces, { tenant, namespace, most }) };
  }
  if (tenant === undefined || namespace === undefined)
    return refusal(400, 'BadRequest', 'name: give tenant=NAMESPACE/NAME and namespace=.. with it');
  for (const trace of traces.of(tenant)) {
    if (trace.namespace === namespace && trace.name === name) return { status: 200, body: trace.report() };
  }
  return refusal(404, 'UnknownPod', 'this pod was there before this syncer, or it is too long ago');
}

function refusal(status: number, reason: string, message: string): DebugAnswer {
  return { status, body: { reason, message } };
}
