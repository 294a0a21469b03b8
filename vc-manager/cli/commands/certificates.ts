import { type Command, Option } from 'commander';
import { duration } from '../arguments.ts';
import type { Cli, GlobalFlags } from '../context.ts';
import { invalidArgument } from '../errors.ts';
import { renewCertificates } from '../jobs/renew.ts';
import { checkedRef } from '../virtual-clusters.ts';

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
