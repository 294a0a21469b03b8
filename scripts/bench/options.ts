import { Command, CommanderError, InvalidArgumentError } from 'commander';
import type { Scenario } from './scenario.ts';

/** What a run of the benchmarks is to do; every size is settled. */
export interface BenchOptions {
  /** In the order in which they run. */
  scenarios: string[];
  sides: 'both' | 'direct';
  repeats: number;
  tenants: number;
  /** Of each tenant in `burst`. */
  pods: number;
  /** Create calls in flight per tenant. */
  inFlight: number;
  latencyPods: number;
  ratePerSecond: number;
  greedyTenants: number;
  greedyPods: number;
  regularPods: number;
  creates: number;
  /** Tenants that are asked for together; 0: none. */
  atOnce: number;
  deletePods: number;
  /** Of `churn`, over all tenants. */
  operations: number;
  /** Sequences of such operations that each tenant has beside each other. */
  lanes: number;
  /** How many pods there are when a syncer is restarted, compares both sides, or rests; from few to many. */
  standing: number[];
  minutes: number;
  soakRate: number;
  /** Of everything that is random. */
  seed: number;
  idleSeconds: number;
  nodes: number;
  /** For one run until all of its pods are Ready. */
  timeoutMs: number;
  jsonFile?: string;
  /** Where plots go a second time, under names without a date. */
  plotDirectory?: string;
  /** A stack that runs already; without both, one is brought up and removed. */
  stateDir?: string;
  kubeconfig?: string;
  context?: string;
  /** Where the syncer writes CPU profiles. */
  cpuProfileDir?: string;
}

export class ArgumentError extends Error {
  override readonly name = 'ArgumentError';
  /** 0 when help was asked for, which has been shown already. */
  readonly exitCode: number;

  constructor(message: string, exitCode: number) {
    super(message);
    this.exitCode = exitCode;
  }
}

type KnownScenario = Pick<Scenario, 'name' | 'summary' | 'onlyWhenNamed'>;

interface Output {
  write(text: string): unknown;
}

/**
 * Reads the command line. Sizes that are not given follow from --tenants and --pods, so that a small
 * run is small everywhere. Throws ArgumentError.
 */
export function parseArguments(
  argv: readonly string[],
  known: readonly KnownScenario[],
  output: { stdout: Output; stderr: Output } = process,
): BenchOptions {
  const command = benchCommand(known);
  command.exitOverride().configureOutput({
    writeOut: (text) => output.stdout.write(text),
    writeErr: () => undefined,
  });
  try {
    command.parse(argv, { from: 'user' });
    return resolveOptions(command.args, command.opts<Flags>(), known);
  } catch (error) {
    if (error instanceof CommanderError) {
      throw new ArgumentError(error.message.replace(/^error: /, ''), error.exitCode);
    }
    throw error;
  }
}

interface Flags {
  tenants: number;
  pods: number;
  inFlight: number;
  repeats: number;
  rate: number;
  latencyPods?: number;
  greedy?: number;
  greedyPods?: number;
  regularPods?: number;
  creates: number;
  atOnce?: number;
  deletePods: number;
  operations?: number;
  lanes: number;
  standing?: number[];
  minutes: number;
  soakRate: number;
  seed: number;
  idle: number;
  nodes: number;
  timeout: number;
  direct?: boolean;
  json?: string;
  plots?: string;
  stateDir?: string;
  kubeconfig?: string;
  context?: string;
  cpuProf?: string;
}

function benchCommand(known: readonly KnownScenario[]): Command {
  const summaries = known.map(({ name, summary }) => `  ${name.padEnd(12)} ${summary}`).join('\n');
  const onlyWhenNamed = known.filter((scenario) => scenario.onlyWhenNamed).map(({ name }) => name);
  return new Command('npm run bench --')
    .description('Measures tenants and, in the same run, the super cluster without Skerry.')
    .usage('[options] [scenario...]\n       npm run bench -- compare A.json B.json')
    .argument('[scenario...]', `default: all but ${onlyWhenNamed.join(', ')}`)
    .option('--tenants <n>', 'tenants', whole(1), 20)
    .option('--pods <n>', 'pods of each tenant in burst', whole(1), 50)
    .option('--in-flight <n>', 'create calls in flight per tenant', whole(1), 20)
    .option('--repeats <n>', 'how often each side is measured; figures are medians', whole(1), 3)
    .option('--rate <n>', 'pods per second in latency', whole(1), 5)
    .option('--latency-pods <n>', 'pods in latency (default: 2 x --pods)', whole(1))
    .option('--greedy <n>', 'greedy tenants in fairness (default: a fifth of all)', whole(1))
    .option('--greedy-pods <n>', 'pods of each of them, at once (default: 6 x --pods)', whole(1))
    .option('--regular-pods <n>', 'pods of each other, one after the other (default: --pods / 5)', whole(1))
    .option('--delete-pods <n>', 'pods that delete deletes', whole(1), 20)
    .option('--creates <n>', 'tenants that create makes, one at a time', whole(1), 10)
    .option('--at-once <n>', 'tenants that it makes at once; 0: none (default: 10, or --tenants)', whole(0))
    .option('--idle <seconds>', 'how long footprint watches', whole(1), 30)
    .option(
      '--standing <n,...>',
      'pods that are there in footprint, restart and patrol; several numbers: each in turn (default: 2 x --tenants x --pods)',
      sizes,
    )
    .option('--operations <n>', 'of churn (default: 2 x --tenants x --pods)', whole(1))
    .option('--lanes <n>', 'operations in flight per tenant in churn and soak', whole(1), 4)
    .option('--minutes <n>', 'how long soak goes on', whole(1), 30)
    .option('--soak-rate <n>', 'operations per second in soak, over all tenants', whole(1), 20)
    .option('--seed <n>', 'of everything that is random', whole(0), 1)
    .option('--nodes <n>', 'simulated nodes', whole(1), 20)
    .option('--timeout <seconds>', 'for one run until all of its pods are Ready', whole(1), 300)
    .option('--direct', 'only the super cluster without Skerry')
    .option(
      '--json <file>',
      'where the figures go (default: bench/results/<time>.json); tables and plots beside it',
    )
    .option('--plots <directory>', 'plots go there too, as <scenario>.svg, to be kept')
    .option('--state-dir <directory>', 'of a stack that runs: "vc-manager up --state-dir ..."')
    .option('--kubeconfig <file>', 'of a super cluster in which Skerry runs')
    .option('--context <name>', 'context of that kubeconfig')
    .option('--cpu-prof <directory>', 'the syncer writes a CPU profile there')
    .addHelpText('after', `\nScenarios:\n${summaries}`);
}

function resolveOptions(
  names: readonly string[],
  flags: Flags,
  known: readonly KnownScenario[],
): BenchOptions {
  const unknown = names.find((name) => !known.some((scenario) => scenario.name === name));
  if (unknown !== undefined) {
    const choice = known.map(({ name }) => name).join(', ');
    throw new ArgumentError(`there is no scenario "${unknown}": choose from ${choice}`, 2);
  }
  const { tenants, pods } = flags;
  const scenarios = known
    .filter(({ onlyWhenNamed }) => names.length > 0 || onlyWhenNamed !== true)
    .map(({ name }) => name)
    .filter((name) => names.length === 0 || names.includes(name));
  const greedyTenants = flags.greedy ?? Math.max(1, Math.round(tenants / 5));
  if (scenarios.includes('fairness') && greedyTenants >= tenants) {
    const remedy = names.length === 0 ? 'name the other scenarios, or give' : 'give';
    throw new ArgumentError(
      `fairness needs a tenant that is not greedy: ${remedy} more --tenants than the ${greedyTenants} greedy ones`,
      2,
    );
  }
  const options: BenchOptions = {
    scenarios,
    sides: flags.direct ? 'direct' : 'both',
    repeats: flags.repeats,
    tenants,
    pods,
    inFlight: flags.inFlight,
    latencyPods: flags.latencyPods ?? 2 * pods,
    ratePerSecond: flags.rate,
    greedyTenants,
    greedyPods: flags.greedyPods ?? 6 * pods,
    regularPods: flags.regularPods ?? Math.max(1, Math.round(pods / 5)),
    creates: flags.creates,
    atOnce: flags.atOnce ?? Math.min(10, tenants),
    deletePods: flags.deletePods,
    operations: flags.operations ?? 2 * tenants * pods,
    lanes: flags.lanes,
    standing: flags.standing ?? [2 * tenants * pods],
    minutes: flags.minutes,
    soakRate: flags.soakRate,
    seed: flags.seed,
    idleSeconds: flags.idle,
    nodes: flags.nodes,
    timeoutMs: flags.timeout * 1000,
  };
  const { json, plots, stateDir, kubeconfig, context, cpuProf } = flags;
  if (json !== undefined) options.jsonFile = json;
  if (plots !== undefined) options.plotDirectory = plots;
  if (stateDir !== undefined) options.stateDir = stateDir;
  if (kubeconfig !== undefined) options.kubeconfig = kubeconfig;
  if (context !== undefined) options.context = context;
  if (cpuProf !== undefined) options.cpuProfileDir = cpuProf;
  return options;
}

function whole(least: number): (text: string) => number {
  return (text) => {
    const number = Number(text);
    if (/^\d+$/.test(text) && number >= least) return number;
    throw new InvalidArgumentError(`Give a whole number of at least ${least}.`);
  };
}

function sizes(text: string): number[] {
  const numbers = text.split(',').map(whole(1));
  return [...new Set(numbers)].sort((a, b) => a - b);
}
