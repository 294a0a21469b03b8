import type { PodReport, SpanReport, Whose } from '../../api/pod-report.ts';
import { type PodSpan, podSpans, podSteps, type StepTimes, spanStart } from './steps.ts';

export type PodFacts = Pick<
  PodReport,
  'tenant' | 'namespace' | 'name' | 'uid' | 'node' | 'createdAt' | 'seenAt'
>;

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
export function sharesOf(times: StepTimes, totalMs: number): Record<Whose, number> {
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
export function roundedMs(ms: number): number {
  return Math.round(ms * 100) / 100;
}
