import type { Cell, Table } from './markdown.ts';
import { ratio } from './statistics.ts';

/** What the syncer has done so far, or within some time: the sums that are in its metrics. */
export type SyncerWork = ReadonlyMap<string, number>;

const callCounter = 'skerry_syncer_api_calls_total';
const sums = ['skerry_syncer_queue_wait_seconds', 'skerry_syncer_service_seconds'];
const leastCallsPerPod = 0.02;

/**
 * From Prometheus' text: calls as `call/<side>/<verb>/<resource>/<ok|refused>`, times as
 * `<metric>_<sum|count>/<kind>`, both over all tenants and status codes.
 */
export function parseSyncerWork(text: string): SyncerWork {
  const work = new Map<string, number>();
  const add = (key: string, value: number): void => {
    work.set(key, (work.get(key) ?? 0) + value);
  };
  for (const [, name = '', labelText = '', value] of text.matchAll(/^(\w+)\{(.*)\} (\S+)$/gm)) {
    const labels = new Map([...labelText.matchAll(/(\w+)="([^"]*)"/g)].map(([, key, label]) => [key, label]));
    if (name === callCounter) {
      const outcome = labels.get('code')?.startsWith('2') ? 'ok' : 'refused';
      add(
        `call/${labels.get('side')}/${labels.get('verb')}/${labels.get('resource')}/${outcome}`,
        Number(value),
      );
    } else if (sums.some((sum) => name === `${sum}_sum` || name === `${sum}_count`)) {
      add(`${name}/${labels.get('kind')}`, Number(value));
    }
  }
  return work;
}

export function workBetween(before: SyncerWork, after: SyncerWork): SyncerWork {
  return new Map([...after].map(([key, value]) => [key, value - (before.get(key) ?? 0)]));
}

export interface WorkOfPods {
  work: SyncerWork;
  pods: number;
}

/** Calls and reconciles for each pod, over all rounds together. */
export function syncerTable(scenario: string, rounds: readonly WorkOfPods[]): Table {
  const pods = rounds.reduce((sum, round) => sum + round.pods, 0);
  const total = (key: string): number => rounds.reduce((sum, { work }) => sum + (work.get(key) ?? 0), 0);
  const calls = new Set(
    rounds.flatMap(({ work }) =>
      [...work.keys()].map((key) => /^(call\/.*)\/(?:ok|refused)$/.exec(key)?.[1] ?? ''),
    ),
  );
  calls.delete('');
  const rows = [...calls]
    .map((call): [string, number, number] => [
      call,
      total(`${call}/ok`) / pods,
      total(`${call}/refused`) / pods,
    ])
    .filter(([, ok, refused]) => ok + refused >= leastCallsPerPod)
    .sort(([, a], [, b]) => b - a)
    .map(([call, ok, refused]): Cell[] => [call.split('/').slice(1).join(' '), ok, refused]);
  const all = rows.reduce((sum, [, ok, refused]) => sum + Number(ok) + Number(refused), 0);
  const meanMs = (metric: string): number =>
    1000 * ratio(total(`${metric}_sum/pods`), total(`${metric}_count/pods`));
  const [wait = '', service = ''] = sums;
  return {
    title: `${scenario}: calls of the syncer per pod`,
    columns: ['side, verb, resource', 'answered', 'refused'],
    rows: [...rows, ['**all of these**', all, undefined]],
    notes: [
      `Pods were looked at ${(total(`${service}_count/pods`) / pods).toFixed(1)} times each: ${meanMs(wait).toFixed(1)} ms in the queue and ${meanMs(service).toFixed(1)} ms of service on average.`,
    ],
  };
}
