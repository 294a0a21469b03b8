import { join } from 'node:path';
import { type BenchOptions, parseArguments } from './arguments.ts';
import { Lab } from './lab.ts';
import { describeMachine } from './machine.ts';
import { type Report, renderReport, writeReport } from './report.ts';
import type { Scenario } from './scenario.ts';
import { scenarios } from './scenarios/index.ts';
import { GivenStack } from './stack/given-stack.ts';
import { OwnStack } from './stack/own-stack.ts';
import { limitsOfMachine, preflight } from './stack/preflight.ts';
import type { Stack } from './stack/stack.ts';

export interface BenchRun {
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
export async function runBench(run: BenchRun): Promise<void> {
  const options = parseArguments(run.argv, scenarios);
  const chosen = scenarios.filter(
    ({ name, needsTenants }) =>
      options.scenarios.includes(name) && !(needsTenants && options.sides === 'direct'),
  );
  const report: Report = { machine: describeMachine(run.root, new Date()), options, scenarios: {} };
  const stack = await openStack(options, run);
  let failed = true;
  try {
    await runScenarios(stack, chosen, report, run);
    failed = false;
  } finally {
    if (failed && !run.signal.aborted) run.onProgress((await stack.lastWords?.()) ?? '');
    await stack.close();
    if (Object.keys(report.scenarios).length > 0) await hand(report, run);
  }
}

async function hand(report: Report, { root, onProgress, onReport }: BenchRun): Promise<void> {
  const time = report.machine.at.replaceAll(':', '-').replace(/\..*$/, '');
  const file = report.options.jsonFile ?? join(root, 'bench', 'results', `${time}.json`);
  const written = await writeReport(file, report, report.options.plotDirectory);
  onProgress(`figures, tables and plots: ${written.join(' ')}`);
  onReport(renderReport(report));
}

async function runScenarios(
  stack: Stack,
  chosen: readonly Scenario[],
  { options, scenarios: results }: Report,
  { signal, onProgress }: BenchRun,
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

async function openStack(options: BenchOptions, { env, signal, onProgress }: BenchRun): Promise<Stack> {
  if (options.stateDir !== undefined || options.kubeconfig !== undefined) return GivenStack.open(options);
  const tenants = options.sides === 'both' ? options.tenants : 0;
  for (const warning of preflight(tenants, await limitsOfMachine())) onProgress(warning);
  onProgress('starting a stack of its own');
  return OwnStack.start({
    nodes: options.nodes,
    env,
    withSkerry: options.sides === 'both',
    ...(options.cpuProfileDir === undefined ? {} : { cpuProfileDir: options.cpuProfileDir }),
    signal,
    onProgress,
  });
}
