import { type Cell, renderCell, type Table } from './markdown.ts';
import { callsPer, processGroups, syncerTable, totalCpuSeconds, type Usage } from './measure.ts';
import { componentMsPer, cpuColumns, cpuMsPer, type Round } from './rounds.ts';
import type { Figure } from './scenario.ts';

/** CPU of all, of the syncer and of the load generator, and calls of the syncer, for each pod or whatever is counted. */
export function costFigures(rounds: readonly Round[], unit: string): Figure[] {
  return [...Map.groupBy(rounds, ({ side }) => side)].flatMap(([side, ofSide]) => {
    const cpu = (what: string, seconds: (round: Round) => number | undefined): Figure => ({
      name: `${side}, CPU${what} per ${unit}`,
      unit: 'ms',
      better: 'less',
      values: ofSide.flatMap((round) => {
        const spent = seconds(round);
        return spent === undefined ? [] : [(spent * 1000) / round.count];
      }),
    });
    const calls: Figure = {
      name: `${side}, calls of the syncer per ${unit}`,
      unit: 'calls',
      better: 'less',
      values: ofSide.flatMap(({ syncer, count }) =>
        syncer === undefined ? [] : [callsPer([{ work: new Map(Object.entries(syncer)), count }])],
      ),
    };
    const all = [
      cpu('', ({ usage }) => totalCpuSeconds(usage)),
      // On the super cluster alone the syncer has nothing to do with it.
      ...(calls.values.length === 0 ? [] : [cpu(' of the syncer', ({ usage }) => usage.cpuSeconds.syncer)]),
      cpu(' of the load generator', ({ usage }) => usage.cpuSeconds.generator),
      calls,
    ];
    return all.filter(({ values }) => values.length > 0);
  });
}

/** Where the time goes: CPU by group of processes, and what the syncer does for each pod, or whatever is counted. */
export function costTables(scenario: string, rounds: readonly Round[], unit = 'pod'): Table[] {
  const bySide = [...Map.groupBy(rounds, ({ side }) => side)];
  const cpu: Table = {
    title: `${scenario}: CPU, ms per ${unit}`,
    columns: ['side', ...cpuColumns],
    rows: bySide.map(([side, ofSide]) => [side, ...cpuMsPer(ofSide)]),
    notes: bySide.map(([side, ofSide]) => {
      const components = componentMsPer(ofSide).map(([name, ms]) => `${name} ${renderCell(ms)}`);
      return `${side}: ${components.join(', ')}.`;
    }),
  };
  const calls = bySide.flatMap(([side, ofSide]) => {
    const work = ofSide.flatMap(({ syncer, count }) =>
      syncer === undefined ? [] : [{ work: new Map(Object.entries(syncer)), count }],
    );
    return work.length === 0 ? [] : [syncerTable(`${scenario}, ${side}`, work, unit)];
  });
  return [cpu, ...calls];
}

/** CPU seconds by group of processes of a few stretches of work, and the load of the machine. */
export function usageTable(title: string, rows: readonly (readonly [name: string, usage: Usage])[]): Table {
  return {
    title,
    columns: ['', 'elapsed, s', 'all', ...processGroups, 'rest of the machine', 'load'],
    rows: rows.map(([name, usage]): Cell[] => [
      name,
      usage.elapsedSeconds,
      totalCpuSeconds(usage),
      ...processGroups.map((group) => usage.cpuSeconds[group]),
      usage.othersSeconds,
      usage.load,
    ]),
  };
}
