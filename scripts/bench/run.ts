import { readFileSync } from 'node:fs';
import { mkdir, writeFile } from 'node:fs/promises';
import { arch, availableParallelism, cpus, loadavg, platform, release, totalmem } from 'node:os';
import { basename, dirname, join } from 'node:path';
import { Lab } from './lab.ts';
import { renderCell, renderTable } from './markdown.ts';
import { type BenchOptions, parseArguments } from './options.ts';
import type { Scenario, ScenarioResult } from './scenario.ts';
import { burst, burstTokens } from './scenarios/burst.ts';
import { change } from './scenarios/change.ts';
import { churn } from './scenarios/churn.ts';
import { create } from './scenarios/create.ts';
import { deletion } from './scenarios/delete.ts';
import { distance } from './scenarios/distance.ts';
import { fairness } from './scenarios/fairness.ts';
import { floods } from './scenarios/floods.ts';
import { footprint } from './scenarios/footprint.ts';
import { hanging } from './scenarios/hanging.ts';
import { latency } from './scenarios/latency.ts';
import { restart } from './scenarios/restart.ts';
import { resync } from './scenarios/resync.ts';
import { sleepers } from './scenarios/sleepers.ts';
import { snapshot } from './scenarios/snapshot.ts';
import { soak } from './scenarios/soak.ts';
import { wake } from './scenarios/wake.ts';
import { GivenStack, limitsOfMachine, OwnStack, preflight, type Stack } from './stack.ts';

interface BenchContext {
  argv: readonly string[];
  env: NodeJS.ProcessEnv;
  /** Root of the checkout. */
  root: string;
  signal: AbortSignal;
  onProgress: (message: string) => void;
  /** The tables, also of a run that failed after a scenario was done. */
  onReport: (tables: string) => void;
}

const closeTimeoutMs = 300_000;

/** Runs what the command line asks for. Whatever was started or created is gone when this has ended. */
export async function runBench(run: BenchContext): Promise<void> {
  const options = parseArguments(run.argv, scenarios);
  const chosen = scenarios.filter(
    ({ name, needsTenants }) =>
      options.scenarios.includes(name) && !(needsTenants && options.sides === 'direct'),
  );
  const report: Report = { machine: describeMachine(run.root, new Date()), options, scenarios: {} };
  const withGateway = chosen.some((scenario) => scenario.withGateway);
  const stack = await openStack(options, withGateway, run);
  let failed = true;
  try {
    await runScenarios(stack, chosen, report, run);
    failed = false;
  } finally {
    if (failed && !run.signal.aborted) run.onProgress((await stack.lastLogLines?.()) ?? '');
    await stack.close();
    if (Object.keys(report.scenarios).length > 0) await publish(report, run);
  }
}

async function publish(report: Report, { root, onProgress, onReport }: BenchContext): Promise<void> {
  const time = report.machine.at.replaceAll(':', '-').replace(/\..*$/, '');
  const file = report.options.json ?? join(root, 'bench', 'results', `${time}.json`);
  const written = await writeReport(file, report, report.options.plots);
  onProgress(`figures, tables and plots: ${written.join(' ')}`);
  onReport(renderReport(report));
}

async function runScenarios(
  stack: Stack,
  chosen: readonly Scenario[],
  { options, scenarios: results }: Report,
  { signal, onProgress }: BenchContext,
): Promise<void> {
  const lab = new Lab({ stack, options, signal, onProgress });
  try {
    await lab.prepare();
    for (const scenario of chosen) {
      onProgress(`== ${scenario.name}`);
      results[scenario.name] = await scenario.run(lab, options);
    }
  } finally {
    onProgress('cleaning up');
    await lab.close({ stackGoesToo: stack instanceof OwnStack, signal: AbortSignal.timeout(closeTimeoutMs) });
  }
}

async function openStack(
  options: BenchOptions,
  withGateway: boolean,
  { env, signal, onProgress }: BenchContext,
): Promise<Stack> {
  if (options.stateDir !== undefined || options.kubeconfig !== undefined) return GivenStack.open(options);
  const tenants = options.sides === 'both' ? options.tenants : 0;
  for (const warning of preflight(tenants, await limitsOfMachine())) onProgress(warning);
  onProgress('starting a stack of its own');
  return OwnStack.start({
    nodes: options.nodes,
    env,
    withSkerry: options.sides === 'both',
    withGateway,
    ...(options.cpuProf === undefined ? {} : { cpuProfileDir: options.cpuProf }),
    signal,
    onProgress,
  });
}

/** In the order in which they run: first those that need a fresh stack, last those that leave most behind. */
export const scenarios: readonly Scenario[] = [
  ...[create, wake, change, footprint, restart, resync],
  ...[latency, deletion, burst, burstTokens, fairness, churn, floods, hanging, distance, soak],
  ...[snapshot, sleepers],
];

interface Report {
  machine: Machine;
  options: BenchOptions;
  scenarios: Record<string, ScenarioResult>;
}

/** `plotFile`: path of the plot of this name, relative to the report. */
function renderReport({ machine, scenarios }: Report, plotFile?: (plotName: string) => string): string {
  const { at, cpu, cores, memoryGigabytes, system, node, loadBefore } = machine;
  const head = `${at}, ${cores} × ${cpu}, ${memoryGigabytes} GB, ${system}, Node ${node}, load ${renderCell(loadBefore)} before the start.`;
  const parts = Object.values(scenarios).flatMap(({ tables, plots }) => [
    ...tables.map(renderTable),
    ...(plotFile === undefined ? [] : plots.map(({ name }) => `![${name}](${plotFile(name)})`)),
  ]);
  return `${[head, ...parts].join('\n\n')}\n`;
}

/**
 * Writes all measurements as JSON, and beside it the tables as Markdown and the plots as SVG; plots also go to
 * `plotDirectory`. Returns the files.
 */
async function writeReport(jsonFile: string, report: Report, plotDirectory?: string): Promise<string[]> {
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

/** Where and when something was measured. */
interface Machine {
  at: string;
  cpu: string;
  cores: number;
  memoryGigabytes: number;
  system: string;
  node: string;
  /** Of the sources; undefined outside of a checkout. */
  commit?: string;
  loadBefore: number;
}

function describeMachine(root: string, now: Date): Machine {
  const commit = commitOf(root);
  return {
    at: now.toISOString(),
    cpu: cpus()[0]?.model.trim() || 'unknown',
    cores: availableParallelism(),
    memoryGigabytes: Math.round(totalmem() / 1e9),
    system: `${platform()} ${release()} ${arch()}`,
    node: process.versions.node,
    ...(commit === undefined ? {} : { commit }),
    loadBefore: loadavg()[0] ?? 0,
  };
}

function commitOf(root: string): string | undefined {
  try {
    const head = readFileSync(`${root}/.git/HEAD`, 'utf8').trim();
    const ref = /^ref: (.*)$/.exec(head)?.[1];
    return ref === undefined ? head : readFileSync(`${root}/.git/${ref}`, 'utf8').trim();
  } catch {
    return undefined;
  }
}
