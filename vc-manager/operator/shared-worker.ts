import type { VirtualCluster } from '../../api/virtual-cluster.ts';
import { KeyedMutex, namespacedName, type StoreEvent } from '../../kube/index.ts';
import type { ControlPlaneDriver } from '../drivers/driver.ts';
import type { BullmqRunner } from '../jobs/bullmq-runner.ts';
import type { Job, JobRun, ReconcileResult } from '../jobs/job-runner.ts';
import { type Fence, TenantLock } from '../jobs/tenant-lock.ts';
import type { Caches } from './caches.ts';
import { explain } from './errors.ts';
import { assertHeld, fenced } from './fencing.ts';
import { isDesiredStateChanged } from './jobs.ts';
import { reconcileVirtualCluster } from './reconcile.ts';
import { forgetTenant, type OperatorOptions, type RememberedByUid, type Services } from './services.ts';

interface SharedWorkerOptions {
  operator: OperatorOptions;
  caches: Caches;
  /** Without a fence: client, driver and datastore are fenced for each job. */
  services: () => Promise<Services>;
  /** Of these services: what is forgotten of a VirtualCluster that is gone. */
  remembered: RememberedByUid;
  queueName: string;
  /** How many jobs this manager does at the same time. */
  parallel: number;
  /** Of the super cluster, for the Leases of tenants. */
  namespace: string;
}

const interrupted = new DOMException('the VirtualCluster asks for something else', 'AbortError');
type Work = (fence: Fence, signal: AbortSignal) => Promise<ReconcileResult>;

const shortWaitMs = 1_000;

/**
 * One manager's part of shared work: it does the jobs that the leader puts into the queue, each only while it holds the
 * lease of the tenant.
 */
export class SharedWorker {
  readonly runner: BullmqRunner;
  readonly caches: Caches;
  /** Set while this manager leads, where a driver serves one manager at a time: jobs then hold the leader's lease. */
  leaderFence: Fence | undefined;
  readonly #o: SharedWorkerOptions;
  readonly #lock: TenantLock;
  readonly #running = new Map<string, Set<AbortController>>();
  /** By tenant, where the lease is the leader's. */
  readonly #mutex = new KeyedMutex();
  readonly #stopWatching: (() => void)[];

  static async create(options: SharedWorkerOptions): Promise<SharedWorker> {
    // The client of Redis is loaded only by managers that share jobs.
    const { BullmqRunner } = await import('../jobs/bullmq-runner.ts');
    return new SharedWorker(options, BullmqRunner);
  }

  private constructor(options: SharedWorkerOptions, Runner: typeof BullmqRunner) {
    this.#o = options;
    this.caches = options.caches;
    const { operator, queueName, caches, parallel, namespace } = options;
    const { client, identity, logger, redis } = operator;
    const { clock } = caches;
    const { lockMs, url = '', patienceMs } = redis ?? {};
    const leaseTimes = lockMs === undefined ? {} : { leaseDurationMs: lockMs, renewMs: lockMs / 10 };
    this.#lock = new TenantLock({ client, namespace, identity, clock, ...leaseTimes });
    this.runner = new Runner({
      lockMs,
      patienceMs,
      url,
      queueName,
      identity,
      parallel,
      clock,
      logger,
      handle: (job, run) => this.#handle(job, run),
    });
    this.#stopWatching = [
      caches.virtualClusters.subscribe((event) => this.#onVirtualCluster(event)),
      // A running job may use rights that the policy allows no more.
      caches.policies.subscribe(() => {
        for (const key of this.#running.keys()) this.#interrupt(key);
      }),
    ];
  }

  async close(): Promise<void> {
    for (const stop of this.#stopWatching) stop();
    await this.runner.close();
  }

  async #handle(job: Job, { signal, ...run }: JobRun): Promise<ReconcileResult> {
    const { logger } = this.#o.operator;
    const controller = new AbortController();
    const running = this.#running.get(job.key) ?? new Set();
    this.#running.set(job.key, running.add(controller));
    const either = AbortSignal.any([signal, controller.signal]);
    try {
      const services = await this.#o.services();
      const outcome = await this.#exclusively(job, either, (fence, term) =>
        this.#work(job, { ...run, services, fence, signal: term }),
      );
      if (
        this.#isShared &&
        job.kind === 'delete' &&
        outcome.kind === 'done' &&
        outcome.againAfterMs === undefined
      )
        await this.#lock.forget(job.uid);
      return outcome;
    } catch (error) {
      if (either.aborted) throw either.reason;
      logger.warn({ virtualCluster: job.key, err: error }, explain(error).message);
      return { kind: 'failed' };
    } finally {
      running.delete(controller);
      if (running.size === 0) this.#running.delete(job.key);
    }
  }

  get #isShared(): boolean {
    const { driver, otherDrivers = {} } = this.#o.operator;
    return isShared([driver, ...Object.values(otherDrivers)]);
  }

  /** Runs while no one else works on the tenant: under the tenant's lease, or under the leader's where only that works. */
  #exclusively(job: Job, signal: AbortSignal, work: Work): Promise<ReconcileResult> {
    if (this.#isShared) return this.#lock.hold(job, signal, work);
    const fence: Fence = { holdsNow: () => this.leaderFence?.holdsNow() === true };
    return this.#mutex.run(job.key, signal, () => work(fence, signal));
  }

  async #work(job: Job, run: JobRun & { services: Services; fence: Fence }): Promise<ReconcileResult> {
    const { operator } = this.#o;
    const { fence } = run;
    const client = operator.fencedClient(() => assertHeld(fence));
    const services = fenced({ ...run.services, client }, operator, fence);
    try {
      for (;;) {
        const outcome = await reconcileVirtualCluster(job, {
          ...run,
          services,
          fence,
          connect: operator.connect,
        });
        const waitMs = job.kind === 'delete' && outcome.kind === 'done' ? outcome.againAfterMs : undefined;
        if (waitMs === undefined || waitMs > shortWaitMs) return outcome;
        // Too short to go through the queue again.
        await this.caches.clock.sleep(waitMs, run.signal);
      }
    } finally {
      await client.connection.close();
    }
  }

  #onVirtualCluster({ type, object, previous }: StoreEvent<VirtualCluster>): void {
    // Where another manager leads, nothing else tells this one.
    if (type === 'deleted') forgetTenant(this.#o.remembered, object.metadata.uid ?? '');
    if (type === 'modified' && previous !== undefined && isDesiredStateChanged(object, previous))
      this.#interrupt(namespacedName(object.metadata));
  }

  #interrupt(key: string): void {
    for (const controller of this.#running.get(key) ?? []) controller.abort(interrupted);
  }
}

/** Whether any manager may carry out what any other has begun. */
export function isShared(drivers: Iterable<Pick<ControlPlaneDriver, 'isShared'>>): boolean {
  return [...drivers].every((driver) => driver.isShared === true);
}
