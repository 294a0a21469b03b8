import { type Clock, isConflict, isNotFound, resources } from '../../kube/index.ts';
import { bucketCount } from '../mapping/labels.ts';
import type { BucketHolder } from './bucket-holder.ts';
import type { OwnLease } from './own-lease.ts';
import type { ShardClient } from './records.ts';
import { ownedBy, type ShardMapStore } from './shard-map.ts';

export interface JoiningOptions {
  client: ShardClient;
  namespace: string;
  replica: string;
  lease: OwnLease;
  map: ShardMapStore;
  holder: BucketHolder;
  /** Until this, others keep what they have: this replica can serve nobody yet. */
  ready: Promise<void>;
  clock: Clock;
  logger: { warn(fields: object, message: string): void };
  againAfterMs: number;
}

/** What a replica does before the others know of it. */
export class Joining {
  readonly #options: JoiningOptions;

  constructor(options: JoiningOptions) {
    this.#options = options;
  }

  /** Tells the holder what to expect, waits until it is ready, and takes the Lease. Tries until aborted. */
  async join(signal: AbortSignal): Promise<void> {
    await this.#expect(signal);
    await untilReady(this.#options.ready, signal);
    await this.#take(signal);
  }

  /** What the last process of this name had is most likely what this one gets. */
  async #expect(signal: AbortSignal): Promise<void> {
    const { map, holder, replica, clock, logger, againAfterMs } = this.#options;
    for (;;) {
      try {
        const present = await map.read(signal);
        return holder.expect(present.object === undefined ? everyBucket() : ownedBy(present, replica));
      } catch (error) {
        signal.throwIfAborted();
        logger.warn({ err: error }, 'cannot read who serves which tenants; nothing is served without it');
        await clock.sleep(againAfterMs, signal);
      }
    }
  }

  async #take(signal: AbortSignal): Promise<void> {
    const { client, namespace, lease, clock, logger, againAfterMs } = this.#options;
    for (;;) {
      try {
        return await lease.take(signal);
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
        await clock.sleep(againAfterMs, signal);
      }
    }
  }
}

async function untilReady(ready: Promise<void>, signal: AbortSignal): Promise<void> {
  signal.throwIfAborted();
  const stopped = Promise.withResolvers<never>();
  const stop = (): void => stopped.reject(signal.reason);
  signal.addEventListener('abort', stop, { once: true });
  await Promise.race([ready, stopped.promise]).finally(() => signal.removeEventListener('abort', stop));
}

function everyBucket(): Set<number> {
  return new Set(Array(bucketCount).keys());
}
