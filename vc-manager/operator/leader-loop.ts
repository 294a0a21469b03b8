import { isJoined } from '../../api/conditions.ts';
import { labelKeys } from '../../api/labels.ts';
import type { VirtualCluster } from '../../api/virtual-cluster.ts';
import { namespacedName, type StoreEvent } from '../../kube/index.ts';
import { InProcessRunner, type Job, type JobRunner, type ReconcileResult } from '../jobs/job-runner.ts';
import type { Fence } from '../jobs/tenant-lock.ts';
import { type PreviousCalls, WorkQueue } from '../jobs/work-queue.ts';
import { DatastoreWatch } from './datastore-watch.ts';
import { explain } from './errors.ts';
import { hasJobRequests, isDesiredStateChanged, wantedJob } from './jobs.ts';
import { allocateForVirtualCluster, reconcileVirtualCluster } from './reconcile.ts';
import { forgetTenant, type OperatorOptions, type Services } from './services.ts';
import type { SharedWorker } from './shared-worker.ts';
import { hasPhaseAsleep, isWokenBy } from './sleep.ts';
import { StatusWriter } from './status-writer.ts';
import { SyncerHeartbeats } from './syncer-heartbeats.ts';
import { WarmPool } from './warm-pool.ts';

interface LeaderLoopOptions {
  services: Services;
  fence: Fence;
  connect: OperatorOptions['connect'];
  /** Absent: this manager does all jobs itself. */
  sharedWorker: SharedWorker | undefined;
}

/** One term of leadership: watches the VirtualClusters, queues those to reconcile, and has a manager do each. */
export class LeaderLoop {
  readonly #o: LeaderLoopOptions;
  readonly #runner: JobRunner;

  constructor(options: LeaderLoopOptions) {
    this.#o = options;
    const { services, fence, connect, sharedWorker } = options;
    this.#runner =
      sharedWorker?.runner ??
      new InProcessRunner({
        parallel: services.settings.parallel,
        handle: (job, run) => reconcileVirtualCluster(job, { ...run, services, fence, connect }),
      });
  }

  /** Works until aborted. The caches have to be synced before. */
  async run(signal: AbortSignal): Promise<void> {
    const { virtualClusters, policies, templates, activity, drivers, logger, clock, random } =
      this.#o.services;
    const queue = new WorkQueue({
      parallel: this.#runner.parallel,
      clock,
      random,
      handle: (key, abort, before) => this.#handle(key, abort, before),
      onError: (key, error) => {
        const { reason, message } = explain(error);
        logger.error(
          { virtualCluster: key, code: reason, err: error },
          `the reconcile of ${key} has thrown: ${message}`,
        );
      },
    });
    const stopWatching = [
      virtualClusters.subscribe((event) => enqueueForEvent(event, queue, this.#o.services, signal)),
      // An edited template changes what its control planes should be.
      templates.subscribe(({ type }) => {
        if (type !== 'modified') return;
        for (const vc of virtualClusters.list()) queue.add(namespacedName(vc.metadata));
      }),
      // A running job may use rights that the policy allows no more.
      policies.subscribe(() => {
        for (const vc of virtualClusters.list()) queue.interrupt(namespacedName(vc.metadata));
      }),
      // A client needs a tenant that is asleep.
      activity.subscribe(({ object, previous }) => {
        const id = object.metadata.labels?.[labelKeys.activity] ?? '';
        for (const vc of virtualClusters.byIndex('id', id)) {
          if (!hasPhaseAsleep(vc)) continue;
          // The gateway asks again as long as clients wait: only the first request interrupts a job.
          const isFirst = isWokenBy(object, vc) && !isWokenBy(previous, vc);
          if (isFirst && wantedJob(vc, this.#o.services).kind === 'wake')
            queue.interrupt(namespacedName(vc.metadata), { isAwaited: true });
          else queue.addUnlessPaused(namespacedName(vc.metadata));
        }
      }),
      ...[...drivers.values()].map((driver) =>
        driver.watch((id, component, what) => {
          if (what === 'exited') logger.warn({ id, component }, `${component} has exited`);
          for (const vc of virtualClusters.byIndex('id', id)) {
            // One that keeps exiting is not tried more often for that.
            if (what === 'exited') queue.addUnlessPaused(namespacedName(vc.metadata));
            else if (what === 'ready') queue.retryNow(namespacedName(vc.metadata));
          }
        }),
      ),
    ];
    // VirtualClusters from before this term.
    for (const vc of virtualClusters.list())
      enqueueForEvent({ type: 'added', object: vc, watched: false }, queue, this.#o.services, signal);
    const watch = new DatastoreWatch(this.#o.services, () => {
      for (const vc of virtualClusters.list()) queue.addUnlessPaused(namespacedName(vc.metadata));
    });
    try {
      await Promise.all([
        queue.run(signal),
        watch.run(signal),
        new SyncerHeartbeats(this.#o.services).run(signal),
        new WarmPool(this.#o.services).run(signal),
        this.#o.services.usage.run(this.#o.services, signal),
      ]);
    } finally {
      for (const stop of stopWatching) stop();
    }
  }

  async #handle(key: string, signal: AbortSignal, before: PreviousCalls): Promise<ReconcileResult> {
    const { services, fence, connect, sharedWorker } = this.#o;
    const [namespace = '', name = ''] = key.split('/');
    const vc = services.virtualClusters.get({ namespace, name });
    if (vc === undefined) return { kind: 'done' };
    const { kind } = wantedJob(vc, services);
    const job: Job = { key, uid: vc.metadata.uid ?? '', kind, ...before };
    if (sharedWorker === undefined) return this.#runner.run(job, signal);
    if (hasJobRequests(vc) || kind === 'look') {
      // Renews what is due in the manager's PKI, and hands it to the syncers: only the leader does that.
      await services
        .managerPki()
        .catch((error: unknown) => services.logger.warn({ err: error }, explain(error).message));
      return sharedWorker.runner.runLocally(job, signal);
    }
    if (kind === 'provision' && vc.status?.serviceCIDR === undefined) {
      // No other manager works on it: a job for it was never queued.
      const outcome = await allocateForVirtualCluster(job, { services, fence, connect, signal });
      if (outcome !== undefined) return outcome;
    }
    return this.#runner.run(job, signal);
  }
}

/** Queues what an event of a VirtualCluster asks for, and forgets what was remembered of one that is gone. */
function enqueueForEvent(
  { type, object, previous }: StoreEvent<VirtualCluster>,
  queue: WorkQueue,
  services: Services,
  signal: AbortSignal,
): void {
  if (type === 'deleted') {
    services.allocations.forget(object.metadata.uid ?? '');
    forgetTenant(services, object.metadata.uid ?? '');
    // Another one may wait for its place under the namespace's limit.
    for (const vc of services.virtualClusters.list()) {
      const isWaiting = vc.status?.id === undefined && vc.metadata.namespace === object.metadata.namespace;
      if (isWaiting) queue.add(namespacedName(vc.metadata));
    }
  }
  if (type === 'added') {
    if (object.status?.phase === undefined && !queue.hasRoom) reportPending(object, services, signal);
    queue.add(namespacedName(object.metadata));
  } else if (type === 'modified' && previous !== undefined) {
    // A running job is for the old state.
    if (isDesiredStateChanged(object, previous)) {
      // A deletion happens once, so no owner can jump the queue by it again and again.
      const isDeletedNow =
        object.metadata.deletionTimestamp !== undefined && previous.metadata.deletionTimestamp === undefined;
      queue.interrupt(namespacedName(object.metadata), { isAwaited: isDeletedNow });
    } else if (isHandoverBySyncer(object, previous)) queue.add(namespacedName(object.metadata));
  }
}

/** Shows a VirtualCluster that waits for room as Pending. One that is handled at once shows its first step. */
function reportPending(vc: VirtualCluster, { client, clock, logger }: Services, signal: AbortSignal): void {
  const status = new StatusWriter({ client, clock, signal, current: vc });
  status.set((current) => ({ phase: 'Pending', ...current }));
  status
    .flush()
    .catch((error: unknown) => logger.debug({ err: error }, 'the phase Pending could not be written'));
}

/** Whether the syncer has just left, or taken up, a VirtualCluster that is being deleted. */
function isHandoverBySyncer(object: VirtualCluster, previous: VirtualCluster): boolean {
  return object.metadata.deletionTimestamp !== undefined && isJoined(object) !== isJoined(previous);
}
