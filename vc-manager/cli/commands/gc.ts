import { readFile } from 'node:fs/promises';
import { join } from 'node:path';
import type { Command } from 'commander';
import { annotationKeys, labelKeys } from '../../../api/labels.ts';
import {
  isNotFound,
  type KubeClient,
  type ObjectMeta,
  type ObjectRef,
  type Resource,
  resources,
} from '../../../kube/index.ts';
import type { ControlPlaneDriver } from '../../drivers/driver.ts';
import { EtcdAdmin } from '../../etcd/admin.ts';
import { findOrphans } from '../../operator/orphans.ts';
import { defaultAdvertiseAddress } from '../arguments.ts';
import { outputOption } from '../command-line.ts';
import type { Cli, GlobalFlags } from '../context.ts';
import { driverChoices, noteProblems, readOnlyDriver } from '../drivers.ts';
import { CliError, describeFailure, exitCodes } from '../errors.ts';
import { managerPkiInDirectory } from '../manager-pki.ts';
import { serialize, type TableFormat, table } from '../output.ts';
import { stateChoice } from '../state-directory.ts';
import { withSuperCluster } from '../super-cluster.ts';

interface Flags extends GlobalFlags {
  yes?: boolean;
  dryRun?: boolean;
  output: TableFormat;
}

const help = `
Normally nothing is left of a deleted tenant. What is, for example after a finalizer was removed by hand, is listed:
control planes and datastore users on this machine, objects in the super cluster. Nothing is deleted without --yes.

Examples:
  vc-manager gc
  vc-manager gc --yes`;

export function configure(command: Command, cli: Cli): void {
  command
    .option('-y, --yes', 'delete what is listed')
    .option('--dry-run', 'only list, also with --yes')
    .addOption(outputOption())
    .addHelpText('after', help)
    .action(async (_, chosen: Command) => gc(cli, chosen.optsWithGlobals<Flags>()));
}

async function gc(cli: Cli, flags: Flags): Promise<void> {
  const remove = flags.yes === true && flags.dryRun !== true;
  const leftovers = await collectGarbage(cli, flags, { remove });
  const rows = leftovers.map(({ kind, name, result }) => ({ kind, name, result }));
  if (flags.output !== 'table') cli.stdout.write(serialize(flags.output, rows));
  else if (rows.length > 0)
    cli.stdout.write(
      table(
        ['KIND', 'NAME', 'RESULT'],
        rows.map((row) => Object.values(row)),
      ),
    );
  if (rows.length === 0) cli.stderr.write('Nothing is left over.\n');
  else if (!remove) cli.stderr.write('Nothing was deleted: "vc-manager gc --yes" deletes what is listed.\n');
  if (leftovers.some(({ failed }) => failed)) cli.setExitCode(exitCodes.failure);
}

interface Leftover {
  kind: string;
  name: string;
  /** `found`, `deleted`, or why it could not be deleted. */
  result: string;
  failed: boolean;
}

/** Finds what belongs to no VirtualCluster, on this machine and in the super cluster; with `remove`, removes it. */
async function collectGarbage(
  cli: Cli,
  flags: GlobalFlags,
  { remove }: { remove: boolean },
): Promise<Leftover[]> {
  const { clock, signal, env } = cli;
  const { directory } = stateChoice(env, flags);
  const endpoint = await datastoreEndpoint(directory);
  const pki = await managerPkiInDirectory(directory, defaultAdvertiseAddress(), clock);
  const datastore = new EtcdAdmin({
    endpoint,
    ca: pki.etcdCa.certPem,
    cert: pki.etcdManager.certPem,
    key: pki.etcdManager.keyPem,
    rootPassword: pki.etcdRootPassword,
  });
  try {
    return await withSuperCluster(cli, flags, async (client) => {
      const drivers = driverChoices.map((name) =>
        readOnlyDriver(name, { stateDir: directory, client, clock, onProblem: noteProblems(cli) }),
      );
      let holders: Awaited<ReturnType<typeof driversById>> = new Map();
      // `findOrphans` lists control planes after VirtualClusters; drivers are listed no earlier than that.
      const driver = {
        list: async () => {
          holders = await driversById(drivers);
          return [...holders.keys()];
        },
      };
      const orphans = await findOrphans({ client, driver, datastore, signal });
      const removals = [
        ...orphans.controlPlanes.map((id) => ({
          kind: 'control plane',
          name: id,
          run: async () => {
            for (const holder of holders.get(id) ?? []) await holder.remove(id, { signal });
          },
        })),
        ...orphans.datastores.map((id) => ({
          kind: 'datastore',
          name: id,
          run: () => datastore.removeTenant(id, { signal }),
        })),
        ...orphans.superObjects.map(({ resource, name, tenantUid }) => ({
          kind: resource.kind,
          name,
          run: () =>
            removeObject(
              client,
              resource,
              { name },
              (found) => found.labels?.[labelKeys.tenant] === tenantUid,
              signal,
            ),
        })),
        ...orphans.secrets.map(({ namespace, name, id }) => ({
          kind: resources.secrets.kind,
          name,
          run: () =>
            removeObject(
              client,
              resources.secrets,
              { namespace, name },
              (found) => found.annotations?.[annotationKeys.id] === id,
              signal,
            ),
        })),
      ];
      const leftovers: Leftover[] = [];
      for (const { kind, name, run } of removals) {
        leftovers.push({
          kind,
          name,
          ...(remove ? await tryRemoval(run) : { result: 'found', failed: false }),
        });
      }
      return leftovers;
    });
  } finally {
    await datastore.close();
  }
}

/** The id of every control plane, with the drivers that have one of that id. */
async function driversById(
  drivers: readonly ControlPlaneDriver[],
): Promise<Map<string, ControlPlaneDriver[]>> {
  const holders = new Map<string, ControlPlaneDriver[]>();
  for (const driver of drivers) {
    for (const id of await driver.list()) holders.set(id, [...(holders.get(id) ?? []), driver]);
  }
  return holders;
}

/** Removes an object only if it is still the one that was found: by a mark that names what it was made for. */
export async function removeObject(
  client: KubeClient,
  resource: Resource,
  ref: ObjectRef,
  isStill: (metadata: ObjectMeta) => boolean,
  signal: AbortSignal,
): Promise<void> {
  try {
    const { metadata } = await client.get(resource, ref, { signal });
    if (metadata.uid === undefined || !isStill(metadata)) return;
    await client.delete(resource, ref, { uid: metadata.uid, propagationPolicy: 'Background', signal });
  } catch (error) {
    if (!isNotFound(error)) throw error;
  }
}

async function tryRemoval(run: () => Promise<void>): Promise<Pick<Leftover, 'result' | 'failed'>> {
  try {
    await run();
    return { result: 'deleted', failed: false };
  } catch (error) {
    return { result: describeFailure(error).message, failed: true };
  }
}

async function datastoreEndpoint(stateDir: string): Promise<string> {
  try {
    const ports = JSON.parse(await readFile(join(stateDir, 'datastore', 'ports.json'), 'utf8')) as Record<
      string,
      number
    >;
    // One that was last started by an earlier version has one port for both.
    return `https://127.0.0.1:${ports['datastore-http'] ?? ports['datastore-client']}`;
  } catch (cause) {
    throw new CliError(
      'NotFound',
      `there is no datastore of a local stack in ${stateDir}: give --state-dir the directory of the stack`,
      { cause },
    );
  }
}
