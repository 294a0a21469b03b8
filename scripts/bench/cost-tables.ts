import { componentsPerPod, cpuColumns, cpuPerPod } from './measure/figures.ts';
import { renderCell, type Table } from './measure/markdown.ts';
import { syncerTable } from './measure/syncer-work.ts';
import type { Round } from './pod-rounds.ts';

/** Where the time goes: CPU by group of processes, and what the syncer does for each pod. */
export function costTables(scenario: string, rounds: readonly Round[]): Table[] {
  const bySide = [...Map.groupBy(rounds, ({ side }) => side)].map(
    ([side, ofSide]) =>
      [
        side,
        ofSide.map(({ usage, result, syncer }) => ({ usage, syncer, pods: result.pods.length })),
      ] as const,
  );
  const cpu: Table = {
    title: `${scenario}: CPU, ms per pod`,
    columns: ['side', ...cpuColumns],
    rows: bySide.map(([side, costs]) => [side, ...cpuPerPod(costs)]),
    notes: bySide.map(([side, costs]) => {
      const components = componentsPerPod(costs).map(([name, ms]) => `${name} ${renderCell(ms)}`);
      return `${side}: ${components.join(', ')}.`;
    }),
  };
  const calls = bySide.flatMap(([side, costs]) => {
    const work = costs.flatMap(({ syncer, pods }) =>
      syncer === undefined ? [] : [{ work: new Map(Object.entries(syncer)), pods }],
    );
    return work.length === 0 ? [] : [syncerTable(`${scenario}, ${side}`, work)];
  });
  return [cpu, ...calls];
}
