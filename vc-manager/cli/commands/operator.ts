import { randomUUID } from 'node:crypto';
import { hostname } from 'node:os';
import { type Command, Option } from 'commander';
import { dnsChoices } from '../../api/index.ts';
import { duration, ipAddress, portRange, repeatable, wholeNumber } from '../arguments.ts';
import type { Cli } from '../context.ts';
import type { OperatorFlags } from '../operator/run-operator.ts';
import { stateChoice } from '../state/state-directory.ts';

const help = `
Makes and removes tenant control planes for the VirtualClusters of a super cluster. Control planes run on when the
manager stops; the next one on the same state directory takes them over. Of several managers one works at a time.

The datastore is an etcd with client certificates of the authority in STATE/datastore/pki, which is made on the
first start.

Example:
  vc-manager operator --kubeconfig FILE --etcd-endpoint https://10.0.0.5:2379 \\
    --state-dir /var/lib/skerry --bind-address 0.0.0.0 --advertise-address 10.0.0.5`;

export function configure(command: Command, cli: Cli): void {
  command
    .requiredOption('--etcd-endpoint <url>', "the tenants' datastore")
    .option('--bind-address <address>', "where tenants' API servers listen", ipAddress, '0.0.0.0')
    .option(
      '--advertise-address <address>',
      'how pods reach them (default: an address of this machine)',
      ipAddress,
    )
    .option('--endpoint-host <host>', 'host in the kubeconfigs that are handed out', '127.0.0.1')
    .option(
      '--extra-host <host>',
      "one more name or address in tenants' certificates; repeatable",
      repeatable,
    )
    .addOption(
      new Option('--port-range <first-last>', "ports for tenants' API servers")
        .argParser(portRange)
        .default({ first: 21_000, last: 21_999 }, '21000-21999'),
    )
    .option('--service-pool <cidr>', 'range of service addresses for all tenants', '10.112.0.0/12')
    .option('--slice-prefix-length <n>', "size of each tenant's part of it", wholeNumber(1, 124), 22)
    .addOption(
      new Option('--dns <server>', 'what VirtualClusters have that do not choose when they are made')
        .choices([...dnsChoices])
        .default('coredns'),
    )
    .option('--system-namespace <namespace>', 'for what belongs to Skerry itself', 'skerry-system')
    .option('--parallel <n>', 'tenants that are worked on at once', wholeNumber(1, 64), 4)
    .addOption(
      new Option('--recheck <duration>', 'how often each tenant is looked at when nothing happens')
        .argParser(duration)
        .default(60_000, '1m'),
    )
    .addOption(
      new Option('--identity <name>', 'who holds the lease; must differ from every other manager').default(
        `${hostname()}-${randomUUID().slice(0, 8)}`,
        'host name and a random word',
      ),
    )
    .option('--log-level <level>', 'trace, debug, info, warn or error', 'info')
    .addHelpText('after', help)
    .action(async (_, chosen: Command) => {
      const flags = chosen.optsWithGlobals<OperatorFlags>();
      const { runOperator } = await import('../operator/run-operator.ts');
      await runOperator(cli, { ...flags, stateDir: stateChoice(cli.env, flags).directory });
    });
}
