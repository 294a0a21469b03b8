import { readFile } from 'node:fs/promises';
import { join } from 'node:path';
import { labelKeys } from '../../../api/labels.ts';
import { isNotFound, type KubeClient } from '../../../kube/index.ts';
import type { ControlPlaneDriver } from '../../drivers/index.ts';
import { EtcdAdmin } from '../../etcd/admin.ts';
import { findOrphans, type Orphans } from '../../operator/index.ts';
import type { Cli, GlobalFlags } from '../context.ts';
import { describeFailure } from '../describe-failure.ts';
import { CliError } from '../errors.ts';
import { driverChoices, driverReader } from '../operator/drivers.ts';
import { managerPkiOf } from '../operator/run-operator.ts';
import { stateChoice } from '../state/state-directory.ts';
import { withSuperCluster } from '../super-cluster.ts';
import { advertiseAddress } from '../up/advertise-address.ts';

export interface Leftover {
  kind: string;
  name: string;
  /** `found`, `deleted`, or why it could not be deleted. */
  result: string;
  failed: boolean;
}

/** What belongs to no VirtualCluster, on this machine and in the super cluster; removed if asked for. */
export async function collectGarbage(
  cli: Cli,
  flags: GlobalFlags,
  { remove }: { remove: boolean },
): Promise<Leftover[]> {
  const { clock, signal, env } = cli;
  const { directory } = stateChoice(env, flags);
  const endpoint = await datastoreEndpoint(directory);
  const pki = await managerPkiOf(directory, advertiseAddress(), clock);
  const datastore = new EtcdAdmin({
    endpoint,
    ca: pki.etcdCa.certPem,
    cert: pki.etcdManager.certPem,
    key: pki.etcdManager.keyPem,
    rootPassword: pki.etcdRootPassword,
  });
  try {
    return await withSuperCluster(cli, flags, async (client) => {
      const drivers = driverChoices.map((name) => driverReader(name, { stateDir: directory, client, clock }));
      let holders: Awaited<ReturnType<typeof holdersOf>> = new Map();
      // Asked when it is its turn: the VirtualClusters are read before.
      const driver = {
        list: async () => {
          holders = await holdersOf(drivers);
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
        ...orphans.superObjects.map((object) => ({
          kind: object.resource.kind,
          name: object.name,
          run: () => removeObject(client, object, signal),
        })),
      ];
      const leftovers: Leftover[] = [];
      for (const { kind, name, run } of removals) {
        leftovers.push({ kind, name, ...(remove ? await outcome(run) : { result: 'found', failed: false }) });
      }
      return leftovers;
    });
  } finally {
    await datastore.close();
  }
}

/** Ids that any driver knows, and which ones do. */
async function holdersOf(drivers: readonly ControlPlaneDriver[]): Promise<Map<string, ControlPlaneDriver[]>> {
  const holders = new Map<string, ControlPlaneDriver[]>();
  for (const driver of drivers) {
    for (const id of await driver.list()) holders.set(id, [...(holders.get(id) ?? []), driver]);
  }
  return holders;
}

/** Only as long as it is the very object that was found: labelled for a VirtualCluster that is not there. */
async function removeObject(
  client: KubeClient,
  { resource, name, tenantUid }: Orphans['superObjects'][number],
  signal: AbortSignal,
): Promise<void> {
  try {
    const { metadata } = await client.get(resource, { name }, { signal });
    if (metadata.labels?.[labelKeys.tenant] !== tenantUid || metadata.uid === undefined) return;
    await client.delete(resource, { name }, { uid: metadata.uid, propagationPolicy: 'Background', signal });
  } catch (error) {
    if (!isNotFound(error)) throw error;
  }
}

async function outcome(run: () => Promise<void>): Promise<Pick<Leftover, 'result' | 'failed'>> {
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
    return `https://127.0.0.1:${ports['datastore-client']}`;
  } catch (cause) {
    throw new CliError(
      'NotFound',
      `there is no datastore of a local stack in ${stateDir}: give --state-dir the directory of the stack`,
      { cause },
    );
  }
}
