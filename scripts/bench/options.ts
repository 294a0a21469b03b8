import { Command, CommanderError, InvalidArgumentError, Option } from 'commander';
import { type DriverName, driverNames } from '../../api/drivers.ts';
import { attacks } from './attacker/attacks.ts';

/** Options with a default of their own. */
interface GivenSizes {
  tenants: number;
  /** Of each tenant in `burst`. */
  pods: number;
  /** Create calls in flight per tenant. */
  inFlight: number;
  repeats: number;
  /** Pods per second in `latency`. */
  rate: number;
  creates: number;
  deletePods: number;
  /** Sequences of operations that each tenant runs beside each other in `churn` and `soak`. */
  lanes: number;
  minutes: number;
  soakRate: number;
  /** Of everything that is random. */
  seed: number;
  /** Seconds for which `footprint` and `sleepers` watch. */
  idle: number;
  /** Tenants that are asleep in `sleepers`. */
  sleepers: number;
  /** Numbers of objects that a tenant has in `snapshot`; ascending. */
  objects: readonly number[];
  nodes: number;
}

/** Options whose default follows from `tenants` and `pods`. */
interface DerivedSizes {
  latencyPods: number;
  /** Number of greedy tenants in `fairness`. */
  greedy: number;
  greedyPods: number;
  regularPods: number;
  /** Tenants that are requested together; 0: none. */
  atOnce: number;
  /** Of `churn`, over all tenants. */
  operations: number;
  /** Numbers of pods that are there when a syncer is restarted, compares both sides, or rests; ascending. */
  standing: number[];
}

/** What runs of what a scenario could run. */
interface Choices {
  /** Names of floods; absent: all. */
  floods?: readonly string[];
  /** What runs the tenants; absent: what the manager chooses. */
  driver?: DriverName;
  /** Full version from which `change` takes tenants to the usual one; absent: it leaves that change out. */
  fromVersion?: string;
}

interface Locations {
  /** File for the figures. */
  json?: string;
  /** Directory for a second copy of the plots, under names without a date. */
  plots?: string;
  /** A stack that runs already; without `stateDir` and `kubeconfig`, one is started and removed. */
  stateDir?: string;
  kubeconfig?: string;
  context?: string;
  /** Directory where the syncer writes CPU profiles. */
  cpuProf?: string;
}

/** What a run of the benchmarks does. */
export interface BenchOptions extends GivenSizes, DerivedSizes, Choices, Locations {
  /** In the order in which they run. */
  scenarios: string[];
  sides: 'both' | 'direct';
  /** For one run until all of its pods are Ready. */
  timeoutMs: number;
}

type Flags = GivenSizes & Partial<DerivedSizes> & Choices & Locations & { timeout: number; direct?: boolean };

export class ArgumentError extends Error {
  override readonly name = 'ArgumentError';
  /** 0 when help was asked for, which has been shown already. */
  readonly exitCode: number;

  constructor(message: string, exitCode: number) {
    super(message);
    this.exitCode = exitCode;
  }
}

/** What the command line needs of a `Scenario`. */
export interface KnownScenario {
  readonly name: string;
  /** For the help text. */
  readonly summary: string;
  /** True: it takes long or answers a question of its own, so that it only runs when it is named. */
  readonly onlyWhenNamed?: boolean;
}

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
    .option('--idle <seconds>', 'how long footprint and sleepers watch', whole(1), 30)
    .option('--sleepers <n>', 'tenants that are asleep in sleepers', whole(1), 1_000)
    .option('--objects <n,...>', 'ConfigMaps of 1 KB of a tenant in snapshot', sizes, [1_000, 50_000])
    .option(
      '--standing <n,...>',
      'pods that are there in footprint, restart and resync; several numbers: each in turn (default: 2 x --tenants x --pods)',
      sizes,
    )
    .option('--operations <n>', 'of churn (default: 2 x --tenants x --pods)', whole(1))
    .option(
      '--floods <word,...>',
      'of floods: those with such a word in their names, as writes,webhooks',
      floodNames,
    )
    .option('--lanes <n>', 'operations in flight per tenant in churn and soak', whole(1), 4)
    .option('--minutes <n>', 'how long soak goes on', whole(1), 30)
    .option('--soak-rate <n>', 'operations per second in soak, over all tenants', whole(1), 20)
    .addOption(
      new Option(
        '--driver <driver>',
        'of the tenants, if the manager has it (default: what it chooses)',
      ).choices(driverNames),
    )
    .option('--from-version <version>', 'of Kubernetes, from which change takes tenants to the usual one')
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
  const { direct, timeout, ...given } = flags;
  const options: BenchOptions = {
    latencyPods: 2 * pods,
    greedy: Math.max(1, Math.round(tenants / 5)),
    greedyPods: 6 * pods,
    regularPods: Math.max(1, Math.round(pods / 5)),
    atOnce: Math.min(10, tenants),
    operations: 2 * tenants * pods,
    standing: [2 * tenants * pods],
    ...given,
    scenarios,
    sides: direct ? 'direct' : 'both',
    timeoutMs: timeout * 1000,
  };
  if (scenarios.includes('fairness') && options.greedy >= tenants) {
    const remedy = names.length === 0 ? 'name the other scenarios, or give' : 'give';
    throw new ArgumentError(
      `fairness needs a tenant that is not greedy: ${remedy} more --tenants than the ${options.greedy} greedy ones`,
      2,
    );
  }
  return options;
}

function whole(least: number): (text: string) => number {
  return (text) => {
    const number = Number(text);
    if (/^\d+$/.test(text) && number >= least) return number;
    throw new InvalidArgumentError(`Give a whole number of at least ${least}.`);
  };
}

function floodNames(text: string): readonly string[] {
  const all = Object.keys(attacks);
  return text.split(',').flatMap((word) => {
    const found = all.filter((name) => name.split(' ').includes(word));
    if (found.length === 0)
      throw new InvalidArgumentError(`No flood has "${word}" in its name: ${all.join('; ')}.`);
    return found;
  });
}

function sizes(text: string): number[] {
  const numbers = text.split(',').map(whole(1));
  return [...new Set(numbers)].sort((a, b) => a - b);
}
