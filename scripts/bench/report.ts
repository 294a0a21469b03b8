import { mkdir, writeFile } from 'node:fs/promises';
import { dirname } from 'node:path';
import type { BenchOptions } from './arguments.ts';
import type { Machine } from './machine.ts';
import { renderCell, renderTable } from './measure/markdown.ts';
import type { ScenarioResult } from './scenario.ts';

export interface Report {
  machine: Machine;
  options: BenchOptions;
  scenarios: Record<string, ScenarioResult>;
}

export function renderReport({ machine, scenarios }: Report): string {
  const { at, cpu, cores, memoryGigabytes, system, node, loadBefore } = machine;
  const head = `${at}, ${cores} × ${cpu}, ${memoryGigabytes} GB, ${system}, Node ${node}, load ${renderCell(loadBefore)} before the start.`;
  const tables = Object.values(scenarios).flatMap((result) => result.tables);
  return `${[head, ...tables.map(renderTable)].join('\n\n')}\n`;
}

/** Figures and everything they were made of; tables can be made again from it. */
export async function writeReport(file: string, report: Report): Promise<void> {
  await mkdir(dirname(file), { recursive: true });
  await writeFile(file, `${JSON.stringify(report, null, 1)}\n`);
}
