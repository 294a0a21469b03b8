import type { PodList, Quantiles } from '../../api/pod-report.ts';
import type { PodTraces } from './pod-traces.ts';
import { roundedMs } from './report.ts';
import { podSpans } from './steps.ts';
import type { Trace } from './trace.ts';

export interface PodListOptions {
  tenant?: string | undefined;
  namespace?: string | undefined;
  /** Pods to be listed. */
  most: number;
}

/** Pods that were deleted before they were ready are not counted. */
export function podList(traces: PodTraces, { tenant, namespace, most }: PodListOptions): PodList {
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
