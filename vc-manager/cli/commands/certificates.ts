import { Argument, type Command } from 'commander';
import { annotationKeys } from '../../../api/labels.ts';
import type { VirtualCluster } from '../../../api/virtual-cluster.ts';
import { tenantArgument, waitTimeoutOption, withCompletion } from '../command-line.ts';
import type { Cli, GlobalFlags } from '../context.ts';
import { CliError, invalidArgument } from '../errors.ts';
import { requestAndWait, sendRequest } from '../manager-request.ts';
import { withSuperCluster } from '../super-cluster.ts';
import { getVirtualCluster, validRef } from '../virtual-clusters.ts';

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
    .addArgument(
      withCompletion(new Argument('<verb>', 'renew'), () => [
        { word: 'renew', about: 'issue all of a control plane anew' },
      ]),
    )
    .addArgument(tenantArgument('<name>'))
    .option('-n, --namespace <namespace>', 'namespace of the VirtualCluster', 'default')
    .option('--wait', 'return when the control plane has taken them up')
    .addOption(waitTimeoutOption())
    .addHelpText('after', help)
    .action(async (verb: string, name: string, _, chosen: Command) => {
      if (verb !== 'renew')
        throw invalidArgument(`there is no "certificates ${verb}": use "certificates renew NAME"`);
      await renewCertificates(cli, name, chosen.optsWithGlobals<Flags>());
    });
}

async function renewCertificates(cli: Cli, name: string, flags: Flags): Promise<void> {
  const ref = validRef(name, flags.namespace);
  await withSuperCluster(cli, flags, async (client) => {
    refuseIfNotRunning(await getVirtualCluster(client, ref, cli.signal));
    const asked = new Date(cli.clock.now()).toISOString();
    const request = { client, ref, annotation: annotationKeys.renewCertificates, value: asked };
    if (!flags.wait) {
      await sendRequest(request, cli.signal);
      cli.stdout.write(`new certificates for ${name} are asked for: see "vc-manager jobs ${name}"\n`);
      return;
    }
    const until = isRenewed(name, asked);
    await requestAndWait(cli, request, { timeoutMs: flags.timeout, what: 'renew its certificates', until });
    cli.stdout.write(`certificates of ${name} renewed\n`);
  });
}

/** Throws `Conflict` for a tenant whose control plane the manager does not renew in its present state. */
export function refuseIfNotRunning({ metadata, status }: VirtualCluster): void {
  const { name } = metadata;
  if (metadata.deletionTimestamp !== undefined) throw new CliError('Conflict', `${name} is being deleted`);
  if (status?.phase === 'Cancelled')
    throw new CliError(
      'Conflict',
      `the creation of ${name} was cancelled: "vc-manager jobs retry ${name}" begins it anew, with new certificates`,
    );
}

/**
 * For `waitFor`: true when the control plane uses certificates that were issued after the request, by the renewal, by
 * another job that was under way, or by a later request. Throws `Conflict` when the renewal was cancelled.
 */
export function isRenewed(name: string, asked: string): (found: VirtualCluster | undefined) => boolean {
  let renewal: string | undefined;
  return (found) => {
    if (found === undefined) throw new CliError('NotFound', `${name} is gone`);
    const { renewed = '', current, history: [last] = [] } = found.status?.jobs ?? {};
    if (current?.kind === 'renewal') renewal = current.id;
    if (renewed < asked || current !== undefined) return false;
    // A renewal that was superseded by a change of version is Cancelled too, but is not the last job.
    if (last !== undefined && last.id === renewal && last.result === 'Cancelled')
      throw new CliError('Conflict', `the renewal of ${name} was cancelled`);
    return true;
  };
}
