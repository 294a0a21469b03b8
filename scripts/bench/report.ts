import { mkdir, writeFile } from 'node:fs/promises';
import { basename, dirname, join } from 'node:path';
import type { BenchOptions } from './arguments.ts';
import type { Machine } from './machine.ts';
import { renderCell, renderTable } from './measure/markdown.ts';
import type { ScenarioResult } from './scenario.ts';

export interface Report {
  machine: Machine;
  options: BenchOptions;
  scenarios: Record<string, ScenarioResult>;
}

/** `plotFile`: where the plot of this name lies, from where the text will be. */
export function renderReport(
  { machine, scenarios }: Report,
  plotFile?: (plotName: string) => string,
): string {
  const { at, cpu, cores, memoryGigabytes, system, node, loadBefore } = machine;
  const head = `${at}, ${cores} × ${cpu}, ${memoryGigabytes} GB, ${system}, Node ${node}, load ${renderCell(loadBefore)} before the start.`;
  const parts = Object.values(scenarios).flatMap(({ tables, plots }) => [
    ...tables.map(renderTable),
    ...(plotFile === undefined ? [] : plots.map(({ name }) => `![${name}](${plotFile(name)})`)),
  ]);
  return `${[head, ...parts].join('\n\n')}\n`;
}

/**
 * Figures and everything they were made of as JSON, the tables as Markdown and the plots as SVG beside it;
 * the plots a second time where they are to be kept. Returns the files.
 */
export async function writeReport(
  jsonFile: string,
  report: Report,
  plotDirectory?: string,
): Promise<string[]> {
  const directory = dirname(jsonFile);
  const base = basename(jsonFile, '.json');
  const plots = Object.values(report.scenarios).flatMap((scenario) => scenario.plots);
  const plotName = (name: string): string => `${base}-${name}.svg`;
  const files = new Map([
    [jsonFile, `${JSON.stringify(withoutPlots(report), null, 1)}\n`],
    [join(directory, `${base}.md`), renderReport(report, plotName)],
    ...plots.map(({ name, svg }): [string, string] => [join(directory, plotName(name)), svg]),
    ...(plotDirectory === undefined
      ? []
      : plots.map(({ name, svg }): [string, string] => [join(plotDirectory, `${name}.svg`), svg])),
  ]);
  for (const [file, text] of files) {
    await mkdir(dirname(file), { recursive: true });
    await writeFile(file, text);
  }
  return [...files.keys()];
}

function withoutPlots({ scenarios, ...report }: Report): object {
  const results = Object.entries(scenarios).map(([name, { plots, ...result }]) => [
    name,
    { ...result, plots: plots.map((plot) => plot.name) },
  ]);
  return { ...report, scenarios: Object.fromEntries(results) };
}
