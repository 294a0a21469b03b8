import type { VirtualCluster } from '../../api/virtual-cluster.ts';
import type { StoreEvent } from '../../kube/index.ts';
import type { BullmqRunner } from '../jobs/bullmq-runner.ts';
import type { Job, JobRun, ReconcileResult } from '../jobs/job-runner.ts';
import { loadBullmq } from '../jobs/redis-url.ts';
import { type Fence, TenantLock } from '../jobs/tenant-lock.ts';
import { type Caches, keyOf } from './caches.ts';
import { explain } from './errors.ts';
import { assertHeld, fenced } from './fencing.ts';
import { isDesiredStateChanged } from './jobs.ts';
import { reconcileVirtualCluster } from './reconcile.ts';
import type { OperatorOptions, Services } from './services.ts';

export interface SharedWorkerOptions {
  operator: OperatorOptions;
  view: Caches;
  /** All but the ways to change something, which are made for each job. */
  services: () => Promise<Services>;
  queueName: string;
}

const interrupted = new DOMException('something else is asked for', 'AbortError');
type Work = (fence: Fence, signal: AbortSignal) => Promise<ReconcileResult>;

const shortWaitMs = 1_000;

/**
 * One manager's part of work that is shared: it does jobs that the leader offers. It has no say in what is wanted, and
 * changes nothing but while it holds the lease of the tenant.
 */
export class SharedWorker {
  readonly runner: BullmqRunner;
  /** Where one manager at a time looks after all control planes: nothing is done but while that manager leads. */
  leadership: Fence | undefined;
  readonly #o: SharedWorkerOptions;
  readonly #lock: TenantLock;
  readonly #running = new Map<string, Set<AbortController>>();
  /** Tenant to the end of the last work on it, where the lease is the leader's. */
  readonly #turns = new Map<string, Promise<void>>();
  readonly #stopWatching: (() => void)[];

  static async create(
    options: SharedWorkerOptions,
    { parallel, namespace }: { parallel: number; namespace: string },
  ): Promise<SharedWorker> {
    const { operator, queueName, view } = options;
    const { client, identity, logger, redis } = operator;
    const { clock } = view;
    const { lockMs, url = '', patienceMs } = redis ?? {};
    const duration = lockMs === undefined ? {} : { leaseDurationMs: lockMs, renewMs: lockMs / 10 };
    const lock = new TenantLock({ client, namespace, identity, clock, ...duration });
    let sharing: SharedWorker | undefined;
    const runner = await loadBullmq({
      ...(lockMs === undefined ? {} : { lockMs }),
      ...(patienceMs === undefined ? {} : { patienceMs }),
      url,
      queueName,
      identity,
      parallel,
      clock,
      logger,
      handle: (job, run) => (sharing as SharedWorker).#handle(job, run),
    });
    sharing = new SharedWorker(options, runner, lock);
    return sharing;
  }

  private constructor(options: SharedWorkerOptions, runner: BullmqRunner, lock: TenantLock) {
    const { view } = options;
    this.#o = options;
    this.runner = runner;
    this.#lock = lock;
    this.#stopWatching = [
      view.virtualClusters.subscribe((event) => this.#onVirtualCluster(event)),
      // What is under way may have been allowed by the policy as it was.
      view.policies.subscribe(() => {
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
      const outcome = await this.#alone(job, either, (fence, term) =>
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
    return this.#o.operator.driver.isShared === true;
  }

  /** Nobody else is at work on the tenant meanwhile. Where only the one that leads works, its lease says so. */
  #alone(job: Job, signal: AbortSignal, work: Work): Promise<ReconcileResult> {
    if (this.#isShared) return this.#lock.hold(job, signal, work);
    const before = this.#turns.get(job.key);
    const working = (async () => {
      await before;
      signal.throwIfAborted();
      return work({ holdsNow: () => this.leadership?.holdsNow() === true }, signal);
    })();
    const ended = working.then(nothing, nothing);
    this.#turns.set(job.key, ended);
    void ended.then(() => {
      if (this.#turns.get(job.key) === ended) this.#turns.delete(job.key);
    });
    return working;
  }

  async #work(job: Job, run: JobRun & { services: Services; fence: Fence }): Promise<ReconcileResult> {
    const { operator, view } = this.#o;
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
        // Not worth handing it on.
        await view.clock.sleep(waitMs, run.signal);
      }
    } finally {
      await client.connection.close();
    }
  }

  #onVirtualCluster({ type, object, previous }: StoreEvent<VirtualCluster>): void {
    if (type === 'modified' && previous !== undefined && isDesiredStateChanged(object, previous))
      this.#interrupt(keyOf(object));
  }

  #interrupt(key: string): void {
    for (const controller of this.#running.get(key) ?? []) controller.abort(interrupted);
  }
}

function nothing(): void {}
