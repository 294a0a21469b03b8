import type { Command } from 'commander';
import { parseExactQuantity } from '../../../kube/index.ts';
import { outputOption, tenantArgument } from '../command-line.ts';
import type { Cli, GlobalFlags } from '../context.ts';
import { serialize, type TableFormat, table } from '../output.ts';
import { withSuperCluster } from '../super-cluster.ts';
import { getVirtualCluster, quotaOf, validRef } from '../virtual-clusters.ts';

interface Flags extends GlobalFlags {
  namespace: string;
  output: TableFormat;
}

const help = `
What a tenant has of everything that is limited, and what it may have; the fullest first. Syncer and manager say it about once a
minute, the datastore every ten minutes. "spec.quota" of the VirtualCluster and its VirtualClusterPolicy set the limits.

Examples:
  vc-manager quota team-blue
  vc-manager quota team-blue -o json`;

export function configure(command: Command, cli: Cli): void {
  command
    .addArgument(tenantArgument('<name>'))
    .option('-n, --namespace <namespace>', 'namespace of the VirtualCluster', 'default')
    .addOption(outputOption())
    .addHelpText('after', help)
    .action(async (name: string, _, chosen: Command) => quota(cli, name, chosen.optsWithGlobals<Flags>()));
}

async function quota(cli: Cli, name: string, flags: Flags): Promise<void> {
  const ref = validRef(name, flags.namespace);
  const vc = await withSuperCluster(cli, flags, (client) => getVirtualCluster(client, ref, cli.signal));
  const rows = quotaOf(vc)
    .map((row) => ({ ...row, share: shareOf(row) }))
    .sort((a, b) => (b.share ?? -1) - (a.share ?? -1));
  if (flags.output !== 'table') {
    cli.stdout.write(serialize(flags.output, rows));
    return;
  }
  if (rows.length === 0) {
    cli.stderr.write(`Nothing is known of the quota of ${name} yet.\n`);
    return;
  }
  const percent = (share: number | undefined): string =>
    share === undefined ? '-' : `${Math.round(100 * share)} %`;
  cli.stdout.write(
    table(
      ['RESOURCE', 'USED', 'ALLOWED', 'SHARE'],
      rows.map(({ resource, used, allowed, share }) => [resource, used ?? '-', allowed, percent(share)]),
    ),
  );
}

/** Of what is allowed; undefined where nothing is known. */
export function shareOf({
  used,
  allowed,
}: {
  used?: string | undefined;
  allowed: string;
}): number | undefined {
  const [has, may] = [parseExactQuantity(used), parseExactQuantity(allowed)];
  if (has === undefined || may === undefined) return undefined;
  if (may === 0n) return has === 0n ? 0 : 1;
  return Number((has * 10_000n) / may) / 10_000;
}
