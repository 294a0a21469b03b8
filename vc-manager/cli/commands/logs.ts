import { Argument, type Command } from 'commander';
import { defaultDriver, traitsOf } from '../../../api/drivers.ts';
import { nameTenant } from '../../../api/names.ts';
import { type KubeClient, printable } from '../../../kube/index.ts';
import type { ControlPlaneDriver } from '../../drivers/driver.ts';
import { DriverError } from '../../drivers/errors.ts';
import { ProcessDriver } from '../../drivers/process/process-driver.ts';
import { wholeNumber } from '../arguments.ts';
import { tenantArgument, withCompletion, wordsOnly } from '../command-line.ts';
import type { Cli, GlobalFlags } from '../context.ts';
import { noBinaries, noteProblems, readOnlyDriver } from '../drivers.ts';
import { CliError, invalidArgument } from '../errors.ts';
import { stateChoice } from '../state-directory.ts';
import { withSuperCluster } from '../super-cluster.ts';
import { stackId } from '../up/stop.ts';
import { getVirtualCluster, type VirtualClusterRef, validRef } from '../virtual-clusters.ts';

interface Flags extends GlobalFlags {
  namespace: string;
  stack?: boolean;
  follow?: boolean;
  tail?: number;
}

const help = `
Examples:
  vc-manager logs team-blue                      all components of its control plane, each line with its name
  vc-manager logs team-blue kube-apiserver -f --tail 20
  vc-manager logs --stack vc-syncer              a component of the local stack; without one: all of them`;

export function configure(command: Command, cli: Cli): void {
  command
    .addArgument(tenantArgument('[name]'))
    .addArgument(
      withCompletion(
        new Argument(
          '[component]',
          'kube-apiserver, kube-controller-manager or, of a tenant with its own datastore, etcd (default: all)',
        ),
        () => wordsOnly(['kube-apiserver', 'kube-controller-manager', 'etcd']),
      ),
    )
    .option('-n, --namespace <namespace>', 'namespace of the VirtualCluster', 'default')
    .option('--stack', 'the local stack instead of a tenant; the only argument is then the component')
    .option('-f, --follow', 'go on with what is added')
    .option('--tail <lines>', 'only so many lines of what is there', wholeNumber(0))
    .addHelpText('after', help)
    .action(async (name: string | undefined, component: string | undefined, _, chosen: Command) =>
      logs(cli, name, component, chosen.optsWithGlobals<Flags>()),
    );
}

async function logs(
  cli: Cli,
  name: string | undefined,
  component: string | undefined,
  flags: Flags,
): Promise<void> {
  const { directory } = stateChoice(cli.env, flags);
  if (flags.stack) return print(cli, await stackLogs(directory, name, component), flags);
  if (name === undefined) throw invalidArgument('give the NAME of a tenant, or --stack');
  const ref = validRef(name, flags.namespace);
  await withSuperCluster(cli, flags, async (client) => {
    await print(cli, await tenantLogs(cli, client, { directory, ref, component }), flags);
  });
}

async function print(cli: Cli, place: LogSource, flags: Flags): Promise<void> {
  const { driver, id } = place;
  const components = place.component === undefined ? await componentsOf(place) : [place.component];
  const longest = Math.max(...components.map((each) => each.length));
  const ended = new AbortController();
  const options = {
    signal: AbortSignal.any([cli.signal, ended.signal]),
    follow: flags.follow === true,
    tailLines: flags.tail,
  };
  const printOne = async (each: string): Promise<void> => {
    const prefix = components.length === 1 ? '' : `${each.padEnd(longest)} | `;
    for await (const line of driver.logs(id, each, options)) {
      // Wait for a slow reader, so that lines do not pile up in memory.
      if (!cli.stdout.write(`${prefix}${shownLine(line, cli.stdout)}\n`)) await drained(cli.stdout);
    }
  };
  try {
    // With --follow, lines of all components interleave as they arrive; otherwise one component follows the other.
    if (flags.follow) await Promise.all(components.map(printOne));
    else for (const each of components) await printOne(each);
  } catch (error) {
    throw withTenantName(error, id, place.name);
  } finally {
    ended.abort();
  }
}

/** `NotFound` for a component that the control plane does not have, by the name that people know; else the error. */
export function withTenantName(error: unknown, id: string, name: string): unknown {
  if (!(error instanceof DriverError && error.code === 'UnknownComponent')) return error;
  return new CliError('NotFound', nameTenant(error.message, id, name), { cause: error });
}

const longestLine = 64 * 1024;

/** API servers log what tenants send: a terminal gets nothing to act on, a file or a pipe gets what was logged. */
export function shownLine(line: string, { isTTY }: { isTTY?: boolean }): string {
  return isTTY === true ? printable(line, longestLine) : line;
}

interface LogSource {
  driver: ControlPlaneDriver;
  id: string;
  /** As people know it. */
  name: string;
  component: string | undefined;
}

async function stackLogs(
  directory: string,
  name: string | undefined,
  extra: string | undefined,
): Promise<LogSource> {
  if (extra !== undefined) throw invalidArgument('with --stack, give at most one component');
  const driver = reader(directory);
  if (!(await driver.list()).includes(stackId)) {
    throw new CliError('NotFound', `there is no local stack in ${directory}: "vc-manager up" starts one`);
  }
  return { driver, id: stackId, name: 'the local stack', component: name };
}

async function tenantLogs(
  cli: Cli,
  client: KubeClient,
  { directory, ref, component }: { directory: string; ref: VirtualClusterRef; component: string | undefined },
): Promise<LogSource> {
  const { clock, signal } = cli;
  const { name } = ref;
  const vc = await getVirtualCluster(client, ref, signal);
  const id = vc.status?.id;
  if (id === undefined) {
    throw new CliError(
      'NotReady',
      `${name} has no control plane yet: see "vc-manager describe ${name} -n ${ref.namespace}"`,
    );
  }
  const driverName = vc.status?.driver ?? defaultDriver;
  const driver = readOnlyDriver(driverName, {
    stateDir: directory,
    client,
    clock,
    onProblem: noteProblems(cli),
  });
  if (!(await driver.list()).includes(id)) {
    if (traitsOf(driverName).runsIn === 'cluster') {
      throw new CliError('NotFound', `the control plane of ${name} has no namespace in the super cluster`);
    }
    throw new CliError(
      'NotFound',
      `the control plane of ${name} is not on this machine below ${directory}: ask where its manager runs, or give --state-dir`,
    );
  }
  return { driver, id, name, component };
}

async function componentsOf({ driver, id, name }: LogSource): Promise<string[]> {
  const { components } = await driver.observe(id);
  if (components.length > 0) return components.map(({ name }) => name);
  throw new CliError(
    'NotFound',
    `nothing of ${name} runs: name the component whose log you want, for example kube-apiserver`,
  );
}

function reader(root: string): ControlPlaneDriver {
  return new ProcessDriver({ root, binaries: noBinaries });
}

function drained(stream: NodeJS.WritableStream): Promise<void> {
  return new Promise((resolve) => stream.once('drain', resolve));
}
