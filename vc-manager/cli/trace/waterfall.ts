import type { PodReport, Whose } from '../../../api/pod-report.ts';
import { table } from '../output/table.ts';
import { elapsed } from '../output/time.ts';
import { aboutSpan, whoseNames } from './report.ts';

const barWidth = 32;
const order: readonly Whose[] = ['skerry', 'scheduler', 'kubelet'];

/** How milliseconds are written: from a syncer to the tenth, from objects only seconds are known. */
export type Precision = 'milliseconds' | 'seconds';

/** The way of one pod, for people: facts, then a line for each span with a bar where it lies in the whole. */
export function waterfall(report: PodReport, precision: Precision): string {
  const facts = table(undefined, [
    ['Pod:', `${report.namespace}/${report.name}`],
    ['Tenant:', report.tenant],
    ['Node:', report.node ?? '-'],
    [precision === 'seconds' ? 'Created:' : 'Seen:', report.seenAt],
    [...outcome(report, precision)],
    ['Shares:', shares(report, precision)],
  ]);
  if (report.spans.length === 0) return facts;
  const at = aligned(report.spans.map(({ atMs }) => time(atMs, precision)));
  const took = aligned(report.spans.map(({ tookMs }) => time(tookMs, precision)));
  const rows = report.spans.map(({ name, whose, atMs, tookMs }, index) => [
    name,
    whoseNames[whose],
    at[index] ?? '',
    took[index] ?? '',
    bar(atMs, tookMs, report.totalMs),
    aboutSpan(name),
  ]);
  return `${facts}\n${table(['STEP', 'WHOSE', 'AT', 'TOOK', '', ''], rows)}`;
}

/** `3.4 ms`, `120 ms`, `3.2 s`; in seconds `3 s`. */
export function time(ms: number, precision: Precision = 'milliseconds'): string {
  if (precision === 'seconds' || ms >= 10_000)
    return precision === 'seconds' && ms < 120_000 ? `${Math.round(ms / 1_000)} s` : elapsed(ms);
  if (ms >= 1_000) return `${(ms / 1_000).toFixed(2)} s`;
  return ms >= 100 ? `${Math.round(ms)} ms` : `${ms.toFixed(1)} ms`;
}

/** `Skerry 14.2 ms (34 %), scheduler ...` */
function shares({ shares: of, totalMs }: PodReport, precision: Precision): string {
  const percent = (ms: number): number => (totalMs === 0 ? 0 : Math.round((ms / totalMs) * 100));
  return order
    .map((whose) => `${whoseNames[whose]} ${time(of[whose], precision)} (${percent(of[whose])} %)`)
    .join(', ');
}

function outcome({ state, totalMs, waitsFor }: PodReport, precision: Precision): [string, string] {
  if (state === 'ready') return ['Ready in:', time(totalMs, precision)];
  if (state === 'deleted') return ['Deleted after:', `${time(totalMs, precision)}, before it was ready`];
  const since = `since ${time(totalMs, precision)}`;
  if (waitsFor === undefined) return ['Not ready:', since];
  const { name, whose, sinceMs } = waitsFor;
  const what = `waits for ${whoseNames[whose]} (${name}: ${aboutSpan(name)}) since ${time(sinceMs, precision)}`;
  return ['Not ready:', `${since}; ${what}`];
}

function bar(atMs: number, tookMs: number, totalMs: number): string {
  const scale = totalMs === 0 ? 0 : barWidth / totalMs;
  const start = Math.min(barWidth - 1, Math.floor(atMs * scale));
  const length = Math.min(barWidth - start, Math.max(1, Math.round(tookMs * scale)));
  return `${' '.repeat(start)}${'█'.repeat(length)}`.padEnd(barWidth);
}

function aligned(texts: readonly string[]): string[] {
  const width = Math.max(...texts.map((text) => text.length));
  return texts.map((text) => text.padStart(width));
}
