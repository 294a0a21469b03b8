import { type Archive, readArchive, type SnapshotHeader } from '../snapshot/archive.ts';
import { snapshotForeign, snapshotNotFound } from '../snapshot/errors.ts';
import { noSnapshotStore, RequeueAfter } from './errors.ts';
import type { Services } from './services.ts';
import type { SnapshotServices } from './snapshots.ts';
import type { Tenant } from './tenant.ts';
import { compareVersions } from './version-choice.ts';

/** Throws when this manager keeps no snapshots. */
export function snapshotServices({ snapshots }: Services): SnapshotServices {
  if (snapshots === undefined) throw noSnapshotStore();
  return snapshots;
}

/** Throws SnapshotError. */
export async function readSnapshot(
  { ref, signal }: Tenant,
  { store, identities }: SnapshotServices,
  from: string,
): Promise<Archive> {
  // A user who may edit a VirtualCluster gets what tenants of its namespace have, and no more.
  if (!from.startsWith(`${ref.namespace}/`)) throw snapshotNotFound(from, store.location);
  return readArchive(await store.read(from, { signal }), { name: from, identities });
}

/** One that the version of the tenant can read. Throws SnapshotError. */
async function openSnapshot(tenant: Tenant, snapshots: SnapshotServices, from: string): Promise<Archive> {
  const archive = await readSnapshot(tenant, snapshots, from);
  try {
    refuseNewer(from, archive.header, tenant.required(tenant.choice, 'template').version);
  } catch (error) {
    archive.close();
    throw error;
  }
  return archive;
}

/** As `openSnapshot`, for as long as `work` takes. */
export async function withSnapshot<T>(
  tenant: Tenant,
  services: Services,
  from: string,
  work: (archive: Archive) => Promise<T>,
): Promise<T> {
  const archive = await openSnapshot(tenant, snapshotServices(services), from);
  try {
    return await work(archive);
  } finally {
    archive.close();
  }
}

/** Throws `SnapshotForeign` for one that a newer Kubernetes has written. */
export function refuseNewer(from: string, { kubernetes }: SnapshotHeader, version: string): void {
  if (compareVersions(kubernetes, version) <= 0) return;
  throw snapshotForeign(
    from,
    `Kubernetes ${kubernetes} has written it, which is newer than the ${version} of the tenant: change spec.version first`,
  );
}

/**
 * For a new tenant that is made from a snapshot: such are read one at a time, as each keeps a worker for as long as the
 * tenant that it came from was large. Throws `RequeueAfter` while another one is.
 */
export async function inTurn<T>(tenant: Tenant, services: Services, work: () => Promise<T>): Promise<T> {
  const { turns } = snapshotServices(services);
  if (!turns.mayTake(tenant))
    throw new RequeueAfter('It waits until another snapshot is taken or read.', 2_000, {
      reason: 'Waiting',
      keepsFailures: true,
    });
  return turns.take(tenant, work);
}

/** For one that is put back in place. Throws `SnapshotForeign` for one of another tenant. `own`: of `status.identities`. */
export function refuseOther(
  from: string,
  { identity, namespace, name }: SnapshotHeader,
  own: string | undefined,
): void {
  if (identity === own) return;
  throw snapshotForeign(
    from,
    `it is of another tenant, ${namespace}/${name}: "vc-manager create NAME --from ${from}" makes a new one of it`,
  );
}
