import type { VirtualCluster } from '../../api/virtual-cluster.ts';
import { repeatUntilAborted } from '../../kube/index.ts';
import type { DatastoreSize } from '../etcd/admin.ts';
import { EtcdError } from '../etcd/errors.ts';
import type { Services } from './services.ts';
import { snapshotBegunMs } from './snapshots.ts';

const MiB = 1024 ** 2;

const lookEveryMs = 5_000;
/** So much more means that a tenant writes a lot: all tenants are measured, and history is not kept for long. */
const growthBytes = 256 * MiB;
/** History that stays whatever happens: watches and lists in pages need the most recent of it. */
const keptMs = 20_000;
/** Below this share of the quota there is time for what etcd compacts by itself. */
const compactShare = 0.25;
const warnShare = 0.8;
/** Above this share no reader is waited for: tenants may have snapshots taken as often as they like. */
const readShare = 0.5;
/** etcd itself forgets at the latest then what was. */
const longestReadMs = 5 * 60_000;
/** Between what is read and the time that the status names, and between the clocks of two managers. */
const readMarginMs = 15_000;

type WatchServices = Pick<Services, 'datastore' | 'clock' | 'logger' | 'datastoreGrowth' | 'virtualClusters'>;

interface Sample {
  atMs: number;
  revision: number;
}

/**
 * Keeps one tenant from filling the etcd of all, which then refuses all writes: history that grows fast is
 * compacted earlier than etcd would do it, but for what a snapshot, restore or move still reads, and `onGrowth` is called
 * when tenants have to be measured at once.
 */
export class DatastoreWatch {
  readonly #services: WatchServices;
  readonly #onGrowth: () => void;
  #samples: Sample[] = [];
  /** Lowest size since tenants were last measured for growth. */
  #measuredBytes: number | undefined;
  #compactedRevision = 0;
  #isWarned = false;

  constructor(services: WatchServices, onGrowth: () => void) {
    this.#services = services;
    this.#onGrowth = onGrowth;
  }

  /** Looks every five seconds until aborted. */
  async run(signal: AbortSignal): Promise<void> {
    const { clock, logger } = this.#services;
    const onError = (error: unknown): void => {
      // The reconciles report an outage of the datastore.
      if (!(error instanceof EtcdError)) logger.error({ err: error }, 'the datastore cannot be watched');
      else logger.debug({ err: error }, 'the size of the datastore cannot be read');
    };
    await repeatUntilAborted({ everyMs: lookEveryMs, clock, onError }, signal, () => this.look(signal));
  }

  async look(signal: AbortSignal): Promise<void> {
    const { datastore, clock, datastoreGrowth } = this.#services;
    const size = await datastore.size({ signal });
    const now = clock.now();
    this.#warn(size);
    this.#measuredBytes = Math.min(this.#measuredBytes ?? size.bytesInUse, size.bytesInUse);
    const hasGrown = size.bytesInUse - this.#measuredBytes > growthBytes;
    if (hasGrown) {
      this.#measuredBytes = size.bytesInUse;
      datastoreGrowth.sinceMs = now;
      this.#onGrowth();
    }
    const untilMs = Math.min(now - keptMs, this.#readSinceMs(size, now) - readMarginMs);
    const old = this.#samples.findLast(({ atMs }) => atMs <= untilMs);
    if (old !== undefined && this.#isTight(size) && old.revision > this.#compactedRevision) {
      this.#compactedRevision = old.revision;
      await datastore.compact(old.revision, { signal });
    }
    this.#samples = [
      ...this.#samples.filter(({ atMs }) => atMs > now - 2 * keptMs),
      { atMs: now, revision: size.revision },
    ];
  }

  /** Since when a reader needs what was at one moment; infinity: there is none, or it is not waited for. */
  #readSinceMs({ bytesInUse, quotaBytes }: DatastoreSize, nowMs: number): number {
    if (quotaBytes !== undefined && bytesInUse > quotaBytes * readShare) return Number.POSITIVE_INFINITY;
    let since = Number.POSITIVE_INFINITY;
    for (const vc of this.#services.virtualClusters.list()) {
      const each = readingSinceMs(vc);
      if (each > nowMs - longestReadMs) since = Math.min(since, each);
    }
    return since;
  }

  #isTight({ bytesInUse, quotaBytes }: DatastoreSize): boolean {
    return quotaBytes !== undefined && bytesInUse > quotaBytes * compactShare;
  }

  #warn({ bytesInUse, quotaBytes }: DatastoreSize): void {
    const isFull = quotaBytes !== undefined && bytesInUse > quotaBytes * warnShare;
    if (isFull && !this.#isWarned) {
      const share = Math.floor((100 * bytesInUse) / quotaBytes);
      this.#services.logger.error(
        { bytesInUse, quotaBytes },
        `the datastore of all tenants is ${share} % full, and refuses every write at 100 %: lower the quotas ` +
          '(datastore.bytes) of the tenants that have most in it, as "vc-manager describe" shows, or raise --quota-backend-bytes of etcd',
      );
    }
    this.#isWarned = isFull;
  }
}

/** Since when a tenant is read from the datastore of all, by any manager; NaN: it is not. */
function readingSinceMs({ status }: VirtualCluster): number {
  const { move, snapshots, datastore } = status ?? {};
  if (move?.stage === 'copying' && move.from.datastore === 'shared') return Date.parse(move.pausedAt ?? '');
  const { begun, kept = [] } = snapshots ?? {};
  // One that is kept has been read.
  if (datastore === 'own' || begun === undefined || kept.some(({ name }) => name === begun))
    return Number.NaN;
  return snapshotBegunMs(begun);
}
