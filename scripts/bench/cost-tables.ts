import { componentsPer, cpuColumns, cpuPer } from './measure/figures.ts';
import { renderCell, type Table } from './measure/markdown.ts';
import { syncerTable } from './measure/syncer-work.ts';
import type { Round } from './rounds.ts';

/** Where the time goes: CPU by group of processes, and what the syncer does for each pod, or whatever is counted. */
export function costTables(scenario: string, rounds: readonly Round[], unit = 'pod'): Table[] {
  const bySide = [...Map.groupBy(rounds, ({ side }) => side)];
  const cpu: Table = {
    title: `${scenario}: CPU, ms per ${unit}`,
    columns: ['side', ...cpuColumns],
    rows: bySide.map(([side, ofSide]) => [side, ...cpuPer(ofSide)]),
    notes: bySide.map(([side, ofSide]) => {
      const components = componentsPer(ofSide).map(([name, ms]) => `${name} ${renderCell(ms)}`);
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
