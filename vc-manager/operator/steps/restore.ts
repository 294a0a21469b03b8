import { randomUUID } from 'node:crypto';
import { writingKey } from '../../pki/index.ts';
import { type Archive, readArchive } from '../../snapshot/archive.ts';
import { snapshotForeign, snapshotNotFound } from '../../snapshot/errors.ts';
import { encrypted } from '../../snapshot/secretbox.ts';
import { explain } from '../errors.ts';
import { recordProgress } from '../jobs.ts';
import type { Services } from '../services.ts';
import { restoreRequest, type SnapshotServices } from '../snapshots.ts';
import type { Step } from '../step-runner.ts';
import type { Tenant } from '../tenant.ts';
import { compareVersions } from '../version-choice.ts';
import { snapshotServices, takeSnapshot } from './snapshot.ts';

/**
 * Puts a tenant back to a snapshot: the whole file is read and judged, what the tenant has is kept as a snapshot of its
 * own, the syncer leaves, the control plane is stopped, and everything is replaced; the later steps start it again. A
 * manager that is killed leaves `status.restore`, from which the next one goes on.
 */
export const restore: Step = {
  name: 'restore',
  doing: 'Putting a snapshot back',
  condition: 'DatastoreReady',
  async run(tenant, services) {
    if (!tenant.wasReady) return;
    if (tenant.vc.status?.restore === undefined) {
      if (!(await begin(tenant, services))) return;
    } else await changeSource(tenant, services);
    const under = tenant.vc.status?.restore;
    if (under === undefined || under.replaced === true) return;
    // What was started for an earlier step.
    await tenant.components;
    await services.driver.stop(tenant.id, { signal: tenant.signal });
    await replace(tenant, services, under.from);
    tenant.status.set((status) => ({ ...status, restore: { ...under, replaced: true } }));
    await tenant.status.flush();
  },
};

/** The control plane runs with what was put back. */
export const restored: Step = {
  name: 'restored',
  doing: 'Letting the syncer in',
  async run(tenant, services) {
    const under = tenant.vc.status?.restore;
    if (under === undefined) return;
    const { request, from } = under;
    const at = new Date(services.clock.now()).toISOString();
    tenant.status.set(({ restore: _, ...status }) => ({ ...status, restored: { request, from, at } }));
  },
};

/** Whether it was begun: a request that cannot be followed is refused, and nothing is changed. */
async function begin(tenant: Tenant, services: Services): Promise<boolean> {
  const asked = restoreRequest(tenant.vc);
  if (asked === undefined) return false;
  try {
    const snapshots = snapshotServices(tenant, services);
    if (snapshots.isBusy) {
      tenant.unfinished = { progress: 'waits until another snapshot is taken', againAfterMs: 2_000 };
      return false;
    }
    await check(tenant, snapshots, asked.from);
    recordProgress(tenant, 'keeping what is there as a snapshot');
    await takeSnapshot(tenant, services, 'BeforeRestore');
  } catch (error) {
    if (tenant.signal.aborted) throw error;
    const { message, retryable } = explain(error);
    services.logger.warn({ err: error, virtualCluster: tenant.key }, message);
    tenant.unfinished = { step: 'restore', failing: message, againAfterMs: retryable ? 10_000 : 1_000 };
    if (!retryable) {
      const at = new Date(services.clock.now()).toISOString();
      tenant.status.set({ restored: { ...asked, at, refused: message.slice(0, 4_096) } });
    }
    return false;
  }
  tenant.status.set({ phase: 'Restoring', restore: asked });
  tenant.status.condition('Ready', 'False', 'Restoring', `It is put back to the snapshot ${asked.from}.`);
  // The syncer leaves when it sees this.
  await tenant.status.flush();
  return true;
}

/** The file has been lost meanwhile, perhaps: another one is asked for. */
async function changeSource(tenant: Tenant, services: Services): Promise<void> {
  const { restore: under } = tenant.vc.status ?? {};
  const asked = restoreRequest(tenant.vc);
  if (under?.replaced === true || asked === undefined || asked.request === under?.request) return;
  await check(tenant, snapshotServices(tenant, services), asked.from);
  tenant.status.set({ restore: asked });
  await tenant.status.flush();
}

/** Reads all of it. Throws SnapshotError. */
async function check(tenant: Tenant, snapshots: SnapshotServices, from: string): Promise<void> {
  const { header, entries, close } = await openSnapshot(tenant, snapshots, from);
  const { identities } = tenant.vc.status ?? {};
  if (header.identity !== identities?.tenant) {
    close();
    throw snapshotForeign(
      from,
      `it is of another tenant, ${header.namespace}/${header.name}: "vc-manager create NAME --from ${from}" makes a new one of it`,
    );
  }
  for await (const _ of entries);
}

/** Throws SnapshotError. */
export async function openSnapshot(
  tenant: Tenant,
  snapshots: SnapshotServices,
  from: string,
): Promise<Archive> {
  const { store, identities } = snapshots;
  // Whoever may edit a VirtualCluster gets what tenants of its namespace have, and no more.
  if (!from.startsWith(`${tenant.ref.namespace}/`)) throw snapshotNotFound(from, store.place);
  const archive = await readArchive(await store.read(from, { signal: tenant.signal }), {
    name: from,
    identities,
  });
  const { version } = tenant.required(tenant.choice, 'template');
  const { kubernetes } = archive.header;
  if (compareVersions(kubernetes, version) > 0) {
    archive.close();
    throw snapshotForeign(
      from,
      `Kubernetes ${kubernetes} has written it, which is newer than the ${version} of the tenant: change spec.version first`,
    );
  }
  return archive;
}

async function replace(tenant: Tenant, services: Services, from: string): Promise<void> {
  const snapshots = snapshotServices(tenant, services);
  const archive = await openSnapshot(tenant, snapshots, from);
  const key = writingKey(tenant.required(tenant.encryption, 'encryption key'));
  async function* entries() {
    for await (const entry of archive.entries) yield encrypted(entry, key);
  }
  await services.datastore.replaceTenant(tenant.id, entries(), {
    signal: tenant.signal,
    attempt: randomUUID(),
    onProgress: (written) => recordProgress(tenant, `${written} entries are written`),
  });
}
