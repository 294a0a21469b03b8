import { createWriteStream } from 'node:fs';
import { rename, rm } from 'node:fs/promises';
import { pipeline } from 'node:stream/promises';
import type { Command } from 'commander';
import { annotationKeys } from '../../../api/labels.ts';
import type { KeptSnapshot, VirtualCluster } from '../../../api/virtual-cluster.ts';
import type { KubeClient } from '../../../kube/index.ts';
import { SnapshotError } from '../../snapshot/errors.ts';
import { isSnapshotName } from '../../snapshot/store.ts';
import { confirm, tenantArgument, waitTimeoutOption, yesOption } from '../command-line.ts';
import type { Cli } from '../context.ts';
import { CliError, invalidArgument } from '../errors.ts';
import { followsRequest, requestAndWait, sendRequest } from '../manager-request.ts';
import { ageSince, json, table } from '../output.ts';
import { addSnapshot, Measured, type SnapshotFlags, snapshotStoreFlag, storeOf } from '../snapshot-store.ts';
import { withSuperCluster } from '../super-cluster.ts';
import { getVirtualCluster, namespaceFlag, type VirtualClusterRef, validRef } from '../virtual-clusters.ts';

interface Flags extends SnapshotFlags {
  namespace: string;
  file?: string;
  list?: boolean;
  copy?: string;
  add?: string;
  remove?: string;
  dryRun?: boolean;
  yes?: boolean;
  withCertificates?: boolean;
  /** `json`, or a file. */
  output?: string;
  wait?: boolean;
  timeout: number;
}

const help = `
Keeps what a tenant has in the datastore at one moment: every object, Secrets included, but no volumes, and its authorities
only with --with-certificates. The tenant is not disturbed, and one that is asleep is not woken. The manager writes it into its store
(vc-manager operator --snapshot-store); as many as spec.snapshots.keep says are kept. Where the manager has recipients of age
(--snapshot-recipient) it is encrypted; otherwise it is as secret as the Secrets in it.

On a schedule:
  kubectl patch virtualcluster team-blue --type merge \\
    -p '{"spec":{"snapshots":{"every":"6h","keep":12}}}'

Examples:
  vc-manager snapshot team-blue --wait
  vc-manager snapshot team-blue -o team-blue.snapshot        copy it out of the store, too
  vc-manager snapshot team-blue --with-certificates --file team-blue.snapshot
                                                             for another installation, where kubeconfigs stay valid
  vc-manager snapshot team-blue --list
  vc-manager snapshot team-blue --copy default/team-blue/2026-03-01T06-00-00Z-1a2b.snapshot \\
    -o team-blue.snapshot

Where the store is a volume of the manager's pod, in the pod, which needs no kubeconfig (docs/snapshots.md):
  kubectl -n skerry-system exec deployment/skerry-manager -- vc-manager snapshot team-blue \\
    --snapshot-store /var/lib/skerry-snapshots --copy NAME -o - > team-blue.snapshot
  kubectl -n skerry-system exec -i deployment/skerry-manager -- vc-manager snapshot team-blue \\
    --snapshot-store /var/lib/skerry-snapshots --add - < team-blue.snapshot`;

export function configure(command: Command, cli: Cli): void {
  command
    .addArgument(tenantArgument('<name>'))
    .option('-n, --namespace <namespace>', 'namespace of the VirtualCluster', 'default')
    .option('-f, --file <file>', 'wait, and copy it there from the store; - is standard output')
    .option(
      '--with-certificates',
      'the authorities and the token key too, so that kubeconfigs stay valid where a tenant is made of it; only where the manager encrypts snapshots',
    )
    .option('--list', 'take none, and show those that are kept')
    .option(
      '--copy <snapshot>',
      'take none, and copy one of the store to --file: its name, as --list shows it',
    )
    .option(
      '--add <file>',
      'take none, and copy a file, or standard input for -, into the store; prints its name there',
    )
    .option('--remove <snapshot>', 'take none, and remove one from the store: its name, as --list shows it')
    .option('--dry-run', 'of --remove: remove nothing, and say what would be removed')
    .option(yesOption.flags, yesOption.description)
    .option('-o, --output <file>', 'the same as --file; with --list the format, json')
    .option(
      snapshotStoreFlag,
      "the manager's store, for --file, --copy, --add and --remove (default: that of the local stack)",
    )
    .option('--wait', 'return when it is kept')
    .addOption(waitTimeoutOption())
    .addHelpText('after', help)
    .action(async (name: string, _, chosen: Command) =>
      snapshot(cli, name, withFile(chosen.optsWithGlobals<Flags>())),
    );
}

/** Throws `InvalidArgument` for a format where there is nothing to print, or a file where nothing is taken. */
function withFile(flags: Flags): Flags {
  const { output, file, list, copy, add, remove, dryRun } = flags;
  if ([list === true, copy !== undefined, add !== undefined, remove !== undefined].filter(Boolean).length > 1)
    throw invalidArgument(
      '--list, --copy, --add and --remove are four things to do: leave three of them out',
    );
  if (dryRun && remove === undefined) throw invalidArgument('--dry-run is about --remove');
  if (remove !== undefined && (file ?? output) !== undefined)
    throw invalidArgument('--remove takes no --file and no -o');
  if (add !== undefined && (file ?? output) !== undefined)
    throw invalidArgument('--add has the file that is copied, and takes no --file and no -o');
  if (output === undefined) return flags;
  const isFormat = output === 'json';
  if (isFormat && !list)
    throw invalidArgument('-o json is about --list: a file of that name is "--file json"');
  if (isFormat) return flags;
  if (['yaml', 'name', 'wide', 'table'].includes(output))
    throw invalidArgument(`-o ${output} is no format of this: -o names a file, or json with --list`);
  if (list) throw invalidArgument(`--list has the format json, and "${output}" is none`);
  if (file !== undefined && file !== output)
    throw invalidArgument('--file and -o name two files: leave one of the two out');
  return { ...flags, file: output };
}

async function snapshot(cli: Cli, name: string, flags: Flags): Promise<void> {
  const ref = validRef(name, flags.namespace);
  // The store knows all that is needed: this works in the manager's pod, and without a super cluster.
  if (flags.copy !== undefined) return copyKept(cli, ref, flags, flags.copy);
  if (flags.remove !== undefined) return removeKept(cli, ref, flags, flags.remove);
  if (flags.add !== undefined) {
    const added = await addSnapshot(cli, flags, ref, flags.add);
    cli.stderr.write(`${added.name}: ${added.summary}\n`);
    if (added.isEncrypted)
      cli.stderr.write(
        'It is encrypted, so its content cannot be checked here: compare size and digest with what --copy printed\n',
      );
    cli.stdout.write(`${added.name}\n`);
    return;
  }
  await withSuperCluster(cli, flags, async (client) => {
    if (flags.list) {
      const { status } = await getVirtualCluster(client, ref, cli.signal);
      cli.stdout.write(listed(status?.snapshots?.kept ?? [], flags.output, cli.clock.now()));
      return;
    }
    if (!flags.wait && flags.file === undefined) {
      refuseUnmade(await getVirtualCluster(client, ref, cli.signal));
      await sendRequest(snapshotRequest(cli, client, ref, flags.withCertificates), cli.signal);
      cli.stdout.write(
        `a snapshot of ${name} is asked for: see "vc-manager snapshot ${name}${namespaceFlag(ref.namespace)} --list"\n`,
      );
      return;
    }
    const kept = await takeAndWait(cli, client, ref, flags);
    if (flags.file === undefined) {
      cli.stdout.write(`${kept.name}\n`);
      return;
    }
    await copyOut(cli, flags, kept.name, flags.file);
    const said = flags.file === '-' ? cli.stderr : cli.stdout;
    said.write(`${flags.file}: ${kept.entries} entries, ${kept.bytes} bytes, from ${kept.name}\n`);
  });
}

export function snapshotRequest(
  { clock }: Pick<Cli, 'clock'>,
  client: KubeClient,
  ref: VirtualClusterRef,
  withCertificates = false,
) {
  const value = `${new Date(clock.now()).toISOString()}${withCertificates ? ' certificates' : ''}`;
  return { client, ref, annotation: annotationKeys.snapshot, value };
}

/** Throws `Conflict` for a tenant that has nothing to keep yet. */
export function refuseUnmade({ metadata, status }: VirtualCluster): void {
  if (status?.identities?.tenant === undefined)
    throw new CliError('Conflict', `${metadata.name} has not been ready yet: there is nothing to keep`);
}

/** Asks for a snapshot and waits until it is kept. Throws `Conflict` with what the manager says when it is not. */
export async function takeAndWait(
  cli: Cli,
  client: KubeClient,
  ref: VirtualClusterRef,
  { timeout: timeoutMs, withCertificates }: Pick<Flags, 'timeout' | 'withCertificates'>,
): Promise<KeptSnapshot> {
  const before = await getVirtualCluster(client, ref, cli.signal);
  const request = snapshotRequest(cli, client, ref, withCertificates);
  const { until, kept } = expectedSnapshot(before, request);
  await requestAndWait(cli, request, { timeoutMs, what: 'take a snapshot', until });
  return kept();
}

/**
 * The outcome of a snapshot request that has not been sent yet. `until` is true once the snapshot is kept, and throws
 * `Conflict` with the manager's message when none is; `kept` returns it afterwards. `before`: the VirtualCluster now.
 * Throws `Conflict` for one that has nothing to keep yet.
 */
export function expectedSnapshot(
  before: VirtualCluster,
  request: ReturnType<typeof snapshotRequest>,
): { until: (found: VirtualCluster) => boolean; kept: () => KeptSnapshot } {
  refuseUnmade(before);
  const { name: tenant } = request.ref;
  const known = new Set(before.status?.snapshots?.kept?.map(({ name }) => name));
  const isFollowed = followsRequest(request, before, ({ snapshots }) => snapshots?.taken);
  let kept: KeptSnapshot | undefined;
  return {
    until: (found) => {
      if (!isFollowed(found)) return false;
      const { snapshots, jobs } = found.status ?? {};
      kept = snapshots?.kept?.find(({ name, reason }) => reason === 'Requested' && !known.has(name));
      if (kept !== undefined) return true;
      // Both are written together; the job says why there is none.
      const why = jobs?.current?.message ?? jobs?.history?.find(({ kind }) => kind === 'snapshot')?.message;
      throw new CliError('Conflict', `there is no snapshot of ${tenant}: ${why ?? 'it was cancelled'}`);
    },
    kept: () => {
      if (kept === undefined) throw new CliError('Conflict', `there is no snapshot of ${tenant}`);
      return kept;
    },
  };
}

/** Throws `InvalidArgument` for what is no name, or that of another tenant's. */
function refuseOther({ namespace, name }: VirtualClusterRef, snapshot: string): void {
  if (!isSnapshotName(snapshot) || !snapshot.startsWith(`${namespace}/${name}/`))
    throw invalidArgument(`"${snapshot}" is no snapshot of ${namespace}/${name}: --list shows their names`);
}

/** Throws `NotFound` for one that is not in the store. The manager's list has it until it is to go from there. */
async function removeKept(cli: Cli, ref: VirtualClusterRef, flags: Flags, kept: string): Promise<void> {
  refuseOther(ref, kept);
  const store = await storeOf(cli, flags);
  const { signal } = cli;
  if (!(await store.list(ref.namespace, ref.name, { signal })).includes(kept))
    throw new CliError('NotFound', `${kept} is not in ${store.location}: nothing was removed`);
  if (flags.dryRun) {
    cli.stdout.write(
      `${kept} would be removed from ${store.location} (dry run). There would be no way back.\n`,
    );
    return;
  }
  await confirm(cli, flags, `Remove ${kept} from ${store.location}? There is no way back.`);
  await store.remove(kept, { signal });
  cli.stdout.write(`${kept} is removed\n`);
}

/** Throws `InvalidArgument` for a name of another tenant's, and where there is nothing to copy it to. */
async function copyKept(cli: Cli, ref: VirtualClusterRef, flags: Flags, kept: string): Promise<void> {
  if (flags.file === undefined)
    throw invalidArgument('--copy needs --file, or -o: where to; - is standard output');
  refuseOther(ref, kept);
  cli.stderr.write(`${kept}: ${await copyOut(cli, flags, kept, flags.file)}\n`);
}

/** Returns bytes and digest of it. */
async function copyOut(cli: Cli, flags: Flags, name: string, file: string): Promise<string> {
  const measured = new Measured();
  const pass = (content: AsyncIterable<Buffer>) => measured.pass(content);
  const store = await storeOf(cli, flags);
  const partial = `${file}.partial`;
  try {
    const content = await store.read(name, { signal: cli.signal });
    if (file === '-') {
      await pipeline(content, pass, cli.stdout, { signal: cli.signal, end: false });
      return measured.summary();
    }
    await pipeline(content, pass, createWriteStream(partial, { mode: 0o600 }), { signal: cli.signal });
    await rename(partial, file);
    return measured.summary();
  } catch (error) {
    await rm(partial, { force: true });
    if (!(error instanceof SnapshotError && error.code === 'SnapshotNotFound')) throw error;
    throw new CliError(
      'NotFound',
      `${name} is not in ${store.location}: name the manager's store with --snapshot-store, or copy the file where the ` +
        'manager runs, with --copy; in a pod, as docs/snapshots.md says',
    );
  }
}

/** Ends with a newline. */
function listed(kept: readonly KeptSnapshot[], output: string | undefined, nowMs: number): string {
  if (output === 'json') return json(kept);
  if (kept.length === 0) return 'No snapshots are kept.\n';
  return table(
    ['SNAPSHOT', 'AGE', 'REASON', 'VERSION', 'ENTRIES', 'BYTES'],
    kept.map(({ name, at, reason, kubernetes, entries, bytes, certificates }) => [
      name,
      ageSince(at, nowMs),
      certificates === true ? `${reason}, certificates` : reason,
      kubernetes,
      String(entries),
      String(bytes),
    ]),
  );
}
