import { PassThrough, pipeline, type Readable, type Transform } from 'node:stream';
import type { KeptSnapshot, SnapshotReason } from '../../../api/virtual-cluster.ts';
import { EtcdError } from '../../etcd/errors.ts';
import type { Entry, KeyspaceView } from '../../etcd/keyspace.ts';
import { keysOf, storedEncryption } from '../../pki/index.ts';
import { writeArchive } from '../../snapshot/archive.ts';
import { decrypted, type PlainEntry } from '../../snapshot/secretbox.ts';
import type { SnapshotStore } from '../../snapshot/store.ts';
import { explain, type OperatorError, snapshotStorageExceeded, snapshotTooSlow } from '../errors.ts';
import { recordProgress, wantedJob } from '../jobs.ts';
import type { Services } from '../services.ts';
import { asksForCertificates, certificatesOf } from '../snapshot-certificates.ts';
import { snapshotServices } from '../snapshot-files.ts';
import {
  replaceable,
  type SnapshotStorage,
  selectToFree,
  sizeOf,
  snapshotStorage,
  within,
} from '../snapshot-storage.ts';
import {
  isMade,
  isSnapshotWanted,
  newSnapshotName,
  restoreRequest,
  type SnapshotServices,
  snapshotDueMs,
  snapshotRequest,
} from '../snapshots.ts';
import type { Step } from '../step-runner.ts';
import type { Tenant } from '../tenant.ts';
import { withKeys } from '../tenant-keys.ts';
import { readInternalSecret } from '../tenant-secrets.ts';

/**
 * Takes a snapshot when one is asked for or due. It reads the datastore alone: a tenant that is asleep stays so, and
 * one whose API server does not start has one all the same. That it fails is no failure of the control plane.
 */
export const snapshot: Step = {
  name: 'snapshot',
  doing: 'Taking a snapshot',
  async run(tenant, services) {
    const nowMs = services.clock.now();
    if (tenant.vc.status?.restore !== undefined) {
      // Until that is over it has half of the one and half of the other.
      tenant.lookAgainMs = Math.min(tenant.lookAgainMs, afterRestoreMs);
      return;
    }
    if (isWaking(tenant, services)) {
      tenant.lookAgainMs = Math.min(tenant.lookAgainMs, afterWakeMs);
      return;
    }
    if (!isSnapshotWanted(tenant.vc, nowMs)) {
      await removeUnfinished(tenant, services);
      const dueMs = snapshotDueMs(tenant.vc);
      if (dueMs === undefined) tenant.status.dropCondition(condition);
      else tenant.lookAgainMs = Math.min(tenant.lookAgainMs, dueMs - nowMs);
      return;
    }
    const wait = whyWait(tenant, services);
    if (wait !== undefined) {
      if (wait.reason !== undefined) tenant.status.condition(condition, 'False', wait.reason, wait.message);
      tenant.unfinished = { ...wait.unfinished, maySleep: true };
      return;
    }
    const request = snapshotRequest(tenant.vc);
    const reason = request === undefined ? 'Scheduled' : 'Requested';
    const followed = request === undefined ? {} : { taken: request };
    try {
      await snapshotServices(services).turns.take(tenant, () =>
        takeSnapshot(tenant, services, reason, asksForCertificates(request)),
      );
      tenant.status.set(({ snapshots: { tried: _, ...snapshots } = {}, ...status }) => ({
        ...status,
        snapshots: { ...snapshots, ...followed },
      }));
    } catch (error) {
      if (tenant.signal.aborted) throw error;
      const { message, retryable, reason: why } = explain(error, tenant);
      services.logger.warn({ err: error, virtualCluster: tenant.key }, message);
      if (services.snapshots !== undefined && why === 'SnapshotStoreFailed')
        services.snapshots.away = {
          ...{ reason: why, message },
          untilMs: services.clock.monotonic() + awayPauseMs,
        };
      tenant.status.condition(condition, 'False', why, message);
      const againAfterMs = retryable ? 10_000 : 1_000;
      // It reads the datastore alone, of one that is asleep too.
      tenant.unfinished = { step: 'snapshot', failing: message, againAfterMs, maySleep: true };
      // A request that cannot be followed ends as a failed job; one on schedule is tried again later.
      const ended =
        request === undefined ? { tried: new Date(nowMs).toISOString() } : retryable ? {} : followed;
      tenant.status.set((status) => ({ ...status, snapshots: { ...status.snapshots, ...ended } }));
    }
    await tenant.status.flush();
  },
};

/** A client waits for its API server. One that does not wake up has a snapshot all the same. */
function isWaking({ vc }: Tenant, services: Services): boolean {
  return vc.status?.phase !== 'Failed' && wantedJob(vc, services).kind === 'wake';
}

interface Wait {
  unfinished: NonNullable<Tenant['unfinished']>;
  /** Absent: it is no failure. */
  reason?: string;
  message: string;
}

/** Why one that is wanted is not taken at present; undefined: it is. */
function whyWait(tenant: Tenant, { snapshots, clock }: Services): Wait | undefined {
  const { vc } = tenant;
  const { away, turns } = snapshots ?? {};
  const awayMs = (away?.untilMs ?? 0) - clock.monotonic();
  if (snapshotRequest(vc) === undefined && away !== undefined && awayMs > 0) {
    const { reason, message } = away;
    return { reason, message, unfinished: { step: 'snapshot', failing: message, againAfterMs: awayMs } };
  }
  if (turns === undefined || turns.mayTake(tenant)) return undefined;
  const progress = 'waits until another snapshot is taken';
  return {
    message: progress,
    unfinished: { progress, againAfterMs: away === undefined ? 2_000 : awayPauseMs },
  };
}

/** Whether the step `snapshot` is going to read the datastore. */
export function isSnapshotNext(tenant: Tenant, services: Services): boolean {
  return isSnapshotWanted(tenant.vc, services.clock.now()) && whyWait(tenant, services) === undefined;
}

const condition = 'SnapshotTaken';
/** Of the schema. */
const maxKept = 96;
const maxLeft = 16;
const takeBackMs = 5_000;
const afterRestoreMs = 1_000;
const afterWakeMs = 1_000;
/** One tenant at a time finds out whether the store is back. */
const awayPauseMs = 60_000;

/**
 * Of one moment, with the Secrets decrypted, into the store; when it is there, older ones of its kind go, and those on schedule
 * for which there is no room. Its caller has the turn (`SnapshotTurns`). Throws `SnapshotStorageExceeded`, of which nothing is
 * left in the store.
 */
export async function takeSnapshot(
  tenant: Tenant,
  services: Services,
  reason: SnapshotReason,
  withCertificates = false,
): Promise<KeptSnapshot> {
  const snapshots = snapshotServices(services);
  const { store } = snapshots;
  await removeBegun(tenant, services, snapshots);
  const keep = tenant.vc.spec?.snapshots?.keep ?? 7;
  const mayGo = (): KeptSnapshot[] => {
    const own = (tenant.vc.status?.snapshots?.kept ?? []).filter(
      ({ name }) => isOwn(name, tenant) && !isInUse(name, tenant, services),
    );
    return replaceable(own, { reason, keep });
  };
  const { storage, room, endBytes } = await findRoom(tenant, services, mayGo());
  const kept = await withKeys(tenant, services, async (keys) => {
    const view = await keys.view({ signal: tenant.signal });
    return writeSnapshot(tenant, services, { snapshots, view, reason, withCertificates, storage, room });
  });
  snapshots.away = undefined;
  const after = await snapshotStorage(tenant, services, store);
  const replaced = selectToFree(mayGo(), after.usedBytes - endBytes, after);
  if (replaced === undefined) {
    // Another manager has written for this namespace meanwhile. One that cannot be removed here is by the next snapshot.
    await store.remove(kept.name, { signal: tenant.signal });
    throw noRoom(tenant, after, store);
  }
  const before = tenant.vc.status?.snapshots?.kept ?? [];
  const older = before.filter((each) => each.reason === reason).slice(keep - 1);
  // Before others go: a manager that is killed in between leaves one that the status names as whole.
  tenant.status.set(({ snapshots: { begun: _, ...others } = {}, ...status }) => ({
    ...status,
    snapshots: {
      ...others,
      // One that is kept too has not replaced all that it has to.
      ...(replaced.length > 0 && { begun: kept.name }),
      kept: [kept, ...before].slice(0, maxKept),
    },
  }));
  const leaving = new Set([...older, ...replaced]);
  if (leaving.size > 0) await tenant.status.flush();
  const removed = await removeKept(tenant, services, leaving);
  if (replaced.every((each) => removed.includes(each))) forgetBegun(tenant);
  reportStorage(tenant, { ...after, usedBytes: after.usedBytes - sizeOf(removed, after) });
  tenant.status.condition(
    condition,
    'True',
    'Taken',
    `Snapshot ${kept.name}: ${kept.entries} entries, ${kept.bytes} bytes.`,
  );
  return kept;
}

/**
 * Removes these from the store and from the list, but for those that are in use, or that the store does not let go. Returns
 * those that are gone from the store.
 */
async function removeKept(
  tenant: Tenant,
  services: Services,
  leaving: Iterable<KeptSnapshot>,
): Promise<KeptSnapshot[]> {
  const { store } = snapshotServices(services);
  const removed: KeptSnapshot[] = [];
  const forgotten = new Set<string>();
  for (const each of leaving) {
    // Of the tenant that this status was copied from, and which may still be here: it is forgotten, and stays.
    if (!isOwn(each.name, tenant)) {
      forgotten.add(each.name);
      continue;
    }
    // A restore that has begun, or is about to, reads it again. The next one removes it.
    if (isInUse(each.name, tenant, services)) continue;
    try {
      await store.remove(each.name, { signal: tenant.signal });
      removed.push(each);
      forgotten.add(each.name);
    } catch (error) {
      if (tenant.signal.aborted) throw error;
      // It stays in the list, and the next one tries again.
      services.logger.warn({ err: error, snapshot: each.name }, 'an old snapshot cannot be removed');
    }
  }
  tenant.status.set(({ snapshots: { kept, ...others } = {}, ...status }) => ({
    ...status,
    snapshots: { ...others, ...(kept && { kept: kept.filter(({ name }) => !forgotten.has(name)) }) },
  }));
  return removed;
}

function forgetBegun({ status }: Tenant): void {
  status.set(({ snapshots: { begun: _, ...others } = {}, ...rest }) => ({ ...rest, snapshots: others }));
}

interface Room {
  storage: SnapshotStorage;
  /** How much another one may take. */
  room: number;
  /** How much the namespace may take at the end. Where it has more than it may, what is there stays, and does not grow. */
  endBytes: number;
}

/** Throws `SnapshotStorageExceeded`. `mayGo`: when the new one is there; those that go first in front. */
async function findRoom(tenant: Tenant, services: Services, mayGo: readonly KeptSnapshot[]): Promise<Room> {
  const { store } = snapshotServices(services);
  let storage = await snapshotStorage(tenant, services, store);
  const late = notReplaced(tenant, mayGo, storage);
  if (late.length > 0) {
    const removed = await removeKept(tenant, services, late);
    storage = await snapshotStorage(tenant, services, store);
    // Of a store that removes nothing each one would take more.
    if (removed.length < late.length) throw noRoom(tenant, storage, store);
    // Once: what comes now may fail again and again.
    forgetBegun(tenant);
    await tenant.status.flush();
  }
  const endBytes = Math.max(storage.maxBytes, storage.usedBytes);
  const room =
    endBytes -
    storage.usedBytes +
    sizeOf(
      mayGo.filter((each) => !late.includes(each)),
      storage,
    );
  if (room <= 0) throw noRoom(tenant, storage, store);
  return { storage, room, endBytes };
}

/** What was to go for the last one, and is there because the manager was killed or the store has failed. */
function notReplaced(
  { vc }: Tenant,
  mayGo: readonly KeptSnapshot[],
  storage: SnapshotStorage,
): KeptSnapshot[] {
  const { begun, kept = [] } = vc.status?.snapshots ?? {};
  const last = kept.find(({ name }) => name === begun);
  if (last === undefined) return [];
  const others = mayGo.filter((each) => each !== last);
  const there = others.filter(({ name }) => storage.sizes.has(name));
  const goneBytes = others.reduce((sum, each) => sum + (there.includes(each) ? 0 : each.bytes), 0);
  const lateBytes = Math.min(storage.usedBytes - storage.maxBytes, sizeOf([last], storage) - goneBytes);
  return selectToFree(there, lateBytes, storage) ?? there;
}

function noRoom(tenant: Tenant, storage: SnapshotStorage, { location }: SnapshotStore): OperatorError {
  reportStorage(tenant, storage);
  return snapshotStorageExceeded(storage, { namespace: tenant.ref.namespace, location });
}

function reportStorage({ status }: Tenant, { usedBytes, maxBytes }: SnapshotStorage): void {
  const storage = { usedBytes, maxBytes: Math.min(Math.floor(maxBytes), Number.MAX_SAFE_INTEGER) };
  status.set(({ snapshots: { storage: _, ...others } = {}, ...rest }) => ({
    ...rest,
    snapshots: { ...others, ...(Number.isFinite(maxBytes) && { storage }) },
  }));
}

/**
 * Those that a manager which was killed, or a store that failed, left. They are listed nowhere, but a restore may name
 * one.
 */
async function removeBegun(tenant: Tenant, services: Services, { store }: SnapshotServices): Promise<void> {
  const { begun, left = [], kept = [] } = tenant.vc.status?.snapshots ?? {};
  const inUse: string[] = [];
  for (const name of new Set(begun === undefined ? left : [begun, ...left])) {
    if (!isOwn(name, tenant) || kept.some((each) => each.name === name)) continue;
    if (isInUse(name, tenant, services)) {
      inUse.push(name);
      continue;
    }
    try {
      await store.remove(name, { signal: tenant.signal });
    } catch (error) {
      if (tenant.signal.aborted) throw error;
      // A store that refuses deletions is no reason to take no more.
      services.logger.warn({ err: error, snapshot: name }, 'an unfinished snapshot cannot be removed');
    }
  }
  tenant.status.set(({ snapshots: { left: _, ...others } = {}, ...status }) => ({
    ...status,
    snapshots: { ...others, ...(inUse.length > 0 && { left: inUse.slice(0, maxLeft) }) },
  }));
}

/** Of one that was cancelled. The next one, which may be long in coming, does it again: the store may still be busy with it. */
async function removeUnfinished(tenant: Tenant, services: Services): Promise<void> {
  const { snapshots } = services;
  const { begun, left = [], kept = [] } = tenant.vc.status?.snapshots ?? {};
  if (begun === undefined || kept.some(({ name }) => name === begun)) return;
  if (snapshots === undefined || snapshots.away !== undefined) return;
  tenant.status.set(({ snapshots: { begun: _, ...others } = {}, ...status }) => ({
    ...status,
    snapshots: { ...others, left: [begun, ...left].slice(0, maxLeft) },
  }));
  if (!isOwn(begun, tenant) || isInUse(begun, tenant, services)) return;
  const signal = AbortSignal.any([tenant.signal, AbortSignal.timeout(takeBackMs)]);
  await snapshots.store.remove(begun, { signal }).catch(() => {});
}

/** False for what the status of another tenant named, of which this one's is a copy. */
function isOwn(name: string, { ref }: Tenant): boolean {
  return name.startsWith(`${ref.namespace}/${ref.name}/`);
}

/** Whether a tenant of its namespace is being put back to it, or filled from it: no other can be. The store lags behind: of this one `vc` is newer. */
function isInUse(name: string, { vc: current }: Tenant, { virtualClusters }: Services): boolean {
  return [current, ...virtualClusters.list()].some(
    (vc) =>
      name.startsWith(`${vc.metadata.namespace}/`) &&
      (vc.status?.restore?.from === name ||
        restoreRequest(vc)?.from === name ||
        (vc.spec?.restoreFrom === name && vc.status?.restored === undefined && !isMade(vc))),
  );
}

async function writeSnapshot(
  tenant: Tenant,
  services: Services,
  {
    snapshots,
    view,
    reason,
    withCertificates,
    storage,
    room,
  }: {
    snapshots: SnapshotServices;
    view: KeyspaceView;
    reason: SnapshotReason;
    withCertificates: boolean;
    storage: SnapshotStorage;
    /** So many bytes and no more. */
    room: number;
  },
): Promise<KeptSnapshot> {
  const { store, recipients } = snapshots;
  const { signal, id, ref } = tenant;
  const { status } = tenant.vc;
  const pki = await readInternalSecret(tenant, services, 'pki');
  const keys = keysOf(storedEncryption(pki));
  const certificates = withCertificates ? certificatesOf(tenant, pki ?? {}, snapshots) : undefined;
  const at = new Date(services.clock.now()).toISOString();
  const kubernetes = tenant.required(status?.version, 'version');
  let entries = 0;
  let shownAt = services.clock.monotonic();
  async function* plain(): AsyncGenerator<PlainEntry> {
    for await (const entry of readEntries(view, () => entries, store.location)) {
      if (!isKept(entry.key)) continue;
      yield decrypted(entry, keys);
      entries++;
      if (entries % 100 !== 0 || services.clock.monotonic() - shownAt < 2_000) continue;
      shownAt = services.clock.monotonic();
      recordProgress(tenant, `${entries} of about ${view.count} entries are read`);
      await tenant.status.flush();
    }
  }
  const header = {
    namespace: ref.namespace,
    name: ref.name,
    id,
    identity: status?.identities?.tenant ?? '',
    kubernetes,
    serviceCIDR: tenant.required(status?.serviceCIDR, 'service slice'),
    revision: view.revision,
    takenAt: at,
    ...(certificates && { certificates }),
  };
  const name = newSnapshotName(ref, at);
  tenant.status.set((old) => ({ ...old, snapshots: { ...old.snapshots, begun: name } }));
  await tenant.status.flush();
  const limit = within(room, () => noRoom(tenant, storage, store));
  const content = readAhead(await writeArchive(header, plain(), { recipients }), limit);
  const bytes = await store.write(name, content, { signal }).catch(async (error: unknown) => {
    content.destroy();
    // The caller that has ended this waits. The next look at the tenant removes it.
    if (signal.aborted) throw error;
    // It may be there, and only the answer was lost. The next snapshot would remove it, but there may be none.
    await store.remove(name, { signal: AbortSignal.timeout(takeBackMs) }).catch(() => {});
    throw error;
  });
  return { name, at, reason, kubernetes, entries, bytes, ...(withCertificates && { certificates: true }) };
}

/** Of what is compressed: a tenant of tens of thousands of objects has no more. */
const readAheadBytes = 32 * 1024 ** 2;

/** The same content. So much of it is read before the store takes it: a slow store must not keep the datastore waiting. */
function readAhead(content: Readable, limit: Transform): Readable {
  const ahead = new PassThrough({ readableHighWaterMark: readAheadBytes });
  // An error of one ends all.
  pipeline(content, limit, ahead, () => {});
  return ahead;
}

/** Throws `SnapshotTooSlow` when the datastore has forgotten what was. */
async function* readEntries(
  { entries, count }: KeyspaceView,
  read: () => number,
  location: string,
): AsyncGenerator<Entry> {
  try {
    yield* entries;
  } catch (error) {
    if (error instanceof EtcdError && error.code === 'Compacted')
      throw snapshotTooSlow({ read: read(), count, location }, error);
    throw error;
  }
}

/** Who is alive at the moment, and what has happened lately, is no state to come back to. */
function isKept(key: string): boolean {
  return !key.startsWith('leases/') && !key.startsWith('masterleases/') && !key.startsWith('events/');
}
