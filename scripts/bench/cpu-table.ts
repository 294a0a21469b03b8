import { cpuColumns, cpuPerPod } from './measure/figures.ts';
import type { Table } from './measure/markdown.ts';
import type { Round } from './pod-rounds.ts';

/** CPU time by group of processes, one row for each side: medians over its rounds. */
export function cpuTable(scenario: string, rounds: readonly Round[]): Table {
  return {
    title: `${scenario}: CPU, ms per pod`,
    columns: ['side', ...cpuColumns],
    rows: [...Map.groupBy(rounds, ({ side }) => side)].map(([side, ofSide]) => [
      side,
      ...cpuPerPod(ofSide.map(({ usage, result }) => ({ usage, pods: result.pods.length }))),
    ]),
  };
}
