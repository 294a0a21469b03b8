import type { Cell, Table } from './markdown.ts';
import { ratio } from './statistics.ts';

/** What the syncer has done so far, or within some time: the sums that are in its metrics. */
export type SyncerWork = ReadonlyMap<string, number>;

const callCounter = 'skerry_syncer_api_calls_total';
const sums = ['skerry_syncer_queue_wait_seconds', 'skerry_syncer_service_seconds'];
const leastCalls = 0.02;

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

export interface CountedWork {
  work: SyncerWork;
  /** Pods or operations that it was done for. */
  count: number;
}

/** Calls for each unit, over all rounds together. Watches are not calls but come and go at their own time. */
export function callsPer(rounds: readonly CountedWork[]): number {
  const count = rounds.reduce((sum, round) => sum + round.count, 0);
  const calls = rounds.flatMap(({ work }) =>
    [...work].filter(([key]) => key.startsWith('call/') && !key.includes('/watch/')),
  );
  return ratio(
    calls.reduce((sum, [, each]) => sum + each, 0),
    count,
  );
}

/** Calls and reconciles for each pod, or whatever is counted, over all rounds together. */
export function syncerTable(scenario: string, rounds: readonly CountedWork[], unit: string): Table {
  const count = rounds.reduce((sum, round) => sum + round.count, 0);
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
      total(`${call}/ok`) / count,
      total(`${call}/refused`) / count,
    ])
    .filter(([, ok, refused]) => ok + refused >= leastCalls)
    .sort(([, a], [, b]) => b - a)
    .map(([call, ok, refused]): Cell[] => [call.split('/').slice(1).join(' '), ok, refused]);
  const all = rows.reduce((sum, [, ok, refused]) => sum + Number(ok) + Number(refused), 0);
  const [wait = '', service = ''] = sums;
  // What pods need beside themselves is looked at too, but says nothing about how often a pod is.
  const kind = unit === 'pod' ? 'pods' : '';
  const ofKinds = (metric: string): number =>
    [...new Set(rounds.flatMap(({ work }) => [...work.keys()]))]
      .filter((key) => key.startsWith(`${metric}/${kind}`))
      .reduce((sum, key) => sum + total(key), 0);
  const meanMs = (metric: string): number =>
    1000 * ratio(ofKinds(`${metric}_sum`), ofKinds(`${metric}_count`));
  const runs = ratio(ofKinds(`${service}_count`), count);
  return {
    title: `${scenario}: calls of the syncer per ${unit}`,
    columns: ['side, verb, resource', 'answered', 'refused'],
    rows: [...rows, ['**all of these**', all, undefined]],
    notes: [
      `${unit === 'pod' ? 'Pods were looked at' : 'The syncer looked at objects'} ${runs.toFixed(1)} times per ${unit}: ${meanMs(wait).toFixed(1)} ms in the queue and ${meanMs(service).toFixed(1)} ms of service on average.`,
    ],
  };
}
