import type { PodList, PodReport, Quantiles, SpanReport, Whose } from '../../api/pod-report.ts';
import type { PodTraces } from './pod-traces.ts';
import {
  type PodSpan,
  type PodStep,
  podSpans,
  podSteps,
  type StepTimes,
  spanStart,
  type Trace,
} from './trace.ts';

type PodFacts = Pick<PodReport, 'tenant' | 'namespace' | 'name' | 'uid' | 'node' | 'createdAt' | 'seenAt'>;

/** @param nowMs since `seen` */
export function podReport(facts: PodFacts, times: StepTimes, nowMs: number): PodReport {
  const told = times.at('told');
  const deleted = times.at('deleted');
  const totalMs = roundedMs(told ?? deleted ?? nowMs);
  const state = told !== undefined ? 'ready' : deleted === undefined ? 'pending' : 'deleted';
  const steps = podSteps
    .flatMap((name) => {
      const at = times.at(name);
      return at === undefined ? [] : [{ name, atMs: roundedMs(at) }];
    })
    .toSorted((a, b) => a.atMs - b.atMs);
  const waitsFor = state === 'pending' ? waiting(times, nowMs) : undefined;
  return {
    ...facts,
    state,
    totalMs,
    shares: sharesOf(times, totalMs),
    steps,
    spans: podSpans.flatMap((span) => spanReport(span, times)),
    ...(waitsFor === undefined ? {} : { waitsFor }),
  };
}

/**
 * Who took how much of the whole. The scheduler has S from when it is there, kubelet from when S has a node and
 * its tokens; everything else is Skerry's.
 */
function sharesOf(times: StepTimes, totalMs: number): Record<Whose, number> {
  const share = (name: string): number => {
    const span = podSpans.find((each) => each.name === name) as PodSpan;
    const end = Math.min(times.at(span.to) ?? totalMs, totalMs);
    const start = spanStart(span, times, end);
    return start === undefined ? 0 : roundedMs(end - start);
  };
  const scheduler = share('schedule');
  const kubelet = share('start');
  return { skerry: roundedMs(Math.max(0, totalMs - scheduler - kubelet)), scheduler, kubelet };
}

function spanReport(span: PodSpan, times: StepTimes): SpanReport[] {
  const end = times.at(span.to);
  const start = end === undefined ? undefined : spanStart(span, times, end);
  if (end === undefined || start === undefined) return [];
  return [{ name: span.name, whose: span.whose, atMs: roundedMs(start), tookMs: roundedMs(end - start) }];
}

/** The first span that has begun and not ended. */
function waiting(times: StepTimes, nowMs: number): PodReport['waitsFor'] {
  for (const span of podSpans) {
    if (span.isOptional === true || times.at(span.to) !== undefined) continue;
    const start = spanStart(span, times, nowMs);
    if (start !== undefined) return { name: span.name, whose: span.whose, sinceMs: roundedMs(nowMs - start) };
  }
  return undefined;
}

/** A hundredth of a millisecond is more than the clock of an event loop is good for. */
function roundedMs(ms: number): number {
  return Math.round(ms * 100) / 100;
}

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

const width = podSteps.length;
const columns = new Map(podSteps.map((step, column) => [step, column]));

/**
 * The times of many pods' steps in one block of memory, a row for each pod: noting a step makes no garbage, and
 * rows that were never used cost nothing.
 */
export class StepTable {
  readonly #limit: number;
  /** Milliseconds; NaN: not yet. */
  readonly #times: Float32Array;
  readonly #free: number[] = [];
  #opened = 0;

  constructor(limit: number) {
    if (!(Number.isInteger(limit) && limit > 0))
      throw new RangeError(`limit is ${limit}; give a whole number of pods, 1 or more`);
    this.#limit = limit;
    this.#times = new Float32Array(limit * width);
  }

  get isFull(): boolean {
    return this.#free.length === 0 && this.#opened === this.#limit;
  }

  /** An empty row. Throws when there is none left. */
  open(): number {
    if (this.isFull) throw new RangeError('all rows are in use; close one first');
    const row = this.#free.pop() ?? this.#opened++;
    this.#times.fill(Number.NaN, row * width, (row + 1) * width);
    return row;
  }

  close(row: number): void {
    this.#free.push(row);
  }

  get(row: number, step: PodStep): number | undefined {
    const at = this.#times[row * width + (columns.get(step) as number)] as number;
    return Number.isNaN(at) ? undefined : at;
  }

  set(row: number, step: PodStep, ms: number): void {
    this.#times[row * width + (columns.get(step) as number)] = ms;
  }
}

interface DebugAnswer {
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
