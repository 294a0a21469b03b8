import type { Command } from 'commander';
import type { VirtualCluster } from '../../../api/virtual-cluster.ts';
import { ignoreNotFound, isNotFound, type KubeClient, resources } from '../../../kube/index.ts';
import { confirm, requireTerminal, tenantArgument, waitTimeoutOption, yesOption } from '../command-line.ts';
import type { Cli, GlobalFlags } from '../context.ts';
import { CliError } from '../errors.ts';
import { type Progress, withProgress, withStep } from '../progress.ts';
import { withSuperCluster } from '../super-cluster.ts';
import {
  getVirtualCluster,
  namespaceFlag,
  readyCondition,
  type VirtualClusterRef,
  validRef,
  virtualClusterNotFound,
} from '../virtual-clusters.ts';
import { waitFor } from '../wait-for.ts';
import { takeAndWait } from './snapshot.ts';

interface Flags extends GlobalFlags {
  namespace: string;
  wait?: boolean;
  timeout: number;
  ignoreNotFound?: boolean;
  dryRun?: boolean;
  yes?: boolean;
  snapshotFirst?: boolean;
}

const help = `
Removes the tenant's pods, services and volumes from the super cluster, its control plane, its data, its certificates
and its kubeconfig. There is no way back, but what it has in the datastore can be kept as a snapshot. A tenant with spec.deletionProtection is refused, by the super cluster too.

On a terminal it asks before. A script says --yes: without it nothing is deleted.

Examples:
  vc-manager delete team-blue --dry-run      say what would go, and whether it may
  vc-manager delete team-blue --wait
  vc-manager delete team-blue --snapshot-first
                                             "vc-manager create NAME --from" makes it again
  vc-manager delete tenant-1 tenant-2 --yes  in a script`;

export function configure(command: Command, cli: Cli): void {
  command
    .addArgument(tenantArgument('<names...>', 'of the tenants'))
    .option('-n, --namespace <namespace>', 'namespace of the VirtualClusters', 'default')
    .option('--wait', 'return when nothing is left of them')
    .addOption(waitTimeoutOption())
    .option('--dry-run', 'delete nothing, and say what would be deleted')
    .option('--snapshot-first', 'take a snapshot of each, and delete only when it is kept')
    .option(yesOption.flags, yesOption.description)
    .option('--ignore-not-found', 'a tenant that does not exist is no error')
    .addHelpText('after', help)
    .action(async (names: string[], _, chosen: Command) =>
      remove(cli, names, chosen.optsWithGlobals<Flags>()),
    );
}

async function remove(cli: Cli, names: readonly string[], flags: Flags): Promise<void> {
  const refs = names.map((name) => validRef(name, flags.namespace));
  if (!flags.dryRun) {
    requireTerminal(cli, flags);
    // `| head` ends after the first snapshot, before anything is deleted.
    cli.outlivesReader();
  }
  await withProgress(cli, (progress) =>
    withSuperCluster(cli, flags, async (client) => {
      const found: VirtualCluster[] = [];
      // All are looked up before the first is deleted, so that one mistyped name deletes none.
      for (const ref of refs) {
        const vc = await find(client, ref, flags, cli);
        if (vc !== undefined) found.push(vc);
      }
      for (const vc of found) refuseProtected(vc);
      if (flags.dryRun) {
        for (const vc of found) cli.stdout.write(describeDeletion(vc, ' (dry run)'));
        return;
      }
      const named = found.map(({ metadata }) => `${metadata.namespace}/${metadata.name}`).join(', ');
      if (found.length > 0)
        await confirm(cli, flags, `Delete ${named} with all pods, volumes and data? There is no way back.`);
      if (flags.snapshotFirst) await keepAll(cli, client, found, flags.timeout);
      await Promise.all(found.map((vc) => removeOne(cli, client, vc, flags, progress)));
    }),
  );
}

/** Of all before the first is deleted. Throws for one that could not be kept. */
async function keepAll(
  cli: Cli,
  client: KubeClient,
  found: readonly VirtualCluster[],
  timeoutMs: number,
): Promise<void> {
  for (const { metadata } of found) {
    const { name = '', namespace = '' } = metadata;
    const kept = await takeAndWait(cli, client, { name, namespace }, { timeout: timeoutMs });
    cli.stdout.write(`${name} is kept as ${kept.name}\n`);
  }
}

/** Throws `Conflict` for a tenant that must not be deleted. */
export function refuseProtected({ metadata, spec }: VirtualCluster): void {
  if (spec?.deletionProtection !== true) return;
  const { name = '', namespace = '' } = metadata;
  throw new CliError(
    'Conflict',
    `"${name}" is protected from deletion, nothing was deleted. To allow it: kubectl patch virtualcluster ${name}` +
      `${namespaceFlag(namespace)} --type merge -p '{"spec":{"deletionProtection":false}}'`,
  );
}

/** What goes with a tenant, in lines. `note`: after what would be done. */
export function describeDeletion({ metadata, status }: VirtualCluster, note = ''): string {
  const { name = '' } = metadata;
  const { pods, services } = status?.usage ?? {};
  const counts = [
    ...(pods === undefined ? [] : [`${pods} pods`]),
    ...(services === undefined ? [] : [`${services} services`]),
  ];
  const running = counts.length === 0 ? 'what it runs' : counts.join(', ');
  const datastore = status?.datastore === 'own' ? 'its datastore' : 'its keys in the shared datastore';
  return (
    `virtualcluster.skerry.dev "${name}" would be deleted${note}, with:\n` +
    `  in the super cluster   ${running}, its namespaces, and its volumes as their storage class says\n` +
    `  control plane          ${status?.endpoint ?? 'none yet'}${status?.driver === undefined ? '' : ` (driver ${status.driver})`}\n` +
    `  data                   ${datastore}, certificates, encryption key and kubeconfig: there is no way back\n`
  );
}

async function find(
  client: KubeClient,
  ref: VirtualClusterRef,
  flags: Flags,
  { signal }: Cli,
): Promise<VirtualCluster | undefined> {
  if (!flags.ignoreNotFound) return getVirtualCluster(client, ref, signal);
  return ignoreNotFound(client.get<VirtualCluster>(resources.virtualClusters, ref, { signal }));
}

async function removeOne(
  cli: Cli,
  client: KubeClient,
  { metadata }: VirtualCluster,
  flags: Flags,
  progress: Progress,
): Promise<void> {
  const { clock, signal } = cli;
  const { name = '', namespace = '', uid } = metadata;
  const ref = { namespace, name };
  try {
    await client.delete(resources.virtualClusters, ref, { signal, uid });
  } catch (error) {
    if (!isNotFound(error)) throw error;
    if (!flags.ignoreNotFound) throw await virtualClusterNotFound(client, ref, signal);
  }
  if (!flags.wait) {
    cli.stdout.write(`virtualcluster.skerry.dev "${name}" is being deleted\n`);
    return;
  }
  await withStep(progress, `Deleting ${name}`, (step) =>
    waitFor({
      client,
      ref,
      clock,
      signal,
      timeoutMs: flags.timeout,
      what: 'go',
      // A VirtualCluster of the same name with another uid was created in the meantime.
      until: (vc) => vc === undefined || vc.metadata.uid !== uid,
      onChange: (vc) => {
        const isNoticed = vc.status?.phase === 'Deleting';
        step.update((isNoticed ? readyCondition(vc)?.message : undefined) ?? 'waiting for the manager');
      },
    }),
  );
  cli.stdout.write(`virtualcluster.skerry.dev "${name}" deleted\n`);
}
