import type { PodList, PodReport } from '../../../api/pod-report.ts';
import { table } from '../output/table.ts';
import { whoseNames } from './report.ts';
import { time } from './waterfall.ts';

/** The slowest pods, then what each span usually takes. Empty when no pod is known. */
export function slowestTable(list: PodList): string {
  if (list.known === 0) return '';
  const pods = list.pods.map((report) => [
    report.namespace,
    report.name,
    report.state === 'ready' ? time(report.totalMs) : `not yet (${time(report.totalMs)})`,
    time(report.shares.skerry),
    time(report.shares.scheduler),
    time(report.shares.kubelet),
    longest(report),
  ]);
  const header = ['NAMESPACE', 'POD', 'READY IN', 'SKERRY', 'SCHEDULER', 'KUBELET', 'LONGEST STEP'];
  return [table(header, pods), usual(list)].filter((part) => part !== '').join('\n');
}

function longest({ spans, waitsFor }: PodReport): string {
  const all = [...spans.map(({ name, tookMs }) => ({ name, ms: tookMs }))];
  if (waitsFor !== undefined) all.push({ name: waitsFor.name, ms: waitsFor.sinceMs });
  const most = all.reduce((a, b) => (b.ms > a.ms ? b : a), { name: '-', ms: -1 });
  return most.ms < 0 ? '-' : `${most.name} ${time(most.ms)}`;
}

function usual({ spans, total, ready }: PodList): string {
  if (total === undefined) return '';
  const rows = spans.map(({ name, whose, pods, p50Ms, p99Ms }) => [
    name,
    whoseNames[whose],
    String(pods),
    time(p50Ms),
    time(p99Ms),
  ]);
  rows.push(['all', '', String(ready), time(total.p50Ms), time(total.p99Ms)]);
  return table(['STEP', 'WHOSE', 'PODS', 'MEDIAN', '99TH PERCENTILE'], rows);
}
