import { randomUUID } from 'node:crypto';
import { type Clock, type KubeClient, LeaseElection, resources } from '../../kube/index.ts';
import { JobError } from './job-runner.ts';

interface TenantLockOptions {
  /** Of the super cluster; only for the lease. */
  client: KubeClient;
  namespace: string;
  identity: string;
  clock: Clock;
  leaseDurationMs?: number;
  renewMs?: number;
  /** How long to wait for another manager to let go. Default: three times the lease's duration. */
  waitMs?: number;
}

/** Tells by this process's own monotonic clock whether a lease is still held, so that no other manager can be at work. */
export interface Fence {
  holdsNow(): boolean;
}

/**
 * Keeps two managers from working on one tenant, by a Lease per tenant in the super cluster. A queue in Redis cannot
 * promise that: it may be lost or emptied, or take a slow worker for a dead one.
 */
export class TenantLock {
  readonly #o: TenantLockOptions;

  constructor(options: TenantLockOptions) {
    this.#o = options;
  }

  static leaseName(uid: string): string {
    return `skerry-job-${uid}`;
  }

  /** Works while the lease is held; `signal` of the work is aborted when it is lost. Throws `TenantBusy`. */
  async hold<T>(
    { key, uid }: { key: string; uid: string },
    signal: AbortSignal,
    work: (fence: Fence, signal: AbortSignal) => Promise<T>,
  ): Promise<T> {
    const { client, namespace, identity, clock, leaseDurationMs = 8_000, renewMs = 1_000 } = this.#o;
    const { waitMs = 3 * leaseDurationMs } = this.#o;
    const lease = new LeaseElection({
      client,
      namespace,
      name: TenantLock.leaseName(uid),
      // Two calls in one process exclude each other too.
      identity: `${identity}/${randomUUID().slice(0, 8)}`,
      clock,
      leaseDurationMs,
      renewMs,
    });
    const patience = new AbortController();
    const competing = AbortSignal.any([signal, patience.signal]);
    let outcome: { value: T } | { error: unknown } | undefined;
    const waiting = new AbortController();
    clock.sleep(waitMs, waiting.signal).then(
      () => patience.abort(),
      () => undefined,
    );
    try {
      await lease.run(competing, async (term) => {
        waiting.abort();
        try {
          outcome = { value: await work(lease, term) };
        } catch (error) {
          outcome = { error };
        } finally {
          // No second term: after a lost lease the work has to begin from the beginning.
          patience.abort();
        }
      });
    } finally {
      waiting.abort();
    }
    if (outcome === undefined) {
      signal.throwIfAborted();
      throw tenantBusy(key);
    }
    if ('error' in outcome) throw outcome.error;
    return outcome.value;
  }

  /** Deletes the Lease of a tenant that is gone. Best effort: a Lease that stays does no harm. */
  async forget(uid: string): Promise<void> {
    const { client, namespace } = this.#o;
    await client
      .delete(resources.leases, { namespace, name: TenantLock.leaseName(uid) })
      .catch(() => undefined);
  }
}

function tenantBusy(key: string): JobError {
  return new JobError('TenantBusy', `another manager is still at work on ${key}; it is tried again`, true);
}
