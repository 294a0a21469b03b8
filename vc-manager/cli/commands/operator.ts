import { randomUUID } from 'node:crypto';
import { hostname } from 'node:os';
import { type Command, Option } from 'commander';
import { dnsChoices } from '../../../api/virtual-cluster.ts';
import { duration, hostAndPort, ipAddress, portRange, repeatable, wholeNumber } from '../arguments.ts';
import type { Cli } from '../context.ts';
import { defaultStorageClass, driverChoices } from '../operator/drivers.ts';
import type { OperatorFlags } from '../operator/run-operator.ts';
import { stateChoice } from '../state/state-directory.ts';

const help = `
Makes and removes tenant control planes for the VirtualClusters of a super cluster. Control planes run on when the
manager stops; the next one on the same state directory takes them over. Of several managers one works at a time, unless
--redis lets them share jobs (a queue of BullMQ). Nothing is lost with Redis: while it is away, one manager works on.

The datastore is an etcd with client certificates of the authority in STATE/datastore/pki, or in the Secret of
--pki-secret, which is made on the first start.

With --driver compose control planes are Docker Compose projects on this machine's Docker engine, on the host's network.
The engine keeps them running without a manager. "docker info" and "docker compose version" have to work here.

With --driver kubernetes control planes run in the super cluster, each in a namespace of its own, and are reached at
service addresses: the manager and the syncer have to run where those lead somewhere, which is in the cluster.

Examples:
  vc-manager operator --kubeconfig FILE --etcd-endpoint https://10.0.0.5:2379 \\
    --state-dir /var/lib/skerry --bind-address 0.0.0.0 --advertise-address 10.0.0.5
  vc-manager operator --driver kubernetes --tenant-replicas 2 \\
    --etcd-endpoint https://skerry-etcd.skerry-system.svc:2379`;

export function configure(command: Command, cli: Cli): void {
  command
    .requiredOption('--etcd-endpoint <url>', "the tenants' datastore")
    .addOption(
      new Option(
        '--driver <driver>',
        'what runs control planes: processes of this machine, containers of its Docker engine, or pods',
      )
        .choices(driverChoices)
        .default('process'),
    )
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
    .option(
      '--tenant-replicas <n>',
      'API servers and controllers per tenant (kubernetes)',
      wholeNumber(1, 9),
      1,
    )
    .option(
      '--process-keeper <socket>',
      'Unix socket of a program that starts control planes, where this one may not outlive them (process): see docs/docker.md',
    )
    .option('--image-registry <registry>', 'in place of registry.k8s.io (compose, kubernetes)')
    .option(
      '--storage-class <name>',
      `for an etcd of a tenant's own; "${defaultStorageClass}": the cluster's default (kubernetes). Without it such an etcd loses its data with its pod`,
    )
    .option('--storage-size <quantity>', 'for the same', '2Gi')
    .option(
      '--tenant-egress <cidr>',
      "one more range that tenants' API servers may dial, such as that of a syncer outside of the cluster; repeatable (kubernetes)",
      repeatable,
    )
    .option('--service-pool <cidr>', 'range of service addresses for all tenants', '10.112.0.0/12')
    .option('--slice-prefix-length <n>', "size of each tenant's part of it", wholeNumber(1, 124), 22)
    .addOption(
      new Option('--dns <server>', 'what VirtualClusters have that do not choose when they are made')
        .choices([...dnsChoices])
        .default('coredns'),
    )
    .option('--redis <url>', 'share jobs with other managers, as redis://HOST:6379 (or set SKERRY_REDIS)')
    .option('--system-namespace <namespace>', 'for what belongs to Skerry itself', 'skerry-system')
    .option(
      '--pki-secret <name>',
      'keep its authorities in this Secret of the system namespace, for several managers to share (default: in the state directory)',
    )
    .option(
      '--etcd-secret <name>',
      "with --pki-secret: where the datastore's server certificate is put",
      'skerry-etcd',
    )
    .option(
      '--kubelet-proxy-host <host>',
      'one more name or address at which tenants reach a syncer, for its certificate; "*." in front: all names below; repeatable',
      repeatable,
    )
    .option(
      '--health-address <host:port>',
      'where /healthz, /readyz and /metrics are served (default: nowhere)',
      hostAndPort,
    )
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
