import { randomBytes } from 'node:crypto';
import type { DriverName } from '../../api/drivers.ts';
import { holderVersion } from '../../api/program-versions.ts';
import { Backoff, type KubeClient, LeaseElection, systemClock } from '../../kube/index.ts';
import { packageVersion } from '../../program/package-root.ts';
import { SharedReadTime } from '../../program/read-time.ts';
import { OwnEtcd } from '../etcd/own-etcd.ts';
import type { Fence } from '../jobs/tenant-lock.ts';
import { Caches } from './caches.ts';
import { explain } from './errors.ts';
import { assertHeld, fenced } from './fencing.ts';
import { LeaderLoop } from './leader-loop.ts';
import type { OperatorOptions, Services } from './services.ts';
import { operatorSettings } from './settings.ts';
import {
  ensureNamespace,
  prepareSuperCluster,
  readSuperClusterFacts,
  type SuperClusterFacts,
  uidOfKubeSystem,
} from './setup.ts';
import { isShared, SharedWorker } from './shared-worker.ts';
import { RestorePauses, SnapshotTurns } from './snapshots.ts';
import { UsageMeter } from './usage-meter.ts';

const leaseName = 'skerry-vc-manager';

/** The same in each term of leadership and each job. */
type LastingServices = Omit<
  Services,
  | keyof SuperClusterFacts
  | ('client' | 'virtualClusters' | 'policies' | 'templates' | 'activity' | 'allocations')
>;

/**
 * Reconciles the VirtualClusters of the super cluster. Of several managers one leads; through Redis they share the
 * jobs.
 */
export class Operator {
  readonly #options: OperatorOptions;
  readonly #drivers: ReadonlyMap<DriverName, OperatorOptions['driver']>;
  readonly #lasting: LastingServices;

  /** Throws `InvalidSettings`. */
  constructor(options: OperatorOptions) {
    const { driver, datastore, snapshots, identity, logger, clock = systemClock } = options;
    const settings = operatorSettings(options.settings);
    const others = Object.entries(options.otherDrivers ?? {}) as [DriverName, OperatorOptions['driver']][];
    this.#options = options;
    this.#drivers = new Map([...others, [settings.driver, driver]]);
    this.#lasting = {
      ...{ driver, drivers: this.#drivers, datastore, settings, identity, logger, clock },
      ownDatastore: options.ownDatastore ?? ((each) => new OwnEtcd(each)),
      snapshots: snapshots && {
        ...snapshots,
        turns: new SnapshotTurns(clock),
        pauses: new RestorePauses(clock),
      },
      leavingSinceMs: new Map(),
      activeJobs: new Map(),
      assertHeld: () => {},
      defaults: new Map(),
      sleepPauses: new Map(),
      readTime: new SharedReadTime(systemClock),
      readTimes: new Map(),
      datastoreGrowth: { sinceMs: 0 },
      newId: options.newId ?? randomId,
      machineMemory: options.machineMemory ?? (() => undefined),
      onWarmPool: options.onWarmPool ?? (() => undefined),
      onUsage: options.onUsage ?? (() => undefined),
      usage: new UsageMeter(),
      random: options.random ?? Math.random,
    };
  }

  /** Works until aborted. Control planes run on; while the super cluster cannot be used it waits. */
  async run(signal: AbortSignal): Promise<void> {
    const { client, redis } = this.#options;
    const { namespace } = this.#lasting.settings;
    await this.#retryUntilDone(signal, 'the super cluster cannot be used yet', () =>
      ensureNamespace(client, namespace, signal),
    );
    if (signal.aborted) return;
    if (redis === undefined) await this.#elect(signal, undefined);
    else await this.#runShared(signal);
  }

  /** Any manager may do any job. */
  get #isShared(): boolean {
    return isShared(this.#drivers.values());
  }

  async #closeDrivers(): Promise<void> {
    for (const driver of this.#drivers.values()) await driver.close?.();
  }

  /** Waits for the lease and leads while it is held, again and again. */
  async #elect(signal: AbortSignal, sharedWorker: SharedWorker | undefined): Promise<void> {
    const { client, identity, lease, logger } = this.#options;
    const { namespace } = this.#lasting.settings;
    const clock = this.#lasting.clock;
    const annotations = holderVersion(packageVersion(), identity);
    const election = new LeaseElection({
      ...{ client, namespace, name: leaseName, identity, annotations, clock },
      ...lease,
    });
    logger.info({ identity }, 'waiting for the lease');
    await election.run(signal, async (term) => {
      const fencedClient = this.#options.fencedClient(() => assertHeld(election));
      try {
        await this.#lead(fencedClient, election, { term, sharedWorker });
      } finally {
        // A shared driver goes on watching: this manager does jobs of other leaders with it.
        if (!this.#isShared || sharedWorker === undefined) await this.#closeDrivers();
        await fencedClient.connection.close();
        logger.info({ identity }, 'not leading any more');
      }
    });
  }

  async #lead(
    client: KubeClient,
    fence: Fence,
    { term, sharedWorker }: { term: AbortSignal; sharedWorker: SharedWorker | undefined },
  ): Promise<void> {
    const { templates, managerPki, logger, identity, connect } = this.#options;
    logger.info({ identity }, 'leading');
    const clock = this.#lasting.clock;
    const settings = this.#lasting.settings;
    const facts = await this.#retryUntilDone(term, 'the super cluster cannot be prepared yet', () =>
      prepareSuperCluster({ client, settings, templates, managerPki, clock, logger }, term),
    );
    if (facts === undefined) return;
    const caches =
      sharedWorker?.caches ?? new Caches({ client, clock, namespace: settings.namespace, logger });
    const stopped = new AbortController();
    const watching =
      sharedWorker === undefined ? caches.run(AbortSignal.any([term, stopped.signal])) : undefined;
    const services = fenced(this.#services(client, caches, facts), this.#options, fence);
    let working: Promise<void> | undefined;
    try {
      await caches.synced(term);
      if (sharedWorker !== undefined && !this.#isShared) {
        sharedWorker.leaderFence = fence;
        working = sharedWorker.runner.work(term);
      }
      await new LeaderLoop({ services, fence, connect, sharedWorker }).run(term);
    } catch (error) {
      if (!term.aborted) throw error;
    } finally {
      stopped.abort();
      await Promise.all([watching, working]);
    }
  }

  /** Does jobs from the queue in Redis, and leads whenever no other manager does. */
  async #runShared(signal: AbortSignal): Promise<void> {
    const { client, logger, managerPki } = this.#options;
    const { namespace, parallel } = this.#lasting.settings;
    const superIdentity = await this.#retryUntilDone(signal, 'the super cluster cannot be used yet', () =>
      uidOfKubeSystem(client, signal),
    );
    if (superIdentity === undefined) return;
    // Several super clusters may use one Redis.
    const queueName = `skerry-${superIdentity.slice(0, 8)}`;
    logger.info({ queue: queueName }, 'jobs are shared through Redis');
    const caches = new Caches({ client, clock: this.#lasting.clock, namespace, logger });
    let facts: SuperClusterFacts | undefined;
    const services = async (): Promise<Services> => {
      // The leader has prepared the super cluster before it puts jobs into the queue.
      facts ??= { ...(await readSuperClusterFacts(client, this.#lasting.settings, signal)), managerPki };
      return this.#services(client, caches, facts);
    };
    const sharedWorker = await SharedWorker.create({
      operator: this.#options,
      caches,
      services,
      remembered: this.#lasting,
      queueName,
      parallel,
      namespace,
    });
    const watching = caches.run(signal);
    try {
      const working = this.#isShared
        ? caches.synced(signal).then(
            () => sharedWorker.runner.work(signal),
            () => undefined,
          )
        : undefined;
      await Promise.all([this.#elect(signal, sharedWorker), working]);
    } finally {
      await sharedWorker.close();
      if (this.#isShared) await this.#closeDrivers();
      await watching;
    }
  }

  #services(client: KubeClient, caches: Caches, facts: SuperClusterFacts): Services {
    const { virtualClusters, policies, templates, activity, allocations } = caches;
    return {
      ...this.#lasting,
      ...facts,
      client,
      virtualClusters,
      policies,
      templates,
      activity,
      allocations,
    };
  }

  /** Retries with back-off until `work` succeeds; undefined when aborted before. */
  async #retryUntilDone<T>(
    signal: AbortSignal,
    problem: string,
    work: () => Promise<T>,
  ): Promise<T | undefined> {
    const backoff = new Backoff({ clock: this.#lasting.clock, random: this.#lasting.random });
    while (!signal.aborted) {
      try {
        return await work();
      } catch (error) {
        if (signal.aborted) break;
        this.#options.logger.warn({ err: error }, `${problem}: ${explain(error).message}`);
        await this.#lasting.clock.sleep(backoff.next(), signal).catch(() => {});
      }
    }
    return undefined;
  }
}

const base32 = 'abcdefghijklmnopqrstuvwxyz234567';

function randomId(): string {
  return Array.from(randomBytes(10), (byte) => base32[byte % 32]).join('');
}
