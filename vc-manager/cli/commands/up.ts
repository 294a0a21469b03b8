import { resolve } from 'node:path';
import { type Command, Option } from 'commander';
import { dnsChoices } from '../../../api/virtual-cluster.ts';
import { repeatable } from '../../../program/flags.ts';
import { egressTarget, ipAddress, memoryQuantity, wholeNumber } from '../arguments.ts';
import type { Cli, GlobalFlags } from '../context.ts';
import { describeFailure, invalidArgument } from '../errors.ts';
import { progressFor } from '../progress.ts';
import { stateChoice } from '../state-directory.ts';
import { RelayedProgress, sendToParent, startDetached } from '../up/detach.ts';
import type { UpOptions } from '../up/start.ts';
import { commandName, quoted, renderSummary } from '../up/summary.ts';

interface Flags extends GlobalFlags, Omit<UpOptions, 'stateDir' | 'superCluster'> {
  superKubeconfig?: string;
  detach?: boolean;
  /** Set by `--detach` for the process that it starts in the background. */
  supervised?: boolean;
}

const help = `
Starts a super cluster with simulated nodes, the manager, the syncer and two sample tenants, and stays. What dies
is started again. Ctrl-C stops everything in order and keeps its state; "up" resumes with the tenants as they were.

Examples:
  vc-manager up                                  everything, on this machine alone
  vc-manager up --tenants 0 --nodes 20           a larger super cluster, and no samples
  vc-manager up --detach                         in the background; "vc-manager down" stops it
  vc-manager up --super-kubeconfig FILE          tenants whose pods run in a cluster of yours`;

export function configure(command: Command, cli: Cli): void {
  command
    .option(
      '--tenants <n>',
      'sample tenants tenant-1, tenant-2, ... (default: 2 the first time, then those that are there)',
      wholeNumber(0, 100),
    )
    .option(
      '--nodes <n>',
      'simulated nodes of the super cluster; 0: no simulation at all, neither of nodes nor of storage',
      wholeNumber(0, 5_000),
      3,
    )
    .option('--super-kubeconfig <file>', 'use this cluster instead of a local super cluster (with --context)')
    .option('--no-samples', 'leave the sample tenants empty')
    .option('--bind-address <address>', "where tenants' API servers listen", ipAddress, '127.0.0.1')
    .option(
      '--advertise-address <address>',
      'how nodes and pods reach API servers (default: an address of this machine)',
      ipAddress,
    )
    .option(
      '--tenant-egress <cidr[:ports]>',
      "what on this machine tenants' API servers may dial where root confines them, beyond what they need, as 127.0.0.1:8443; repeatable",
      egressArgument,
    )
    .option(
      '--super-bind-address <address>',
      "where the local super cluster's API server listens; where nodes of yours reach it, they can join",
      ipAddress,
      '127.0.0.1',
    )
    .addOption(
      new Option(
        '--dns <server>',
        'DNS server of tenants that name none when they are created (default: none where nodes are simulated, else coredns)',
      ).choices([...dnsChoices]),
    )
    .addOption(
      new Option(
        '--network-policies <whether>',
        'whether something in the super cluster acts on NetworkPolicies; auto: where a known engine is installed',
      )
        .choices(['auto', 'enforced', 'unenforced'])
        .default('auto'),
    )
    .option(
      '--no-gateway',
      'reach each tenant at a port of its own instead of all of them at the port of vc-gateway',
    )
    .option(
      '--warm <n>',
      'control planes that wait for an owner, so that "create" takes a moment',
      wholeNumber(0, 100),
      0,
    )
    .option(
      '--warm-memory <quantity>',
      'what all that wait may take (default: a quarter of this machine)',
      warmMemoryArgument,
    )
    .option('--no-dashboard', 'serve no dashboard; otherwise a link to it is printed')
    .option('--detach', 'go on in the background once everything is up')
    .option(
      '--audit',
      'record what manager, syncer and ServiceAccounts of skerry-system ask of the local super cluster, in STATE/stack/data/kube-apiserver/audit.log',
    )
    .addOption(new Option('--unsafe-no-fsync', 'tests only: lose data when the machine crashes').hideHelp())
    .addOption(new Option('--super-service-cidr <cidr>', 'tests only').hideHelp())
    .addOption(
      new Option('--super-pod-security <level>', 'tests only').choices(['baseline', 'restricted']).hideHelp(),
    )
    .addOption(new Option('--supervised').hideHelp())
    .addHelpText('after', help)
    .action(async (_, chosen: Command) => up(cli, chosen));
}

const loadBackend = async () => (await import('./dashboard-backend.ts')).dashboardBackend;

/** Checked here, and read by the manager that it is handed on to. */
function egressArgument(text: string, before?: readonly string[]): string[] {
  egressTarget(text);
  return repeatable(text, before);
}

/** The same. */
function warmMemoryArgument(text: string): string {
  memoryQuantity(text);
  return text;
}

async function up(cli: Cli, command: Command): Promise<void> {
  const flags = command.optsWithGlobals<Flags>();
  if (flags.kubeconfig !== undefined) {
    throw invalidArgument('"up" takes a cluster of yours with --super-kubeconfig, not with --kubeconfig');
  }
  const { directory } = stateChoice(cli.env, flags);
  const options = upOptions(flags, directory);
  if (flags.supervised) return runSupervised(cli, options);
  const progress = progressFor(cli);
  const state = flags.stateDir === undefined ? '' : ` --state-dir ${quoted(directory)}`;
  const invocation = `${commandName(cli.env, process.argv[1], process.cwd())}${state}`;
  try {
    if (flags.detach) {
      const summary = await startDetached(cli, {
        stateDir: directory,
        args: givenArguments(command),
        progress,
      });
      const stopHint = `It goes on in the background (process ${summary.pid}). "${invocation} down" stops it.`;
      cli.stdout.write(renderSummary(summary, { command: invocation, stopHint }, cli));
      return;
    }
    // Whatever becomes of the summary's reader, the stack has to be watched and stopped in order.
    cli.outlivesReader();
    const { supervise } = await import('../up/supervise.ts');
    await supervise(cli, {
      ...options,
      progress,
      loadBackend,
      onReady: (summary) => {
        const stopHint = 'Ctrl-C stops everything and keeps its state.';
        cli.stdout.write(`${renderSummary(summary, { command: invocation, stopHint }, cli)}\n`);
      },
    });
  } finally {
    progress.close();
  }
}

/** The process in the background: the one that started it shows the progress and, at the end, the summary. */
async function runSupervised(cli: Cli, options: UpOptions): Promise<void> {
  const progress = new RelayedProgress(progressFor(cli), sendToParent);
  try {
    const { supervise } = await import('../up/supervise.ts');
    await supervise(cli, {
      ...options,
      progress,
      loadBackend,
      onReady: (summary) => sendToParent({ type: 'ready', summary }),
    });
  } catch (error) {
    sendToParent({ type: 'failed', ...describeFailure(error) });
    throw error;
  } finally {
    if (process.connected) process.disconnect?.();
  }
}

function upOptions(flags: Flags, stateDir: string): UpOptions {
  const { superKubeconfig, context } = flags;
  if (superKubeconfig === undefined && context !== undefined) {
    throw invalidArgument('--context needs --super-kubeconfig, whose context it names');
  }
  return {
    ...flags,
    stateDir,
    superCluster:
      superKubeconfig === undefined
        ? undefined
        : { kubeconfig: resolve(superKubeconfig), ...(context === undefined ? {} : { context }) },
  };
}

/** The options of the command line for the process in the background, which has the same environment and directory. */
function givenArguments(command: Command): string[] {
  return [command, ...(command.parent === null ? [] : [command.parent])].flatMap((each) =>
    each.options
      .filter((option) => each.getOptionValueSource(option.attributeName()) === 'cli')
      .filter(({ long }) => long !== '--detach')
      .flatMap((option) => {
        const value: unknown = each.getOptionValue(option.attributeName());
        if (typeof value === 'boolean') return [`${option.long}`];
        return [value].flat().map((one) => `${option.long}=${one}`);
      }),
  );
}
