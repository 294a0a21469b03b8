import { type Command, Option } from 'commander';
import type { VirtualCluster } from '../../../api/virtual-cluster.ts';
import {
  isForbidden,
  isNotFound,
  type KubeClient,
  type KubeList,
  namespacedName,
  resources,
} from '../../../kube/index.ts';
import type { Cli, GlobalFlags } from '../context.ts';
import { CliError } from '../errors.ts';
import {
  ageSince,
  json,
  listOf,
  type OutputFormat,
  outputFormats,
  resourceName,
  table,
  yaml,
} from '../output.ts';
import { withSuperCluster } from '../super-cluster.ts';
import { checkNamespace, listTenants, namespaceFlag, problems } from '../virtual-clusters.ts';

interface Flags extends GlobalFlags {
  namespace?: string;
  allNamespaces?: boolean;
  selector?: string;
  output: OutputFormat;
}

const help = `
Examples:
  vc-manager list
  vc-manager ls -n teams -o wide
  vc-manager list -o json | jq -r '.items[].status.endpoint'`;

export function configure(command: Command, cli: Cli): void {
  command
    .option('-n, --namespace <namespace>', 'only those of this namespace (default: all)')
    .option('-A, --all-namespaces', 'those of all namespaces, which is the default')
    .option('-l, --selector <selector>', 'only those with these labels')
    .addOption(
      new Option('-o, --output <format>', 'how to print them').choices(outputFormats).default('table'),
    )
    .addHelpText('after', help)
    .action(async (_, chosen: Command) => list(cli, chosen.optsWithGlobals<Flags>()));
}

async function list(cli: Cli, flags: Flags): Promise<void> {
  const namespace = flags.allNamespaces ? undefined : flags.namespace;
  const tenants = await withSuperCluster(cli, flags, async (client) => {
    const found = await listTenants(client, { namespace, labelSelector: flags.selector, signal: cli.signal });
    if (found.length === 0 && namespace !== undefined)
      await refuseMissingNamespace(client, namespace, cli.signal);
    return found;
  });
  cli.stdout.write(render(tenants, flags.output, cli.clock.now()));
  if (tenants.length === 0 && (flags.output === 'table' || flags.output === 'wide')) {
    const where = namespace === undefined ? '' : ` in namespace ${namespace}`;
    const flag = namespace === undefined ? '' : namespaceFlag(namespace);
    cli.stderr.write(
      flags.selector === undefined
        ? `No tenants${where}. "vc-manager create NAME${flag} --wait" makes one.\n`
        : `No tenants${where} have labels that match "${flags.selector}".\n`,
    );
  }
}

/** Throws `NotFound`. Who may not look for namespaces is told nothing of them. */
async function refuseMissingNamespace(
  client: KubeClient,
  namespace: string,
  signal: AbortSignal,
): Promise<void> {
  checkNamespace(namespace);
  try {
    await client.get(resources.namespaces, { name: namespace }, { signal });
  } catch (error) {
    if (isNotFound(error))
      throw new CliError(
        'NotFound',
        `the super cluster has no namespace "${namespace}": without -n, "vc-manager list" shows the tenants of all`,
        { cause: error },
      );
    if (!isForbidden(error)) throw error;
  }
}

function render(items: KubeList<VirtualCluster>['items'], output: OutputFormat, nowMs: number): string {
  switch (output) {
    case 'json':
      return json(listOf(items));
    case 'yaml':
      return yaml(listOf(items));
    case 'name':
      return items.map(({ metadata }) => `${resourceName(metadata.name ?? '')}\n`).join('');
    case 'table':
    case 'wide':
      return virtualClusterTable(items, { isWide: output === 'wide', nowMs });
  }
}

/** What `list` prints; empty when there is none. */
export function virtualClusterTable(
  items: readonly VirtualCluster[],
  { isWide, nowMs }: { isWide: boolean; nowMs: number },
): string {
  if (items.length === 0) return '';
  const header = ['NAMESPACE', 'NAME', 'PHASE', 'VERSION', 'PODS', 'AGE', 'PROBLEM'];
  if (isWide) header.push('ENDPOINT', 'ID', 'SERVICES', 'WEIGHT', 'MESSAGE');
  const sorted = items.toSorted((a, b) => (namespacedName(a.metadata) < namespacedName(b.metadata) ? -1 : 1));
  return table(
    header,
    sorted.map((vc) => tableRow(vc, isWide, nowMs)),
  );
}

function tableRow(vc: VirtualCluster, isWide: boolean, nowMs: number): string[] {
  const { metadata, spec, status } = vc;
  const cells = [
    metadata.namespace ?? '',
    metadata.name ?? '',
    metadata.deletionTimestamp === undefined ? (status?.phase ?? 'Pending') : 'Deleting',
    status?.version ?? spec?.version ?? '-',
    String(status?.usage?.pods ?? '-'),
    ageSince(metadata.creationTimestamp, nowMs),
    problems(vc).slice(0, 2).join(',') || '-',
  ];
  if (!isWide) return cells;
  const message = status?.conditions?.find(({ type }) => type === 'Ready')?.message;
  return [
    ...cells,
    status?.gateway?.server ?? status?.endpoint ?? '-',
    status?.id ?? '-',
    status?.serviceCIDR ?? '-',
    String(spec?.weight ?? 1),
    message ?? '-',
  ];
}
