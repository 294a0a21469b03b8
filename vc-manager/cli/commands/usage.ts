import { type Command, InvalidArgumentError, Option } from 'commander';
import { tenantArgument } from '../command-line.ts';
import type { Cli, GlobalFlags } from '../context.ts';
import { invalidArgument } from '../errors.ts';
import { json } from '../output.ts';
import { withSuperCluster } from '../super-cluster.ts';
import { readUsage, usageCsv, usageTable, usageTotals } from '../usage-table.ts';
import { validRef } from '../virtual-clusters.ts';

interface Flags extends GlobalFlags {
  namespace: string;
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
  vc-manager usage team-blue --since 2026-03
  vc-manager usage --since 2026-03-01 --until 2026-03-31 -o csv > march.csv`;

export function configure(command: Command, cli: Cli): void {
  command
    .addArgument(tenantArgument('[name]'))
    .option('-n, --namespace <namespace>', 'namespace of the VirtualCluster', 'default')
    .option('--since <day>', 'first day or month, as 2026-03-01 or 2026-03 (default: this month)', day)
    .option('--until <day>', 'last day or month (default: today)', day)
    .option('--system-namespace <namespace>', 'of the manager', 'skerry-system')
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
  const ref = name === undefined ? undefined : validRef(name, flags.namespace);
  const rows = await withSuperCluster(cli, flags, (client) =>
    readUsage(client, {
      ...{ namespace: flags.systemNamespace, since, until, signal: cli.signal },
      ...(ref === undefined ? {} : { tenant: `${ref.namespace}/${ref.name}` }),
    }),
  );
  if (flags.output === 'csv') cli.stdout.write(usageCsv(rows));
  else if (flags.output === 'json') cli.stdout.write(json(rows));
  else if (rows.length > 0) cli.stdout.write(usageTable(usageTotals(rows)));
  else cli.stderr.write(`Nothing is known of usage from ${since} to ${until}.\n`);
}
