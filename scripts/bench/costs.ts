import { type Cell, renderCell, type Table } from './markdown.ts';
import { processGroups, type SyncerWork, syncerTimes, totalCpuSeconds, type Usage } from './measure.ts';
import { bySide, type Round } from './rounds.ts';
import { type Figure, figure } from './scenario.ts';
import { median, ratio, sum } from './statistics.ts';

/** A round's costs, and the number of pods or operations that they are divided by. */
type Cost = Pick<Round, 'usage' | 'count' | 'syncer'>;
type SyncerCost = Pick<Round, 'count'> & { syncer: SyncerWork };

/** Components that take less CPU than this per unit are not listed. */
const leastMs = 0.5;
const leastCalls = 0.02;

export const cpuColumns = ['all', ...processGroups, 'rest of the machine', 'load'] as const;

/** CPU of all, of the syncer and of the load generator, and calls of the syncer, per pod or operation. */
export function costFigures(rounds: readonly Round[], unit: string): Figure[] {
  return [...bySide(rounds)].flatMap(([side, ofSide]) => {
    const cpu = (what: string, seconds: (usage: Usage) => number | undefined): Figure[] =>
      figure(
        `${side}, CPU${what} per ${unit}`,
        'ms',
        ofSide.map(({ usage, count }) => ((seconds(usage) ?? Number.NaN) * 1000) / count),
      );
    const calls = withSyncer(ofSide).map((round) => callsPer([round]));
    return [
      ...cpu('', totalCpuSeconds),
      // On the super cluster alone the syncer has no part in it.
      ...(calls.length === 0 ? [] : cpu(' of the syncer', ({ cpuSeconds }) => cpuSeconds.syncer)),
      ...cpu(' of the load generator', ({ cpuSeconds }) => cpuSeconds.generator),
      ...figure(`${side}, calls of the syncer per ${unit}`, 'calls', calls),
    ];
  });
}

/** Where the time goes: CPU by group of processes, and what the syncer does, per pod or operation. */
export function costTables(scenario: string, rounds: readonly Round[], unit = 'pod'): Table[] {
  const sides = [...bySide(rounds)];
  const cpu: Table = {
    title: `${scenario}: CPU, ms per ${unit}`,
    columns: ['side', ...cpuColumns],
    rows: sides.map(([side, ofSide]) => [side, ...cpuMsPer(ofSide)]),
    notes: sides.map(([side, ofSide]) => {
      const components = componentMsPer(ofSide).map(([name, ms]) => `${name} ${renderCell(ms)}`);
      return `${side}: ${components.join(', ')}.`;
    }),
  };
  const calls = sides.flatMap(([side, ofSide]) => {
    const work = withSyncer(ofSide);
    return work.length === 0 ? [] : [syncerTable(`${scenario}, ${side}`, work, unit)];
  });
  return [cpu, ...calls];
}

/** CPU seconds by group of processes of some stretches of work, and the load of the machine. */
export function usageTable(title: string, rows: readonly (readonly [name: string, usage: Usage])[]): Table {
  return {
    title,
    columns: ['', 'elapsed, s', ...cpuColumns],
    rows: rows.map(([name, usage]): Cell[] => [name, usage.elapsedSeconds, ...cpuCells(usage)]),
  };
}

/** Medians over rounds, by column: milliseconds of CPU per pod or operation, and the load average. */
export function cpuMsPer(rounds: readonly Cost[]): Cell[] {
  return cpuColumns.map((column, index) =>
    median(
      rounds.flatMap(({ usage, count }) => {
        const cell = cpuCells(usage)[index];
        return cell === undefined ? [] : column === 'load' ? cell : (cell * 1000) / count;
      }),
    ),
  );
}

/** Seconds by column, and the load average. */
function cpuCells(usage: Usage): (number | undefined)[] {
  const groups = processGroups.map((group) => usage.cpuSeconds[group]);
  return [totalCpuSeconds(usage), ...groups, usage.othersSeconds, usage.load];
}

/** Medians over rounds: milliseconds of CPU of each component that matters, the largest first. */
export function componentMsPer(rounds: readonly Cost[]): [string, number][] {
  const names = new Set(rounds.flatMap(({ usage }) => Object.keys(usage.componentSeconds)));
  return [...names]
    .map((name): [string, number] => [
      name,
      median(rounds.map(({ usage, count }) => ((usage.componentSeconds[name] ?? 0) * 1000) / count)),
    ])
    .filter(([, ms]) => ms >= leastMs)
    .sort(([, a], [, b]) => b - a);
}

function withSyncer(rounds: readonly Cost[]): SyncerCost[] {
  return rounds.flatMap(({ syncer, count }) => (syncer === undefined ? [] : [{ syncer, count }]));
}

/** Calls per unit, over all rounds together. Watches are not counted: they start at their own times. */
export function callsPer(rounds: readonly SyncerCost[]): number {
  const calls = rounds.flatMap(({ syncer }) =>
    Object.entries(syncer).filter(([key]) => key.startsWith('call/') && !key.includes('/watch/')),
  );
  return ratio(sum(calls.map(([, count]) => count)), sum(rounds.map(({ count }) => count)));
}

/** Calls and reconciles per pod or operation, over all rounds together. */
export function syncerTable(scenario: string, rounds: readonly SyncerCost[], unit: string): Table {
  const count = sum(rounds.map((round) => round.count));
  const keys = [...new Set(rounds.flatMap(({ syncer }) => Object.keys(syncer)))];
  const total = (key: string): number => sum(rounds.map(({ syncer }) => syncer[key] ?? 0));
  const calls = new Set(keys.flatMap((key) => /^(call\/.*)\/(?:ok|refused)$/.exec(key)?.[1] ?? []));
  const rows = [...calls]
    .map((call) => ({ call, ok: total(`${call}/ok`) / count, refused: total(`${call}/refused`) / count }))
    .filter(({ ok, refused }) => ok + refused >= leastCalls)
    .sort((a, b) => b.ok - a.ok);
  // Other objects that pods need do not count as reconciles of pods.
  const kind = unit === 'pod' ? 'pods' : '';
  const ofKinds = (metric: string): number =>
    sum(keys.filter((key) => key.startsWith(`${metric}/${kind}`)).map(total));
  const meanMs = (metric: string): string =>
    (1000 * ratio(ofKinds(`${metric}_sum`), ofKinds(`${metric}_count`))).toFixed(1);
  const runs = ratio(ofKinds(`${syncerTimes.service}_count`), count).toFixed(1);
  return {
    title: `${scenario}: calls of the syncer per ${unit}`,
    columns: ['side, verb, resource', 'answered', 'refused'],
    rows: [
      ...rows.map(({ call, ok, refused }): Cell[] => [call.split('/').slice(1).join(' '), ok, refused]),
      ['**all of these**', sum(rows.map(({ ok, refused }) => ok + refused)), undefined],
    ],
    notes: [
      `${unit === 'pod' ? 'Pods were reconciled' : 'The syncer reconciled objects'} ${runs} times per ${unit}: ${meanMs(syncerTimes.wait)} ms in the queue and ${meanMs(syncerTimes.service)} ms of service on average.`,
    ],
  };
}
