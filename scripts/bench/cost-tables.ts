import { cpuColumns, cpuPerPod } from './measure/figures.ts';
import type { Table } from './measure/markdown.ts';
import { syncerTable } from './measure/syncer-work.ts';
import type { Round } from './pod-rounds.ts';

/** Where the time goes: CPU by group of processes, and what the syncer does for each pod. */
export function costTables(scenario: string, rounds: readonly Round[]): Table[] {
  const bySide = Map.groupBy(rounds, ({ side }) => side);
  const served = [...bySide].flatMap(([side, ofSide]) => {
    const work = ofSide.flatMap(({ syncer, result }) =>
      syncer === undefined ? [] : [{ work: new Map(Object.entries(syncer)), pods: result.pods.length }],
    );
    return work.length === 0 ? [] : [syncerTable(`${scenario}, ${side}`, work)];
  });
  return [cpuTable(scenario, rounds), ...served];
}

/** CPU time by group of processes, one row for each side: medians over its rounds. */
function cpuTable(scenario: string, rounds: readonly Round[]): Table {
  return {
    title: `${scenario}: CPU, ms per pod`,
    columns: ['side', ...cpuColumns],
    rows: [...Map.groupBy(rounds, ({ side }) => side)].map(([side, ofSide]) => [
      side,
      ...cpuPerPod(ofSide.map(({ usage, result }) => ({ usage, pods: result.pods.length }))),
    ]),
  };
}
