import { isTakenUp } from '../../api/conditions.ts';
import type { VirtualCluster } from '../../api/virtual-cluster.ts';
import type { StoreEvent } from '../../kube/index.ts';
import { InProcessRunner, type Job, type JobRunner, type ReconcileResult } from '../jobs/job-runner.ts';
import type { Fence } from '../jobs/tenant-lock.ts';
import { WorkQueue } from '../jobs/work-queue.ts';
import { keyOf } from './caches.ts';
import { explain } from './errors.ts';
import { hasJobRequests, isDesiredStateChanged, wantedJob } from './jobs.ts';
import { allocateForVirtualCluster, reconcileVirtualCluster } from './reconcile.ts';
import type { OperatorOptions, Services } from './services.ts';
import type { SharedWorker } from './shared-worker.ts';
import { StatusWriter } from './status-writer.ts';

export interface LeaderLoopOptions {
  services: Services;
  leadership: Fence;
  connect: OperatorOptions['connect'];
  /** Absent: this manager does everything itself. */
  sharing: SharedWorker | undefined;
}

/** One term of leadership: decides what is wanted for each VirtualCluster, and has it done. */
export class LeaderLoop {
  readonly #o: LeaderLoopOptions;
  readonly #runner: JobRunner;

  constructor(options: LeaderLoopOptions) {
    this.#o = options;
    const { services, leadership, connect, sharing } = options;
    this.#runner =
      sharing?.runner ??
      new InProcessRunner({
        parallel: services.settings.parallel,
        handle: (job, run) => reconcileVirtualCluster(job, { ...run, services, fence: leadership, connect }),
      });
  }

  /** Works until aborted. What is watched has to be known by then. */
  async run(signal: AbortSignal): Promise<void> {
    const { virtualClusters, policies, templates, driver, logger, clock, random } = this.#o.services;
    const queue = new WorkQueue({
      parallel: this.#runner.parallel,
      clock,
      random,
      handle: (key, pass, failures) => this.#handle(key, pass, failures),
    });
    const lookAtAll = (): void => {
      for (const vc of virtualClusters.list()) queue.add(keyOf(vc));
    };
    const stopWatching = [
      virtualClusters.subscribe((event) => enqueueForEvent(event, queue, this.#o.services, signal)),
      // An edited template changes what its control planes should be.
      templates.subscribe(({ type }) => {
        if (type === 'modified') lookAtAll();
      }),
      // What is under way may have been allowed by the policy as it was.
      policies.subscribe(() => {
        for (const vc of virtualClusters.list()) queue.interrupt(keyOf(vc));
      }),
      driver.watch((id, component, what) => {
        if (what === 'exited') logger.warn({ id, component }, `${component} has exited`);
        for (const vc of virtualClusters.byIndex('id', id)) {
          if (what === 'exited') queue.add(keyOf(vc));
          else if (what === 'ready') queue.retryNow(keyOf(vc));
        }
      }),
    ];
    // What was there before this term began.
    for (const vc of virtualClusters.list())
      enqueueForEvent({ type: 'added', object: vc, watched: false }, queue, this.#o.services, signal);
    try {
      await queue.run(signal);
    } finally {
      for (const stop of stopWatching) stop();
    }
  }

  async #handle(key: string, signal: AbortSignal, failures: number): Promise<ReconcileResult> {
    const { services, leadership, connect, sharing } = this.#o;
    const [namespace = '', name = ''] = key.split('/');
    const vc = services.virtualClusters.get({ namespace, name });
    if (vc === undefined) return { kind: 'done' };
    const { kind } = wantedJob(vc, services);
    const job: Job = { key, uid: vc.metadata.uid ?? '', kind, failures };
    if (sharing === undefined) return this.#runner.run(job, signal);
    if (hasJobRequests(vc) || kind === 'look') {
      // Others who work have no part in this: what is renewed is handed to the syncers by the one that leads.
      await services
        .managerPki()
        .catch((error: unknown) => services.logger.warn({ err: error }, explain(error).message));
      return sharing.runner.runLocally(job, signal);
    }
    if (kind === 'provision' && vc.status?.serviceCIDR === undefined) {
      // Nobody else works on it yet: it was never offered.
      const outcome = await allocateForVirtualCluster(job, { services, fence: leadership, connect, signal });
      if (outcome !== undefined) return outcome;
    }
    return this.#runner.run(job, signal);
  }
}

/** What a watched change of a VirtualCluster means for the queue and for what is remembered. */
export function enqueueForEvent(
  { type, object, previous }: StoreEvent<VirtualCluster>,
  queue: WorkQueue,
  services: Services,
  signal: AbortSignal,
): void {
  if (type === 'deleted') {
    services.allocations.forget(object.metadata.uid ?? '');
    services.leavingSinceMs.delete(object.metadata.uid ?? '');
    // Its place may be what another one waits for.
    for (const vc of services.virtualClusters.list()) {
      const isWaiting = vc.status?.id === undefined && vc.metadata.namespace === object.metadata.namespace;
      if (isWaiting) queue.add(keyOf(vc));
    }
  }
  if (type === 'added') {
    // One whose turn it is says at once what is done for it.
    if (object.status?.phase === undefined && !queue.hasRoom) reportPending(object, services, signal);
    queue.add(keyOf(object));
  } else if (type === 'modified' && previous !== undefined) {
    // What is under way was meant for something else.
    if (isDesiredStateChanged(object, previous)) queue.interrupt(keyOf(object));
    else if (isHandoverBySyncer(object, previous)) queue.add(keyOf(object));
  }
}

/** Many may wait for their turn; they should not look forgotten. */
function reportPending(vc: VirtualCluster, { client, clock, logger }: Services, signal: AbortSignal): void {
  const status = new StatusWriter({ client, clock, signal, current: vc });
  status.set((current) => ({ phase: 'Pending', ...current }));
  status.flush().catch((error: unknown) => logger.debug({ err: error }, 'Pending could not be told'));
}

/** Whether a change that left the spec alone asks for a pass. Our own writes and usage figures do not. */
function isHandoverBySyncer(object: VirtualCluster, previous: VirtualCluster): boolean {
  return object.metadata.deletionTimestamp !== undefined && isTakenUp(object) !== isTakenUp(previous);
}
