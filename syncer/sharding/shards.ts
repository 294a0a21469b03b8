import { type Clock, isConflict, isNotFound, onAbort, resources, Wakeup } from '../../kube/index.ts';
import { bucketCount } from '../mapping/labels.ts';
import { type FollowRecords, type Members, Peers } from './members.ts';
import { type Fence, OwnLease, ReplicaReplaced } from './own-lease.ts';
import { ownedBy, preferredReplica, type ShardClient, type ShardMap, ShardMapStore } from './shard-map.ts';

/** Serves the tenants of the buckets that this replica owns. */
export interface BucketHolder {
  /** These buckets will probably be ours: caches may be filled, nothing may be written. */
  expect(buckets: ReadonlySet<number>): void;
  /** These buckets are ours, too, from now on. */
  take(buckets: ReadonlySet<number>): void;
  /** These buckets are no longer ours; resolves when all work for their tenants, calls included, has ended. */
  drop(buckets: ReadonlySet<number>): Promise<void>;
  /** Writes, which were refused for a while, are allowed again. */
  resumed(): void;
}

interface BucketPlan {
  /** Buckets of ours to hand over, and to which replica. */
  readonly give: ReadonlyMap<number, string>;
  /** Buckets that this replica should own and that none serves, with their last owner. */
  readonly take: ReadonlyMap<number, string | undefined>;
}

/**
 * Which buckets this replica has to hand over and to take. Buckets are given only to replicas that were seen alive, and
 * taken from none that may be alive; a bucket without an owner is left to the one that may be alive.
 */
function bucketPlan(self: string, owners: ReadonlyMap<number, string>, members: Members): BucketPlan {
  const alive = [self, ...members.alive()];
  const possible = [self, ...members.possible()];
  const give = new Map<number, string>();
  const take = new Map<number, string | undefined>();
  for (let bucket = 0; bucket < bucketCount; bucket++) {
    const owner = owners.get(bucket);
    if (owner === self) {
      const to = preferredReplica(bucket, alive);
      if (to !== undefined && to !== self) give.set(bucket, to);
    } else if (owner === undefined || members.stateOf(owner) === 'dead') {
      if (preferredReplica(bucket, possible) === self) take.set(bucket, owner);
    }
  }
  return { give, take };
}

async function untilReady(ready: Promise<void>, signal: AbortSignal): Promise<void> {
  signal.throwIfAborted();
  const stopped = Promise.withResolvers<never>();
  const release = onAbort(signal, () => stopped.reject(signal.reason));
  await Promise.race([ready, stopped.promise]).finally(release);
}

function everyBucket(): Set<number> {
  return new Set(Array(bucketCount).keys());
}

interface ShardsOptions {
  /** Of the super cluster; its writes must not pass the fence. */
  client: ShardClient;
  follow: FollowRecords;
  /** Of Leases and map; made if it is missing. */
  namespace: string;
  replica: string;
  /** The name was given, and will be given again: no other replica has it, and the next process of this name continues. */
  isNamed: boolean;
  identity: string;
  metricsAddress?: string;
  /** Of this program. */
  version?: string;
  fence: Fence;
  holder: BucketHolder;
  clock: Clock;
  /** Until this, others keep what they have: this replica can serve no tenant yet. */
  ready: Promise<void>;
  logger: { info(fields: object, message: string): void; warn(fields: object, message: string): void };
  /** How long other replicas wait for one that does not renew its Lease. Default 10 s. */
  durationMs?: number;
  /** Between two renewals. Default 2 s. */
  renewMs?: number;
}

const lookAgainMs = 30_000;
const lastCallsMs = 5_000;

/**
 * Shares the buckets of tenants with the other replicas. Leases show which replicas are alive, one map shows the owner
 * of each bucket; the map is written only if it has not changed since it was read. Before this replica takes what a
 * dead one had, it sees that its Lease has not changed; and one that comes back writes to the map before anything else,
 * so that a concurrent takeover fails.
 */
export class Shards {
  readonly #options: ShardsOptions;
  readonly #lease: OwnLease;
  readonly #map: ShardMapStore;
  readonly #peers: Peers;
  readonly #wakeup = new Wakeup();
  readonly #renewMs: number;
  /** The buckets that the holder serves. */
  readonly #held = new Set<number>();
  /** The term of the Lease for which the map has been seen to. */
  #confirmedTerm = 0;
  #isReplaced = false;

  constructor(options: ShardsOptions) {
    const { client, namespace, fence, durationMs = 10_000, renewMs = 2_000 } = options;
    if (renewMs >= fence.windowMs || fence.windowMs >= durationMs) {
      throw new RangeError(
        'a Lease is renewed well within the window, and the window ends well before the Lease',
      );
    }
    this.#options = options;
    this.#renewMs = renewMs;
    this.#lease = new OwnLease({ ...options, durationMs, windowMs: fence.windowMs });
    this.#map = new ShardMapStore(client, namespace);
    this.#peers = new Peers({ ...options, durationMs });
  }

  /** The buckets that this replica owns. */
  get held(): ReadonlySet<number> {
    return this.#held;
  }

  /** Works until aborted. Rejects with ReplicaReplaced when another process has taken the name over. */
  async run(signal: AbortSignal): Promise<void> {
    const ending = new AbortController();
    const both = AbortSignal.any([signal, ending.signal]);
    let renewing: Promise<void> | undefined;
    try {
      await this.#join(both);
      renewing = this.#keepRenewed(both);
      await Promise.all([
        renewing,
        this.#keepAgreeing(both),
        this.#options.follow(
          this.#peers.listener(() => this.#wakeup.signal()),
          both,
        ),
      ]);
    } catch (error) {
      if (!signal.aborted) throw error;
    } finally {
      ending.abort(new Error('shards end'));
      if (!signal.aborted) this.#options.fence.close();
      // A write that is on its way must not come after the Lease was released.
      await renewing?.catch(() => undefined);
    }
  }

  /** Hands over what this replica has, when nothing is done for any tenant any more. After `run` has ended by its signal. */
  async leave(): Promise<void> {
    this.#options.fence.close();
    if (this.#isReplaced) return;
    try {
      if (this.#lease.term > 0) await this.#handOver();
      await this.#lease.release();
    } catch (error) {
      if (error instanceof ReplicaReplaced) return;
      this.#options.logger.warn({ err: error }, 'buckets could not be handed over; others take them later');
    }
  }

  /** What a replica does before it has its Lease; retries until aborted. */
  async #join(signal: AbortSignal): Promise<void> {
    await this.#expect(signal);
    await untilReady(this.#options.ready, signal);
    await this.#take(signal);
    signal.throwIfAborted();
  }

  /** The buckets of the last process of this name, which this one most likely gets. */
  async #expect(signal: AbortSignal): Promise<void> {
    const { holder, replica, clock, logger } = this.#options;
    for (;;) {
      try {
        const present = await this.#map.read(signal);
        return holder.expect(present.object === undefined ? everyBucket() : ownedBy(present, replica));
      } catch (error) {
        signal.throwIfAborted();
        logger.warn({ err: error }, 'cannot read the map of buckets; no tenant is served without it');
        await clock.sleep(this.#renewMs / 2, signal);
      }
    }
  }

  async #take(signal: AbortSignal): Promise<void> {
    const { client, namespace, clock, logger } = this.#options;
    for (;;) {
      try {
        return await this.#lease.take(signal);
      } catch (error) {
        signal.throwIfAborted();
        if (isConflict(error)) continue;
        if (isNotFound(error)) {
          await client
            .create(resources.namespaces, { metadata: { name: namespace } }, { signal })
            .catch((cause: unknown) => logger.warn({ err: cause }, 'cannot make the namespace for Leases'));
        } else {
          logger.warn({ err: error }, 'cannot take the Lease of this replica; nothing is served without it');
        }
        await clock.sleep(this.#renewMs / 2, signal);
      }
    }
  }

  async #keepRenewed(signal: AbortSignal): Promise<void> {
    const { clock, fence, logger } = this.#options;
    for (let tookMs = 0; ; ) {
      await clock.sleep(Math.max(this.#renewMs - tookMs, this.#renewMs / 10), signal);
      const startedAtMs = clock.monotonic();
      try {
        await this.#lease.renew(signal);
        signal.throwIfAborted();
        // Otherwise the agreement opens it, after the map is up to date.
        if (this.#lease.term !== this.#confirmedTerm) this.#wakeup.signal();
        else if (this.#lease.renewedAt !== undefined) fence.open(this.#lease.renewedAt);
      } catch (error) {
        signal.throwIfAborted();
        if (error instanceof ReplicaReplaced) {
          this.#isReplaced = true;
          throw error;
        }
        logger.warn({ err: error }, 'cannot renew the Lease of this replica');
      }
      tookMs = clock.monotonic() - startedAtMs;
    }
  }

  async #keepAgreeing(signal: AbortSignal): Promise<void> {
    const { clock, logger } = this.#options;
    for (;;) {
      try {
        await this.#agree(signal);
      } catch (error) {
        signal.throwIfAborted();
        logger.warn({ err: error }, 'cannot read the Leases of replicas and the map of buckets');
        await clock.sleep(this.#renewMs, signal);
        this.#wakeup.signal();
      }
      await this.#wakeup.waitFor(Math.min(this.#peers.members.nextDeathInMs, lookAgainMs), clock, signal);
    }
  }

  /** Reads Leases and map once, and acts on them. */
  async #agree(signal: AbortSignal): Promise<void> {
    const { term } = this.#lease;
    if (!this.#lease.isFresh) return;
    if (term !== this.#confirmedTerm) await this.#confirm(term, signal);
    for (;;) {
      if (!this.#options.fence.isOpen) return this.#ringIfLapsed();
      const map = await this.#map.read(signal);
      const { give, take } = bucketPlan(this.#options.replica, map.owners, this.#peers.members);
      await this.#adopt(map, give);
      if (give.size === 0 && take.size === 0) break;
      const changes = new Map<number, string | undefined>(give);
      const dead = new Set<string | undefined>([undefined]);
      for (const owner of new Set(take.values())) {
        if (owner !== undefined && (await this.#peers.isDead(owner, signal))) dead.add(owner);
      }
      for (const [bucket, owner] of take) if (dead.has(owner)) changes.set(bucket, this.#options.replica);
      if (changes.size === 0) break;
      // What was found out may be long ago by now: a replica that considers this one dead writes to the map, and this write fails.
      await this.#map.write(map, changes, signal);
    }
    await this.#peers.collect(this.#map, signal);
  }

  /**
   * The Lease is fresh again, or for the first time: others may have taken what was ours, or be about to. Such
   * a replica has a Lease; so where there is no other one, reading the map is enough.
   */
  async #confirm(term: number, signal: AbortSignal): Promise<void> {
    const { replica, fence, holder, logger } = this.#options;
    const [isShared, seen] = await Promise.all([this.#peers.look(signal), this.#map.read(signal)]);
    let map: ShardMap | undefined = seen;
    while (isShared && seen.object !== undefined) {
      const written: ShardMap | undefined = await this.#map.write(map, new Map(), signal);
      if (written !== undefined) {
        map = written;
        break;
      }
      map = await this.#map.read(signal);
    }
    const { give } = bucketPlan(replica, map.owners, this.#peers.members);
    await this.#adopt(map, give);
    if (this.#lease.term !== term || this.#lease.renewedAt === undefined) return this.#wakeup.signal();
    if (this.#confirmedTerm > 0)
      logger.info(
        { buckets: this.#held.size },
        'the Lease had lapsed; this replica goes on with what is its own',
      );
    signal.throwIfAborted();
    this.#confirmedTerm = term;
    fence.open(this.#lease.renewedAt);
    if (term > 1) holder.resumed();
  }

  #ringIfLapsed(): void {
    if (this.#lease.isFresh && this.#lease.term !== this.#confirmedTerm) this.#wakeup.signal();
  }

  /** Serves what the map assigns to this replica, except for what it is about to hand over. */
  async #adopt(map: ShardMap, give: ReadonlyMap<number, string>): Promise<void> {
    const { holder, replica, logger } = this.#options;
    const owned = ownedBy(map, replica);
    const lost = new Set([...this.#held].filter((bucket) => !owned.has(bucket) || give.has(bucket)));
    const gained = new Set([...owned].filter((bucket) => !this.#held.has(bucket) && !give.has(bucket)));
    if (lost.size > 0) {
      for (const bucket of lost) this.#held.delete(bucket);
      await holder.drop(lost);
    }
    if (gained.size > 0) {
      for (const bucket of gained) this.#held.add(bucket);
      holder.take(gained);
    }
    if (lost.size + gained.size > 0) {
      const fields = { gained: gained.size, lost: lost.size, buckets: this.#held.size };
      logger.info(fields, 'this replica serves the tenants of other buckets than before');
    }
  }

  async #handOver(): Promise<void> {
    const { replica, isNamed } = this.#options;
    const others = this.#peers.members.alive();
    if (others.length === 0 && isNamed) return;
    for (;;) {
      const map = await this.#map.read();
      const owned = [...ownedBy(map, replica)];
      if (owned.length === 0) return;
      // What the name has is ours to give only while the name is ours.
      await this.#lease.renew(AbortSignal.timeout(lastCallsMs));
      const changes = new Map(owned.map((bucket) => [bucket, preferredReplica(bucket, others)]));
      if ((await this.#map.write(map, changes)) !== undefined) return;
    }
  }
}
