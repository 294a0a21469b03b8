import { type Command, InvalidArgumentError, Option } from 'commander';
import { annotationKeys } from '../../../api/labels.ts';
import {
  addedUids,
  addUsage,
  noUsage,
  type UsageDay,
  usageConfigMapId,
  usageDays,
  usageFields,
  usageLabel,
} from '../../../api/usage.ts';
import { type ConfigMap, type KubeClient, resources } from '../../../kube/index.ts';
import { systemNamespaceOption } from '../../../program/flags.ts';
import { tenantArgument } from '../command-line.ts';
import type { Cli, GlobalFlags } from '../context.ts';
import { invalidArgument } from '../errors.ts';
import { json, table } from '../output.ts';
import { withSuperCluster } from '../super-cluster.ts';
import { checkNamespace, validRef } from '../virtual-clusters.ts';

interface Flags extends GlobalFlags {
  namespace?: string;
  since?: string;
  until?: string;
  systemNamespace: string;
  output: 'table' | 'csv' | 'json';
}

const help = `
What tenants have used: hours of pods, of cores and of GiB, and calls of their API servers; those that are gone, too. The
manager adds it up each minute and keeps it for 13 months, in ConfigMaps of its namespace. "csv" and "json" have a row a day.

Examples:
  vc-manager usage                                     this month, all tenants
  vc-manager usage -n teams                            of one namespace
  vc-manager usage team-blue --since 2026-03
  vc-manager usage --since 2026-03-01 --until 2026-03-31 -o csv > march.csv`;

export function configure(command: Command, cli: Cli): void {
  command
    .addArgument(tenantArgument('[name]'))
    .option('-n, --namespace <namespace>', 'of the VirtualCluster (default: all, or "default" with a name)')
    .option('--since <day>', 'first day or month, as 2026-03-01 or 2026-03 (default: this month)', day)
    .option('--until <day>', 'last day or month (default: today)', day)
    .addOption(systemNamespaceOption('of the manager'))
    .addOption(
      new Option('-o, --output <format>', 'how to print it')
        .choices(['table', 'csv', 'json'])
        .default('table'),
    )
    .addHelpText('after', help)
    .action(async (name: string | undefined, _, chosen: Command) =>
      usage(cli, name, chosen.optsWithGlobals<Flags>()),
    );
}

function day(text: string): string {
  if (/^\d{4}-(0[1-9]|1[0-2])(-(0[1-9]|[12]\d|3[01]))?$/.test(text)) return text;
  throw new InvalidArgumentError('Give it as 2026-03-01 or 2026-03.');
}

async function usage(cli: Cli, name: string | undefined, flags: Flags): Promise<void> {
  const today = new Date(cli.clock.now()).toISOString().slice(0, 10);
  const since = (flags.since ?? today.slice(0, 7)).padEnd(10, '-01');
  const until = flags.until?.length === 7 ? `${flags.until}-31` : (flags.until ?? today);
  if (since > until) throw invalidArgument(`--since ${since} is after ${until}`);
  const ref = name === undefined ? undefined : validRef(name, flags.namespace ?? 'default');
  if (flags.namespace !== undefined) checkNamespace(flags.namespace);
  const rows = await withSuperCluster(cli, flags, (client) =>
    readUsage(client, {
      ...{ namespace: flags.systemNamespace, since, until, signal: cli.signal },
      isAsked: (tenant) =>
        ref === undefined
          ? flags.namespace === undefined || tenant.startsWith(`${flags.namespace}/`)
          : tenant === `${ref.namespace}/${ref.name}`,
    }),
  );
  if (flags.output === 'csv') cli.stdout.write(usageCsv(rows));
  else if (flags.output === 'json') cli.stdout.write(json(rows));
  else if (rows.length > 0) cli.stdout.write(usageTable(usageTotals(rows)));
  else {
    const inNamespace = flags.namespace === undefined ? '' : ` in namespace ${flags.namespace}`;
    const whose = ref === undefined ? inNamespace : ` of ${ref.namespace}/${ref.name}`;
    const again = until < today ? '' : ' The manager writes it down every ten minutes.';
    cli.stderr.write(`Nothing is known of usage${whose} from ${since} to ${until}.${again}\n`);
  }
}

/** What a tenant has used in one day. */
export interface UsageRow extends UsageDay {
  tenant: string;
  /** `status.id`: a later tenant of that name has another one. */
  id: string;
  day: string;
}

/** Rows of these days, both included, in order of tenant and day. `isAsked`: of `NAMESPACE/NAME`. */
export async function readUsage(
  client: KubeClient,
  options: {
    namespace: string;
    since: string;
    until: string;
    isAsked?: (tenant: string) => boolean;
    signal: AbortSignal;
  },
): Promise<UsageRow[]> {
  const { namespace, since, until, isAsked, signal } = options;
  const labelSelector = `${usageLabel} in (${monthsOf(since, until).join(',')})`;
  const { items } = await client.list<ConfigMap>(resources.configMaps, { namespace, labelSelector, signal });
  const added = addedUids(items);
  const rows = items.flatMap(({ metadata, data }) => {
    if (added.has(metadata.uid ?? '')) return [];
    const of = metadata.annotations?.[annotationKeys.tenantName] ?? '';
    if (isAsked?.(of) === false) return [];
    const id = usageConfigMapId(metadata.name ?? '');
    return usageDays(data)
      .filter(([day]) => day >= since && day <= until)
      .map(([day, used]): UsageRow => ({ tenant: of, id, day, ...used }));
  });
  const order = (row: UsageRow): string => `${row.tenant} ${row.id} ${row.day}`;
  return rows.sort((a, b) => (order(a) < order(b) ? -1 : 1));
}

function monthsOf(since: string, until: string): string[] {
  const months: string[] = [];
  const [year = 0, month = 1] = since.split('-').map(Number);
  for (let at = new Date(Date.UTC(year, month - 1, 1)); ; at.setUTCMonth(at.getUTCMonth() + 1)) {
    const name = at.toISOString().slice(0, 7);
    if (name > until.slice(0, 7)) return months;
    months.push(name);
  }
}

/** One row for each tenant, without its days. */
export function usageTotals(rows: readonly UsageRow[]): (UsageDay & { tenant: string; id: string })[] {
  return [...Map.groupBy(rows, ({ tenant, id }) => `${tenant} ${id}`).values()].map((own) => ({
    tenant: own[0]?.tenant ?? '',
    id: own[0]?.id ?? '',
    ...own.reduce<UsageDay>(addUsage, noUsage()),
  }));
}

const titles: Readonly<Record<keyof UsageDay, string>> = {
  hours: 'HOURS',
  podHours: 'POD HOURS',
  cpuHours: 'CPU HOURS',
  cpuRequestHours: 'RESERVED',
  memoryGiBHours: 'MEMORY GIB H',
  memoryRequestGiBHours: 'RESERVED',
  storageGiBHours: 'STORAGE GIB H',
  datastoreGiBHours: 'DATASTORE GIB H',
  apiCalls: 'API CALLS',
};

export function usageTable(rows: readonly (UsageDay & { tenant: string })[]): string {
  const amount = (value: number): string =>
    value >= 100 ? value.toFixed(0) : String(Number(value.toFixed(2)));
  return table(
    ['TENANT', ...usageFields.map((field) => titles[field])],
    rows.map((row) => [row.tenant, ...usageFields.map((field) => amount(row[field]))]),
  );
}

const csvFields = ['tenant', 'id', 'day', ...usageFields] as const;

/** As RFC 4180 has it, a row a day. */
export function usageCsv(rows: readonly UsageRow[]): string {
  const lines = rows.map((row) => csvFields.map((field) => String(row[field])).join(','));
  return [csvFields.join(','), ...lines].map((line) => `${line}\r\n`).join('');
}
