import { type Command, Option } from 'commander';
import { nameProblem as validateName } from '../../../api/names.ts';
import type { PodList, PodReport } from '../../../api/pod-report.ts';
import type { VirtualCluster } from '../../../api/virtual-cluster.ts';
import { type KubeClient, resources } from '../../../kube/index.ts';
import { wholeNumber } from '../arguments.ts';
import type { Cli, GlobalFlags } from '../context.ts';
import { CliError, invalidArgument } from '../errors.ts';
import { json } from '../output/format.ts';
import { withSuperCluster } from '../super-cluster.ts';
import { traceFromObjects } from '../trace/from-objects.ts';
import { askReplicas, findReplicas, namedReplica, type Replica, whyUnknown } from '../trace/replicas.ts';
import { slowestTable } from '../trace/slowest-table.ts';
import { waterfall } from '../trace/waterfall.ts';
import { checkedRef, getVirtualCluster } from '../virtual-clusters.ts';

interface Flags extends GlobalFlags {
  tenant?: string;
  namespace?: string;
  slowest?: number | true;
  syncer?: string;
  systemNamespace: string;
  output?: 'json';
}

const listedByDefault = 10;
const mostListed = 1_000;
const podName = /^[a-z0-9]([-.a-z0-9]{0,251}[a-z0-9])?$/;

const help = `
The syncer remembers the way of the latest pods (10,000) since it has started. Of an older one, only what the objects
themselves say is told, in whole seconds.

Examples:
  vc-manager trace web-6d5f8-x2x7k -n shop -t team-blue      where the time went
  vc-manager trace -t team-blue                               the slowest pods of a tenant, and what is usual
  vc-manager trace -t teams/blue --slowest 50 -o json`;

export function configure(command: Command, cli: Cli): void {
  command
    .argument('[pod]', 'its name in the tenant (default: list the slowest ones)')
    .option('-n, --namespace <namespace>', 'its namespace in the tenant (default: default; listing: all)')
    .option('-t, --tenant <[namespace/]name>', 'the VirtualCluster (default: the only one)')
    .addOption(
      new Option(
        '--slowest [pods]',
        `list so many of the slowest pods (default: ${listedByDefault})`,
      ).argParser(wholeNumber(1, mostListed)),
    )
    .option('--syncer <url>', 'ask the syncer at this address instead of those that have a Lease')
    .option('--system-namespace <namespace>', 'where the syncers have their Leases', 'skerry-system')
    .addOption(new Option('-o, --output <format>', 'print it as a program reads it').choices(['json']))
    .addHelpText('after', help)
    .action(async (pod: string | undefined, _, chosen: Command) =>
      trace(cli, pod, chosen.optsWithGlobals<Flags>()),
    );
}

async function trace(cli: Cli, pod: string | undefined, flags: Flags): Promise<void> {
  if (pod !== undefined && flags.slowest !== undefined)
    throw invalidArgument('give either a POD or --slowest');
  const badNamespace = flags.namespace === undefined ? undefined : validateName(flags.namespace);
  if (badNamespace !== undefined)
    throw invalidArgument(`the namespace "${flags.namespace}" is not valid: ${badNamespace}`);
  if (pod !== undefined && !podName.test(pod))
    throw invalidArgument(
      `"${pod}" is no name of a pod: those have lower-case letters, digits, dashes and dots`,
    );
  const named = flags.tenant === undefined ? undefined : tenantRef(flags.tenant);
  const given = flags.syncer === undefined ? undefined : namedReplica(flags.syncer);
  await withSuperCluster(cli, flags, async (client) => {
    const vc =
      named === undefined
        ? await onlyTenant(client, cli)
        : await getVirtualCluster(client, named, cli.signal);
    const replicas =
      given === undefined ? await findReplicas(client, flags.systemNamespace, cli.signal) : [given];
    if (pod === undefined) await listSlowest(cli, vc, replicas, flags);
    else
      await showPod(cli, client, vc, replicas, { namespace: flags.namespace ?? 'default', name: pod }, flags);
  });
}

async function showPod(
  cli: Cli,
  client: KubeClient,
  vc: VirtualCluster,
  replicas: readonly Replica[],
  pod: { namespace: string; name: string },
  flags: Flags,
): Promise<void> {
  const tenant = labelOf(vc);
  const answers = await askReplicas<PodReport>(replicas, { tenant, ...pod }, cli.signal);
  const known = answers.find((answer) => answer.is === 'answer');
  if (known !== undefined) {
    const { body, replica } = known;
    cli.stdout.write(
      flags.output === 'json'
        ? json({ source: 'syncer', syncer: replica.name, ...body })
        : waterfall(body, 'milliseconds'),
    );
    return;
  }
  const report = await traceFromObjects(cli, client, vc, pod);
  const why = whyUnknown(answers, tenant, flags.systemNamespace);
  cli.stderr.write(
    `note: ${why}. What follows is what the objects themselves say, in whole seconds, and of their latest changes\n`,
  );
  cli.stdout.write(
    flags.output === 'json' ? json({ source: 'objects', ...report }) : waterfall(report, 'seconds'),
  );
}

async function listSlowest(
  cli: Cli,
  vc: VirtualCluster,
  replicas: readonly Replica[],
  flags: Flags,
): Promise<void> {
  const tenant = labelOf(vc);
  const slowest = typeof flags.slowest === 'number' ? flags.slowest : listedByDefault;
  const query = {
    tenant,
    slowest: String(slowest),
    ...(flags.namespace === undefined ? {} : { namespace: flags.namespace }),
  };
  const answers = await askReplicas<PodList>(replicas, query, cli.signal);
  const lists = answers.flatMap((answer) => (answer.is === 'answer' ? [answer.body] : []));
  // While a tenant is handed over, two may answer for it: the one that serves it knows more every moment.
  const [list] = lists.toSorted((a, b) => b.known - a.known);
  if (list === undefined)
    throw new CliError('NotRunning', whyUnknown(answers, tenant, flags.systemNamespace));
  cli.stdout.write(flags.output === 'json' ? json(list) : slowestTable(list));
  if (flags.output === undefined && list.known === 0) {
    const where = flags.namespace === undefined ? '' : ` in namespace ${flags.namespace}`;
    cli.stderr.write(`No pod of ${tenant}${where} has been created since the syncer has started.\n`);
  }
}

function tenantRef(text: string): { namespace: string; name: string } {
  const [first = '', second, more] = text.split('/');
  if (more !== undefined) throw invalidArgument(`"${text}" is no tenant: give NAME or NAMESPACE/NAME`);
  return second === undefined ? checkedRef(first, 'default') : checkedRef(second, first);
}

async function onlyTenant(client: KubeClient, { signal }: Cli): Promise<VirtualCluster> {
  const { items } = await client.list<VirtualCluster>(resources.virtualClusters, { signal });
  const [only, another] = items;
  if (only === undefined)
    throw new CliError('NotFound', 'there are no tenants: "vc-manager create NAME --wait" makes one');
  if (another === undefined) return only;
  const some = items.slice(0, 3).map(labelOf).join(', ');
  throw invalidArgument(
    `there are ${items.length} tenants (${some}${items.length > 3 ? ', ..' : ''}): add -t NAME`,
  );
}

function labelOf({ metadata }: VirtualCluster): string {
  return `${metadata.namespace}/${metadata.name}`;
}
