import type { Command } from 'commander';
import { annotationKeys } from '../../../api/labels.ts';
import type { VirtualCluster } from '../../../api/virtual-cluster.ts';
import { sleepRequest, wakeRequest } from '../../operator/sleep.ts';
import { tenantArgument, waitTimeoutOption } from '../command-line.ts';
import type { Cli, GlobalFlags } from '../context.ts';
import { CliError } from '../errors.ts';
import { requestAndWait, sendRequest } from '../manager-request.ts';
import { withSuperCluster } from '../super-cluster.ts';
import { getVirtualCluster, namespaceFlag, validRef } from '../virtual-clusters.ts';

interface Flags extends GlobalFlags {
  namespace: string;
  wait?: boolean;
  timeout: number;
}

const sleepHelp = `
Stops all processes of a tenant's control plane. Its pods keep running and nothing is deleted. It starts again when a client
connects through the gateway, with "vc-manager wake", and for operations that need it, such as an upgrade or a restore. To stop
unused control planes automatically, set spec.sleep.afterIdle.

Examples:
  vc-manager sleep team-blue --wait
  kubectl patch virtualcluster team-blue --type merge -p '{"spec":{"sleep":{"afterIdle":"30m"}}}'`;

const wakeHelp = `
Starts the control plane of a tenant that is asleep.

Examples:
  vc-manager wake team-blue --wait`;

export function configureSleep(command: Command, cli: Cli): void {
  common(command, 'return when the control plane is stopped')
    .addHelpText('after', sleepHelp)
    .action(async (name: string, _, chosen: Command) => sleep(cli, name, chosen.optsWithGlobals<Flags>()));
}

export function configureWake(command: Command, cli: Cli): void {
  common(command, 'return when its API server is ready')
    .addHelpText('after', wakeHelp)
    .action(async (name: string, _, chosen: Command) => wake(cli, name, chosen.optsWithGlobals<Flags>()));
}

function common(command: Command, wait: string): Command {
  return command
    .addArgument(tenantArgument('<name>'))
    .option('-n, --namespace <namespace>', 'namespace of the VirtualCluster', 'default')
    .option('--wait', wait)
    .addOption(waitTimeoutOption());
}

async function sleep(cli: Cli, name: string, flags: Flags): Promise<void> {
  await ask(cli, name, flags, {
    annotation: annotationKeys.sleep,
    what: 'put it to sleep',
    isThere: (vc) =>
      vc.status?.phase === 'Asleep' && vc.status.sleep?.stopped === true && wakeRequest(vc) === undefined,
    already: `${name} is asleep already`,
    asked: `${name} is asked to sleep: see "vc-manager list"`,
    done: `${name} is asleep`,
    check: refuseSleep,
  });
}

/** Throws `Conflict` for a tenant that cannot sleep yet. */
export function refuseSleep({ metadata, status }: VirtualCluster): void {
  if (status?.identities?.tenant === undefined)
    throw new CliError('Conflict', `${metadata.name} has not been ready yet: it can sleep when it is`);
}

async function wake(cli: Cli, name: string, flags: Flags): Promise<void> {
  await ask(cli, name, flags, {
    annotation: annotationKeys.wake,
    what: 'wake it',
    isThere: (vc) => vc.status?.phase === 'Ready' && sleepRequest(vc) === undefined,
    already: `${name} is awake already`,
    asked: `${name} is woken: see "vc-manager list"`,
    done: `${name} is awake`,
    check: refuseWake,
  });
}

/** Throws `Conflict` for a tenant that is neither asleep nor awake. */
export function refuseWake({ metadata, status }: VirtualCluster): void {
  if (status?.phase !== 'Asleep' && status?.phase !== 'Ready')
    throw new CliError('Conflict', `${metadata.name} is not asleep, but ${status?.phase ?? 'Pending'}`);
}

interface Request {
  annotation: string;
  what: string;
  isThere: (vc: VirtualCluster) => boolean;
  already: string;
  asked: string;
  done: string;
  /** Throws what speaks against it. */
  check: (vc: VirtualCluster) => void;
}

async function ask(cli: Cli, name: string, flags: Flags, request: Request): Promise<void> {
  const ref = validRef(name, flags.namespace);
  const { annotation, what, isThere, already, asked, done, check } = request;
  await withSuperCluster(cli, flags, async (client) => {
    const before = await getVirtualCluster(client, ref, cli.signal);
    check(before);
    if (isThere(before)) {
      cli.stdout.write(`${already}\n`);
      return;
    }
    const value = new Date(cli.clock.now()).toISOString();
    const sent = { client, ref, annotation, value };
    if (!flags.wait) {
      await sendRequest(sent, cli.signal);
      cli.stdout.write(`${asked}\n`);
      return;
    }
    await requestAndWait(cli, sent, {
      timeoutMs: flags.timeout,
      what,
      until: (found) => {
        if (found.status?.phase === 'Failed')
          throw new CliError(
            'Conflict',
            `${name} has failed: see "vc-manager describe ${name}${namespaceFlag(ref.namespace)}"`,
          );
        return isThere(found);
      },
    });
    cli.stdout.write(`${done}\n`);
  });
}
