import type { Command } from 'commander';
import { annotationKeys } from '../../../api/labels.ts';
import type { VirtualCluster } from '../../../api/virtual-cluster.ts';
import { confirm, requireTerminal, tenantArgument, waitTimeoutOption, yesOption } from '../command-line.ts';
import type { Cli } from '../context.ts';
import { CliError } from '../errors.ts';
import { followsRequest, requestAndWait, sendRequest } from '../manager-request.ts';
import {
  describeSnapshot,
  type SnapshotFlags,
  snapshotFileName,
  snapshotStoreFlag,
} from '../snapshot-store.ts';
import { withSuperCluster } from '../super-cluster.ts';
import { getVirtualCluster, namespaceFlag, validRef } from '../virtual-clusters.ts';

interface Flags extends SnapshotFlags {
  namespace: string;
  from: string;
  withCertificates?: boolean;
  dryRun?: boolean;
  wait?: boolean;
  yes?: boolean;
  timeout: number;
}

const help = `
Puts a tenant back to what it had when a snapshot was taken. The snapshot is read to its end first, and one that is
damaged or of another tenant changes nothing. What the tenant has now is kept as a snapshot of its own. Then its control plane
is stopped, everything in its datastore is replaced, and it is started again. Pods that the snapshot has run on; those that
it does not have are removed from the super cluster, and what has ended meanwhile ends in the tenant, too. Volumes are not
touched. On a terminal it asks before; a script says --yes. A manager that is killed meanwhile leaves it to the next one.

Examples:
  vc-manager restore team-blue --from default/team-blue/2026-03-01T06-00-00Z-1a2b.snapshot --wait
  vc-manager restore team-blue --from ./team-blue.snapshot       a file is copied into the store first
  vc-manager restore team-blue --from ./team-blue.snapshot --dry-run`;

export function configure(command: Command, cli: Cli): void {
  command
    .addArgument(tenantArgument('<name>'))
    .option('-n, --namespace <namespace>', 'namespace of the VirtualCluster', 'default')
    .requiredOption('--from <snapshot>', 'a name that "vc-manager snapshot --list" shows, or a file')
    .option(
      '--with-certificates',
      'put back the authorities and the token key as well, if the snapshot holds them: what they have signed since then is void',
    )
    .option(snapshotStoreFlag, "the manager's store, for a file (default: that of the local stack)")
    .option(
      '--dry-run',
      'change nothing; read the snapshot to its end, and say what would be changed or speaks against it',
    )
    .option('--wait', 'return when the tenant can be used again')
    .option(yesOption.flags, yesOption.description)
    .addOption(waitTimeoutOption())
    .addHelpText('after', help)
    .action(async (name: string, _, chosen: Command) => restore(cli, name, chosen.optsWithGlobals<Flags>()));
}

async function restore(cli: Cli, name: string, flags: Flags): Promise<void> {
  const ref = validRef(name, flags.namespace);
  if (!flags.dryRun) requireTerminal(cli, flags);
  await withSuperCluster(cli, flags, async (client) => {
    const vc = await getVirtualCluster(client, ref, cli.signal);
    const { status } = vc;
    if (status?.identities?.tenant === undefined)
      throw new CliError(
        'Conflict',
        `${name} has not been ready yet: "vc-manager create NAME --from SNAPSHOT" makes a tenant from a snapshot`,
      );
    if (flags.dryRun) {
      const what = await describeSnapshot(cli, flags, vc);
      cli.stdout.write(
        `${name} would be put back to ${what} (dry run): what it has now would be kept as a snapshot, its control ` +
          `plane stopped, ${status.datastoreUsage?.keys ?? 'all'} keys replaced, and the control plane started again\n`,
      );
      return;
    }
    await confirm(
      cli,
      flags,
      `Replace everything that ${ref.namespace}/${name} has by the snapshot ${flags.from}?`,
    );
    const from = await snapshotFileName(cli, flags, ref);
    const value = `${new Date(cli.clock.now()).toISOString()}${flags.withCertificates ? ' certificates' : ''}`;
    const also = { [annotationKeys.restoreFrom]: from };
    const request = { client, ref, annotation: annotationKeys.restore, value, also };
    if (!flags.wait) {
      await sendRequest(request, cli.signal);
      cli.stdout.write(
        `${name} is put back to ${from}: see "vc-manager jobs ${name}${namespaceFlag(ref.namespace)}"\n`,
      );
      return;
    }
    // Others may have asked while the question was on the screen.
    const until = isRestored(request, await getVirtualCluster(client, ref, cli.signal));
    await requestAndWait(cli, request, { timeoutMs: flags.timeout, what: 'restore it', until });
    cli.stdout.write(`${name} is put back to ${from}\n`);
  });
}

/** Throws `Conflict` when it is refused, or another request takes its place. `before`: the VirtualCluster before it is sent. */
function isRestored(
  request: { annotation: string; value: string },
  before: VirtualCluster,
): (found: VirtualCluster) => boolean {
  const isBegun = followsRequest(request, before, ({ restore, restored }) => (restore ?? restored)?.request);
  return (found) => {
    if (!isBegun(found)) return false;
    const { restore, restored, phase } = found.status ?? {};
    const latest = restore ?? restored;
    if (latest?.request !== request.value)
      throw new CliError(
        'Conflict',
        `another restore was asked for meanwhile, from ${latest?.from}: it takes the place of this one`,
      );
    if (restore !== undefined) return false;
    if (restored?.refused !== undefined)
      throw new CliError('Conflict', `nothing was changed: ${restored.refused}`);
    return phase === 'Ready';
  };
}
