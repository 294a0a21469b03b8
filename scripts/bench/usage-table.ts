import type { Cell, Table } from './measure/markdown.ts';
import { processGroups } from './measure/process-groups.ts';
import { totalCpuSeconds, type Usage } from './measure/usage.ts';

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
