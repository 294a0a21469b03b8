import { type Command, Option } from 'commander';
import type { Difference, DifferenceReport } from '../../../api/difference-report.ts';
import { namespacedName, printable } from '../../../kube/index.ts';
import { systemNamespaceOption } from '../../../program/flags.ts';
import { wholeNumber } from '../arguments.ts';
import { tenantArgument } from '../command-line.ts';
import type { Cli, GlobalFlags } from '../context.ts';
import { CliError } from '../errors.ts';
import { serialize, table } from '../output.ts';
import { withSuperCluster } from '../super-cluster.ts';
import { getVirtualCluster, validRef } from '../virtual-clusters.ts';
import { explainNoAnswer, queryReplicas, replicaAt, replicasToAsk } from './trace.ts';

interface Flags extends GlobalFlags {
  namespace: string;
  most: number;
  syncer?: string;
  systemNamespace: string;
  output?: 'json' | 'yaml';
}

const listedByDefault = 200;
const maxListed = 2_000;

const help = `
The syncer that serves the tenant compares all objects of both sides by its own rules, and changes nothing. An object that
no rule carries over, such as a Secret that no pod uses, does not differ.

  missing-in-super   it is in the tenant, and not (yet) in the super cluster
  missing-in-tenant  it is in the super cluster, and the tenant has no copy
  orphan             a copy whose original is gone
  differs            both are there; FIELDS says where they are apart
  refused            a rule or policy keeps it in the tenant

Examples:
  vc-manager diff team-blue
  vc-manager diff team-blue -n teams -o json`;

export function configure(command: Command, cli: Cli): void {
  command
    .addArgument(tenantArgument('<name>'))
    .option('-n, --namespace <namespace>', 'namespace of the VirtualCluster', 'default')
    .addOption(
      new Option('--most <objects>', 'list no more than so many')
        .argParser(wholeNumber(1, maxListed))
        .default(listedByDefault),
    )
    .option('--syncer <url>', 'ask the syncer at this address instead of those that have a Lease')
    .addOption(systemNamespaceOption('where the syncers have their Leases'))
    .addOption(
      new Option('-o, --output <format>', 'print it as a program reads it').choices(['json', 'yaml']),
    )
    .addHelpText('after', help)
    .action(async (name: string, _, chosen: Command) => diff(cli, name, chosen.optsWithGlobals<Flags>()));
}

async function diff(cli: Cli, name: string, flags: Flags): Promise<void> {
  const ref = validRef(name, flags.namespace);
  // Before anything is asked.
  if (flags.syncer !== undefined) replicaAt(flags.syncer);
  const report = await withSuperCluster(cli, flags, async (client) => {
    const { metadata } = await getVirtualCluster(client, ref, cli.signal);
    const tenant = namespacedName(metadata);
    const replicas = await replicasToAsk(client, flags, cli.signal);
    const query = { tenant, most: String(flags.most) };
    const answers = await queryReplicas<DifferenceReport>(replicas, query, cli.signal, '/debug/differences');
    const known = answers.find((answer) => answer.is === 'answer');
    if (known === undefined)
      throw new CliError('NotRunning', explainNoAnswer(answers, tenant, flags.systemNamespace));
    return known.body;
  });
  if (flags.output !== undefined) {
    cli.stdout.write(serialize(flags.output, report));
    return;
  }
  const { compared, total, differences } = report;
  if (total === 0) {
    cli.stdout.write(`Both sides of ${name} agree: ${compared} objects compared.\n`);
    return;
  }
  cli.stdout.write(
    table(['KIND', 'NAMESPACE', 'NAME', 'IS', 'STATE', 'FIELDS', 'WHY'], differences.map(row)),
  );
  const rest = total - differences.length;
  cli.stderr.write(
    `${total} of ${compared} objects differ${rest > 0 ? `; ${rest} are not listed: --most` : ''}.\n`,
  );
}

const shownFields = 3;

function row({ kind, namespace, name, is, state, fields = [], why }: Difference): string[] {
  const more = fields.length > shownFields ? `, .. (${fields.length})` : '';
  const shown = fields.length === 0 ? '-' : fields.slice(0, shownFields).join(', ') + more;
  return [kind, namespace ?? '-', name, is, state, shown, why].map((text) => printable(text, 500));
}
