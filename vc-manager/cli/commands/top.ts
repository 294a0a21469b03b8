import type { Command } from 'commander';
import type { VirtualCluster } from '../../../api/virtual-cluster.ts';
import { parseQuantity } from '../../../kube/index.ts';
import { outputOption, tenantArgument } from '../command-line.ts';
import type { Cli, GlobalFlags } from '../context.ts';
import { serialize, type TableFormat, table } from '../output.ts';
import { withSuperCluster } from '../super-cluster.ts';
import { oneOrAllTenants } from '../virtual-clusters.ts';

interface Flags extends GlobalFlags {
  namespace?: string;
  output: TableFormat;
}

const help = `
What tenants use now, the one with most CPU first: what their pods use and have reserved, what their volumes ask for, and what they
take in the datastore; pod hours and requests to their API servers since this month began (UTC). Syncer and manager say it every
few minutes. "vc-manager usage" has the rest of this month, and earlier ones.

Examples:
  vc-manager top
  vc-manager top team-blue
  vc-manager top -o json`;

export function configure(command: Command, cli: Cli): void {
  command
    .addArgument(tenantArgument('[name]'))
    .option('-n, --namespace <namespace>', 'of the VirtualCluster (default: all, or "default" with a name)')
    .addOption(outputOption())
    .addHelpText('after', help)
    .action(async (name: string | undefined, _, chosen: Command) =>
      top(cli, name, chosen.optsWithGlobals<Flags>()),
    );
}

/** In pods, cores and bytes; what is not known is absent. */
interface TopRow {
  tenant: string;
  pods?: number;
  cpu?: number;
  cpuRequests?: number;
  memoryBytes?: number;
  memoryRequestsBytes?: number;
  storageBytes?: number;
  datastoreBytes?: number;
  /** Since this month began. */
  podHours?: number;
  apiCalls?: number;
}

async function top(cli: Cli, name: string | undefined, flags: Flags): Promise<void> {
  const of = { namespace: flags.namespace, signal: cli.signal };
  const items = await withSuperCluster(cli, flags, (client) => oneOrAllTenants(client, name, of));
  const rows = items
    .map((vc) => topRow(vc, cli.clock.now()))
    .sort((a, b) => weight(b) - weight(a) || (a.tenant < b.tenant ? -1 : 1));
  if (flags.output !== 'table') cli.stdout.write(serialize(flags.output, rows));
  else if (rows.length > 0) cli.stdout.write(topTable(rows));
  else cli.stderr.write('There are no tenants.\n');
}

function weight({ cpu, cpuRequests }: TopRow): number {
  return cpu ?? cpuRequests ?? -1;
}

export function topRow({ metadata, status }: VirtualCluster, nowMs: number): TopRow {
  const { pods, cpu, memory, resources: of = {}, month } = status?.usage ?? {};
  const thisMonth = month?.of === new Date(nowMs).toISOString().slice(0, 7) ? month : undefined;
  const amounts = {
    pods,
    cpu: parseQuantity(cpu),
    cpuRequests: parseQuantity(of['requests.cpu']),
    memoryBytes: parseQuantity(memory),
    memoryRequestsBytes: parseQuantity(of['requests.memory']),
    storageBytes: parseQuantity(of['requests.storage']),
    datastoreBytes: status?.datastoreUsage?.bytes,
    podHours: thisMonth?.podHours,
    apiCalls: thisMonth?.apiCalls,
  };
  const known = Object.entries(amounts).filter(([, amount]) => amount !== undefined);
  return { tenant: `${metadata.namespace}/${metadata.name}`, ...Object.fromEntries(known) };
}

export function topTable(rows: readonly TopRow[]): string {
  const cores = (amount: number | undefined): string =>
    amount === undefined ? '-' : `${Math.round(1_000 * amount)}m`;
  const mebibytes = (amount: number | undefined): string =>
    amount === undefined ? '-' : `${Math.ceil(amount / 2 ** 20)}Mi`;
  return table(
    [
      'TENANT',
      'PODS',
      'CPU',
      'RESERVED',
      'MEMORY',
      'RESERVED',
      'STORAGE',
      'DATASTORE',
      'POD HOURS',
      'API CALLS',
    ],
    rows.map((row) => [
      row.tenant,
      String(row.pods ?? '-'),
      cores(row.cpu),
      cores(row.cpuRequests),
      mebibytes(row.memoryBytes),
      mebibytes(row.memoryRequestsBytes),
      mebibytes(row.storageBytes),
      mebibytes(row.datastoreBytes),
      row.podHours?.toFixed(1) ?? '-',
      String(row.apiCalls ?? '-'),
    ]),
  );
}
