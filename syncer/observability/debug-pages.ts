import type { DifferenceReport } from '../../api/difference-report.ts';
import type { PodList, Quantiles } from '../../api/pod-report.ts';
import type { PodTraces } from './pod-traces.ts';
import { podSpans, roundedMs, type Trace } from './trace.ts';

interface PodListOptions {
  tenant?: string | undefined;
  namespace?: string | undefined;
  /** Pods to be listed. */
  most: number;
}

/** Pods that were deleted before they were ready are not counted. */
function podList(traces: PodTraces, { tenant, namespace, most }: PodListOptions): PodList {
  const known: { trace: Trace; totalMs: number }[] = [];
  for (const trace of traces.of(tenant)) {
    if (namespace !== undefined && trace.namespace !== namespace) continue;
    if (!trace.has('deleted')) known.push({ trace, totalMs: trace.totalMs });
  }
  const ready = known.filter(({ trace }) => trace.has('told'));
  const spans = podSpans.flatMap((span) => {
    const took = ready.flatMap(({ trace }) => trace.tookMs(span) ?? []);
    const { name, whose } = span;
    return took.length === 0 ? [] : [{ name, whose, pods: took.length, ...quantiles(took) }];
  });
  return {
    ...(tenant === undefined ? {} : { tenant }),
    known: known.length,
    ready: ready.length,
    ...(ready.length === 0 ? {} : { total: quantiles(ready.map(({ totalMs }) => totalMs)) }),
    spans,
    pods: known
      .toSorted((a, b) => b.totalMs - a.totalMs)
      .slice(0, most)
      .map(({ trace }) => trace.report()),
  };
}

function quantiles(values: number[]): Quantiles {
  const sorted = values.toSorted((a, b) => a - b);
  const at = (share: number): number => roundedMs(sorted[Math.ceil(share * sorted.length) - 1] ?? 0);
  return { p50Ms: at(0.5), p99Ms: at(0.99) };
}

interface DebugAnswer {
  status: number;
  body: object;
}

const maxPods = 1_000;
const podsByDefault = 20;

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
    const most = Number(query.get('slowest') ?? podsByDefault);
    if (!(Number.isInteger(most) && most >= 1 && most <= maxPods))
      return refusal(400, 'BadRequest', `slowest: give a whole number from 1 to ${maxPods}`);
    return { status: 200, body: podList(traces, { tenant, namespace, most }) };
  }
  if (tenant === undefined || namespace === undefined)
    return refusal(400, 'BadRequest', 'name: give tenant=NAMESPACE/NAME and namespace=.. with it');
  for (const trace of traces.of(tenant)) {
    if (trace.namespace === namespace && trace.name === name) return { status: 200, body: trace.report() };
  }
  return refusal(
    404,
    'UnknownPod',
    'this pod was there before this syncer took the tenant up, or it is too long ago',
  );
}

const differencesByDefault = 200;
const maxDifferences = 2_000;

/**
 * What `/debug/differences` answers: `?tenant=NAMESPACE/NAME&most=N`, how the two sides of that tenant differ, and why.
 * `differencesOf`: undefined for a tenant that is not served here.
 */
export async function differencesPage(
  differencesOf: (tenant: string, most: number) => Promise<DifferenceReport | undefined>,
  query: URLSearchParams,
): Promise<DebugAnswer> {
  const tenant = query.get('tenant');
  const most = Number(query.get('most') ?? differencesByDefault);
  if (tenant === null) return refusal(400, 'BadRequest', 'give tenant=NAMESPACE/NAME');
  if (!(Number.isInteger(most) && most >= 1 && most <= maxDifferences))
    return refusal(400, 'BadRequest', `most: give a whole number from 1 to ${maxDifferences}`);
  const body = await differencesOf(tenant, most);
  return body === undefined
    ? refusal(404, 'UnknownTenant', `this syncer does not serve ${tenant}`)
    : { status: 200, body };
}

function refusal(status: number, reason: string, message: string): DebugAnswer {
  return { status, body: { reason, message } };
}
