import { rm } from 'node:fs/promises';
import type { Command } from 'commander';
import { loadKubeconfig, resources } from '../../../kube/index.ts';
import { controlPlanesIn } from '../../drivers/driver.ts';
import { identify, isAlive } from '../../os/process-identity.ts';
import { confirm, hasTerminal } from '../command-line.ts';
import type { Cli, GlobalFlags } from '../context.ts';
import { CliError, describeFailure } from '../errors.ts';
import { type Progress, withProgress, withStep } from '../progress.ts';
import {
  controlPlanesDirectory,
  findSupervisor,
  holdsStateLock,
  isStateDirectory,
  readSettings,
  stateChoice,
  withStateLock,
} from '../state-directory.ts';
import { withConnection } from '../super-cluster.ts';
import { stopAll } from '../up/stop.ts';

interface Flags extends GlobalFlags {
  purge?: boolean;
  force?: boolean;
  dryRun?: boolean;
  yes?: boolean;
}

const help = `
Stops what "up" has started, in whatever terminal or in the background, also when "up" itself was killed. Nothing is
lost: "up" resumes.

Examples:
  vc-manager down
  vc-manager down --purge --dry-run  say what would be removed
  vc-manager down --purge            remove every trace: tenants, their data, certificates and logs`;

export function configure(command: Command, cli: Cli): void {
  command
    .option('--purge', 'then remove the state directory, with all tenants and their data')
    .option('--force', 'with --purge: also when tenants are left in a super cluster of yours')
    .option('-y, --yes', 'with --purge: do not ask on a terminal')
    .option('--dry-run', 'stop and remove nothing, and say what would be')
    .addHelpText('after', help)
    .action(async (_, chosen: Command) => down(cli, chosen.optsWithGlobals<Flags>()));
}

async function down(cli: Cli, flags: Flags): Promise<void> {
  const { directory: stateDir } = stateChoice(cli.env, flags);
  if (!(await isStateDirectory(stateDir))) {
    cli.stderr.write(`Nothing to stop: there is no local stack in ${stateDir}.\n`);
    return;
  }
  if (flags.dryRun) return sayWhat(cli, stateDir, flags.purge === true);
  if (flags.purge && hasTerminal(cli))
    await confirm(cli, flags, `Stop everything and remove ${stateDir}, with all tenants and their data?`);
  await withProgress(cli, async (progress) => {
    await stopStack(cli, { stateDir, progress, purge: flags.purge === true, force: flags.force === true });
    if (!flags.purge) return progress.note(`Stopped. The state is kept in ${stateDir}.`);
    await rm(stateDir, { recursive: true, force: true });
    progress.note(`Removed ${stateDir}.`);
  });
}

async function sayWhat(cli: Cli, stateDir: string, purge: boolean): Promise<void> {
  const supervisor = await findSupervisor(stateDir, cli.clock);
  const ids = await controlPlanesIn(controlPlanesDirectory(stateDir));
  const stack = supervisor === undefined ? 'the local stack' : `the local stack (process ${supervisor.pid})`;
  const tenants = `${ids.length} tenant control plane${ids.length === 1 ? '' : 's'}`;
  const lines = [`${stack} and ${tenants} would be stopped (dry run)`];
  if (purge)
    lines.push(`${stateDir} would be removed, with all tenants and their data: there is no way back`);
  cli.stdout.write(`${lines.join('\n')}\n`);
}

const supervisorTimeoutMs = 120_000;
const pollMs = 100;

const silent: Progress = {
  step: () => ({ update: () => {}, done: () => {}, fail: () => {} }),
  note: () => {},
  close: () => {},
};

interface TakeDownOptions {
  stateDir: string;
  progress: Progress;
  purge: boolean;
  force: boolean;
}

/** Makes the supervisor stop everything, if one runs, and then stops whatever is left. */
async function stopStack(cli: Cli, { stateDir, progress, purge, force }: TakeDownOptions): Promise<void> {
  const { clock, signal } = cli;
  if (purge && !force) await refuseIfTenantsRemain(stateDir, signal);
  const supervisor = await findSupervisor(stateDir, clock);
  if (supervisor !== undefined) {
    await withStep(progress, `Asking process ${supervisor.pid} to stop everything`, async () => {
      const identity = await identify(supervisor.pid);
      send(supervisor.pid, 'SIGTERM');
      const deadline = clock.monotonic() + supervisorTimeoutMs;
      // It releases the lock shortly before it ends.
      const isThere = async (): Promise<boolean> =>
        (identity !== undefined && (await isAlive(identity))) ||
        (await holdsStateLock(stateDir, supervisor.pid, clock));
      while (await isThere()) {
        if (clock.monotonic() > deadline) {
          throw new CliError(
            'TimedOut',
            `process ${supervisor.pid} has not ended within ${supervisorTimeoutMs / 1000} s: see what it says, or end it with "kill -9 ${supervisor.pid}" and repeat "vc-manager down"`,
          );
        }
        await clock.sleep(pollMs, signal);
      }
    });
  }
  // After a supervisor that was killed everything still runs; after one that ended in order nothing is left to report.
  const shown = supervisor === undefined ? progress : silent;
  await withStateLock({ stateDir, clock, signal }, () => stopAll({ stateDir, progress: shown, signal }));
}

/** Throws when tenants are left in a super cluster that is not local: without its manager their objects would stay there. */
async function refuseIfTenantsRemain(stateDir: string, signal: AbortSignal): Promise<void> {
  const settings = await readSettings(stateDir);
  if (settings === undefined || settings.superCluster === 'local') return;
  const { kubeconfig, context } = settings.superCluster;
  const names = await tenantsOf(kubeconfig, context, signal).catch((error: unknown) => {
    throw new CliError(
      'StateUnusable',
      `whether tenants are left in the super cluster cannot be found out (${describeFailure(error).message}): ` +
        'repeat when it can be reached, or add --force',
      { cause: error },
    );
  });
  if (names.length === 0) return;
  throw new CliError(
    'StateUnusable',
    `the super cluster of ${kubeconfig} still has tenants (${names.slice(0, 5).join(', ')}${names.length > 5 ? ', ...' : ''}), and purging ` +
      'removes their data: delete them first with "vc-manager delete NAME --wait", or add --force and clean up by hand. ' +
      'Those called warm-... go when "up" runs with --warm 0',
  );
}

async function tenantsOf(
  kubeconfig: string,
  context: string | undefined,
  signal: AbortSignal,
): Promise<string[]> {
  return withConnection(await loadKubeconfig(kubeconfig, context), async (client) => {
    const { items } = await client.list(resources.virtualClusters, { signal, timeoutMs: 15_000 });
    return items.map(({ metadata }) => `${metadata.namespace}/${metadata.name}`);
  });
}

function send(pid: number, signal: NodeJS.Signals): void {
  try {
    process.kill(pid, signal);
  } catch (error) {
    if ((error as NodeJS.ErrnoException).code !== 'ESRCH') throw error;
  }
}
