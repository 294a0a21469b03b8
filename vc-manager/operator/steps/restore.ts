import { annotationKeys } from '../../../api/labels.ts';
import type { SnapshotHeader } from '../../snapshot/archive.ts';
import { certificatesAbsent, explain } from '../errors.ts';
import { recordProgress, recordWake } from '../jobs.ts';
import type { Services } from '../services.ts';
import { hasPhaseAsleep } from '../sleep.ts';
import { asksForCertificates, certificatesIn } from '../snapshot-certificates.ts';
import { refuseOther, snapshotServices, withSnapshot } from '../snapshot-files.ts';
import { restoreRequest } from '../snapshots.ts';
import type { Step } from '../step-runner.ts';
import type { Tenant } from '../tenant.ts';
import { checkDatastoreQuota, encryptedEntries, replaceKeys } from '../tenant-keys.ts';
import { readInternalSecret, writeInternalSecret } from '../tenant-secrets.ts';
import { certificates } from './certificates.ts';
import { stopWriters } from './control-plane.ts';
import { stayAsleep, wakeDatastore } from './sleep.ts';
import { takeSnapshot } from './snapshot.ts';

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
    if (!tenant.wasReady || tenant.vc.status?.move !== undefined) return;
    if (tenant.vc.status?.restore === undefined) {
      if (!(await begin(tenant, services))) return;
    } else await changeSource(tenant, services);
    const under = tenant.vc.status?.restore;
    if (under === undefined || under.replaced === true) return;
    // What was started for an earlier step.
    await tenant.components;
    await stopWriters(tenant, services);
    const header = await withSnapshot(tenant, services, under.from, async (archive) => {
      await replaceKeys(tenant, services, encryptedEntries(tenant, archive.entries));
      return archive.header;
    });
    if (asksForCertificates(under.request)) await putBackCertificates(tenant, services, header);
    tenant.status.set((status) => ({ ...status, restore: { ...under, replaced: true } }));
    await tenant.status.flush();
  },
};

/** Of one that is asleep, which stays so when this is refused or cannot be done yet. */
export const beginRestore: Step = {
  name: 'restore',
  doing: 'Reading a snapshot',
  async run(tenant, services) {
    if (!(await begin(tenant, services))) await stayAsleep.run(tenant, services);
  },
};

/** The control plane runs with what was put back. */
export const finishRestore: Step = {
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
    const snapshots = snapshotServices(services);
    const pause = snapshots.pauses.find(tenant.uid, attemptOf(tenant, asked.request));
    if (pause !== undefined) {
      tenant.unfinished = { step: 'restore', failing: pause.message, againAfterMs: pause.againAfterMs };
      return false;
    }
    if (!snapshots.turns.mayTake(tenant)) {
      tenant.unfinished = { progress: 'waits until another snapshot is taken', againAfterMs: 2_000 };
      return false;
    }
    await snapshots.turns.take(tenant, async () => {
      // Read as a whole, as one that is taken is written.
      await check(tenant, services, asked);
      if (hasPhaseAsleep(tenant.vc) && tenant.ownDatastore !== undefined)
        await wakeDatastore.run(tenant, services);
      recordProgress(tenant, 'keeping what is there as a snapshot');
      await takeSnapshot(tenant, services, 'BeforeRestore');
    });
  } catch (error) {
    if (tenant.signal.aborted) throw error;
    const { message, retryable } = explain(error, tenant);
    services.logger.warn({ err: error, virtualCluster: tenant.key }, message);
    if (retryable) pauseAfter(tenant, services, { attempt: attemptOf(tenant, asked.request), why: message });
    else {
      services.snapshots?.pauses.end(tenant.uid);
      tenant.unfinished = { step: 'restore', failing: message, againAfterMs: 1_000 };
      const at = new Date(services.clock.now()).toISOString();
      tenant.status.set({ restored: { ...asked, at, refused: message.slice(0, 4_096) } });
    }
    return false;
  }
  services.snapshots?.pauses.end(tenant.uid);
  if (hasPhaseAsleep(tenant.vc)) recordWake(tenant, services);
  tenant.status.set({ phase: 'Restoring', restore: asked });
  tenant.status.condition('Ready', 'False', 'Restoring', `It is put back to the snapshot ${asked.from}.`);
  // The syncer leaves when it sees this.
  await tenant.status.flush();
  return true;
}

/** The same for attempts at one request, until there is another request. */
function attemptOf({ vc }: Tenant, request: string): string {
  return `${request} ${vc.metadata.annotations?.[annotationKeys.retryJob] ?? ''}`;
}

function pauseAfter(tenant: Tenant, services: Services, failure: { attempt: string; why: string }): void {
  const there = Array.from(services.virtualClusters.list(), ({ metadata }) => metadata.uid ?? '');
  const { pauses } = snapshotServices(services);
  const { message, againAfterMs } = pauses.begin(tenant.uid, { ...failure, there });
  tenant.unfinished = { step: 'restore', failing: message, againAfterMs };
}

/** The file has been lost meanwhile, perhaps: another one is asked for. */
async function changeSource(tenant: Tenant, services: Services): Promise<void> {
  const { restore: under } = tenant.vc.status ?? {};
  const asked = restoreRequest(tenant.vc);
  if (under?.replaced === true || asked === undefined || asked.request === under?.request) return;
  await check(tenant, services, asked);
  tenant.status.set({ restore: asked });
  await tenant.status.flush();
}

/** Reads all of it. Throws SnapshotError, `DatastoreQuotaExceeded`. */
async function check(
  tenant: Tenant,
  services: Services,
  { from, request }: { from: string; request: string },
): Promise<void> {
  const { identities, authorities } = tenant.vc.status ?? {};
  const header = await withSnapshot(tenant, services, from, async (archive) => {
    refuseOther(from, archive.header, identities?.tenant);
    if (tenant.ownDatastore !== undefined) for await (const _ of archive.entries);
    else await checkDatastoreQuota(tenant, encryptedEntries(tenant, archive.entries));
    return archive.header;
  });
  if (!asksForCertificates(request)) return;
  await certificatesIn(header, tenant, services);
  if (authorities !== undefined)
    throw certificatesAbsent('its authorities are being renewed: ask again when that is over');
}

/** With the control plane stopped. Its other certificates are issued anew by these. */
async function putBackCertificates(
  tenant: Tenant,
  services: Services,
  header: SnapshotHeader,
): Promise<void> {
  const stored = await readInternalSecret(tenant, services, 'pki');
  const data = { ...stored, ...(await certificatesIn(header, tenant, services)) };
  await writeInternalSecret(tenant, services, 'pki', data);
  await certificates.run(tenant, services);
}
