import { type Command, Option } from 'commander';
import { annotationKeys } from '../../../api/labels.ts';
import type { VirtualCluster } from '../../../api/virtual-cluster.ts';
import { duration } from '../arguments.ts';
import type { Cli, GlobalFlags } from '../context.ts';
import { CliError, invalidArgument } from '../errors.ts';
import { withSuperCluster } from '../super-cluster.ts';
import { checkedRef, getVirtualCluster, type VirtualClusterRef } from '../virtual-clusters.ts';
import { annotateVirtualCluster, awaitManager, type RequestFlags } from './jobs.ts';

interface Flags extends GlobalFlags {
  namespace: string;
  wait?: boolean;
  timeout: number;
}

const help = `
The manager renews certificates by itself, when two thirds of their life are over. "certificates renew" has it do so now:
every certificate and kubeconfig of the control plane is issued anew by the same authorities, as a job. The API server
is started anew for that. Kubeconfigs and service account tokens that were handed out stay valid until their own end.

Examples:
  vc-manager certificates renew team-blue --wait
  vc-manager certificates renew team-blue -n teams`;

export function configure(command: Command, cli: Cli): void {
  command
    .usage('renew NAME [options]')
    .argument('<verb>', 'renew')
    .argument('<name>', 'of the tenant')
    .option('-n, --namespace <namespace>', 'namespace of the VirtualCluster', 'default')
    .option('--wait', 'return when the control plane has taken them up')
    .addOption(
      new Option('--timeout <duration>', 'how long --wait waits').argParser(duration).default(300_000, '5m'),
    )
    .addHelpText('after', help)
    .action(async (verb: string, name: string, _, chosen: Command) => {
      if (verb !== 'renew') throw invalidArgument(`"certificates ${verb}" is not understood: "renew" is`);
      const flags = chosen.optsWithGlobals<Flags>();
      await renewCertificates(cli, checkedRef(name, flags.namespace), flags);
    });
}

/** Asks for new certificates; with `wait` it returns when the control plane has taken them up. */
export async function renewCertificates(
  cli: Cli,
  ref: VirtualClusterRef,
  flags: RequestFlags & { wait?: boolean },
): Promise<void> {
  await withSuperCluster(cli, flags, async (client) => {
    const { name } = ref;
    refuseIfNotRunning(await getVirtualCluster(client, ref, cli.signal));
    const asked = new Date(cli.clock.now()).toISOString();
    await annotateVirtualCluster(client, ref, annotationKeys.renewCertificates, asked, cli.signal);
    if (!flags.wait) {
      cli.stdout.write(`new certificates for ${name} are asked for: see "vc-manager jobs ${name}"\n`);
      return;
    }
    const until = isRenewed(name, asked);
    await awaitManager(cli, client, { ref, flags, what: 'renew its certificates' }, until);
    cli.stdout.write(`certificates of ${name} renewed\n`);
  });
}

/** Those for whom a manager does nothing now. */
function refuseIfNotRunning({ metadata, status }: VirtualCluster): void {
  const { name } = metadata;
  if (metadata.deletionTimestamp !== undefined) throw new CliError('Conflict', `${name} is being deleted`);
  if (status?.phase === 'Cancelled')
    throw new CliError(
      'Conflict',
      `the creation of ${name} was cancelled: "vc-manager jobs retry ${name}" begins it anew, with new certificates`,
    );
}

/**
 * Whether the control plane has taken up what was asked for, as each state of its VirtualCluster tells: by the renewal,
 * by whatever other job was under way, or along with a later request. Throws `Conflict` when the renewal was cancelled.
 */
export function isRenewed(name: string, asked: string): (found: VirtualCluster | undefined) => boolean {
  let renewal: string | undefined;
  return (found) => {
    if (found === undefined) throw new CliError('NotFound', `${name} is gone`);
    const { renewed = '', current, history: [last] = [] } = found.status?.jobs ?? {};
    if (current?.kind === 'renewal') renewal = current.id;
    if (renewed < asked || current !== undefined) return false;
    // One that made way for a change of version has ended in the same way, but is not the last.
    if (last !== undefined && last.id === renewal && last.result === 'Cancelled')
      throw new CliError('Conflict', `the renewal of ${name} was cancelled`);
    return true;
  };
}
