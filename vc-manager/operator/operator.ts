import { randomBytes } from 'node:crypto';
import type { DriverName } from '../../api/drivers.ts';
import { holderVersion } from '../../api/program-versions.ts';
import { Backoff, type Clock, type KubeClient, LeaseElection, systemClock } from '../../kube/index.ts';
import { packageVersion } from '../../program/package-root.ts';
import { OwnEtcd } from '../etcd/own-etcd.ts';
import type { Fence } from '../jobs/tenant-lock.ts';
import { Caches } from './caches.ts';
import { explain } from './errors.ts';
import { assertHeld, fenced } from './fencing.ts';
import { LeaderLoop } from './leader-loop.ts';
import { RestorePauses } from './restore-pauses.ts';
import type { OperatorOptions, Services } from './services.ts';
import { type OperatorSettings, operatorSettings } from './settings.ts';
import {
  ensureNamespace,
  prepareSuperCluster,
  readSuperClusterFacts,
  type SuperClusterFacts,
  uidOfKubeSystem,
} from './setup.ts';
import { isShared, SharedWorker } from './shared-worker.ts';
import type { SnapshotServices } from './snapshots.ts';
import { UsageMeter } from './usage-meter.ts';

const leaseName = 'skerry-vc-manager';

/**
 * Reconciles the VirtualClusters of the super cluster. Of several managers one leads; through Redis they share the
 * jobs.
 */
export class Operator {
  readonly #options: OperatorOptions;
  readonly #settings: OperatorSettings;
  readonly #clock: Clock;
  readonly #random: () => number;
  readonly #activeJobs = new Map<string, string>();
  readonly #sleepPauses: Services['sleepPauses'] = new Map();
  readonly #snapshots: SnapshotServices | undefined;
  readonly #usage = new UsageMeter();
  readonly #datastoreGrowth = { sinceMs: 0 };
  readonly #drivers: ReadonlyMap<DriverName, OperatorOptions['driver']>;
  readonly #leavingSinceMs = new Map<string, number>();

  /** Throws `InvalidSettings`. */
  constructor(options: OperatorOptions) {
    this.#options = options;
    this.#settings = operatorSettings(options.settings);
    this.#clock = options.clock ?? systemClock;
    this.#random = options.random ?? Math.random;
    const others = Object.entries(options.otherDrivers ?? {}) as [DriverName, OperatorOptions['driver']][];
    this.#drivers = new Map([...others, [this.#settings.driver, options.driver]]);
    const pauses = new RestorePauses(this.#clock);
    this.#snapshots = options.snapshots && { ...options.snapshots, isBusy: false, pauses };
  }

  /** Works until aborted. Control planes run on; while the super cluster cannot be used it waits. */
  async run(signal: AbortSignal): Promise<void> {
    const { client, redis } = this.#options;
    const { namespace } = this.#settings;
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
    const { namespace } = this.#settings;
    const clock = this.#clock;
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
    const clock = this.#clock;
    const settings = this.#settings;
    const facts = await this.#retryUntilDone(term, 'the super cluster cannot be prepared yet', () =>
      prepareSuperCluster({ client, settings, templates, managerPki, clock, logger }, term),
    );
    if (facts === undefined) return;
    const caches =
      sharedWorker?.caches ?? new Caches({ client, clock, namespace: settings.namespace, logger });
    const stopped = new AbortController();
    const watching =
      sharedWorker === undefined ? caches.run(AbortSignal.any([term, stopped.signal])) : undefined;
    const services = fenced(this.#services({ client, caches, facts }), this.#options, fence);
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
    const { namespace, parallel } = this.#settings;
    const superIdentity = await this.#retryUntilDone(signal, 'the super cluster cannot be used yet', () =>
      uidOfKubeSystem(client, signal),
    );
    if (superIdentity === undefined) return;
    // Several super clusters may use one Redis.
    const queueName = `skerry-${superIdentity.slice(0, 8)}`;
    logger.info({ queue: queueName }, 'jobs are shared through Redis');
    const caches = new Caches({ client, clock: this.#clock, namespace, logger });
    let facts: SuperClusterFacts | undefined;
    const services = async (): Promise<Services> => {
      // The leader has prepared the super cluster before it puts jobs into the queue.
      facts ??= { ...(await readSuperClusterFacts(client, this.#settings, signal)), managerPki };
      return this.#services({ client, caches, facts });
    };
    const sharedWorker = await SharedWorker.create({
      operator: this.#options,
      caches,
      services,
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

  #services({
    client,
    caches,
    facts,
  }: {
    client: KubeClient;
    caches: Caches;
    facts: SuperClusterFacts;
  }): Services {
    const { driver, datastore, logger, identity, newId, machineMemory, onWarmPool, onUsage } = this.#options;
    const { virtualClusters, policies, templates, activity } = caches;
    return {
      client,
      driver,
      drivers: this.#drivers,
      datastore,
      ownDatastore: this.#options.ownDatastore ?? ((options) => new OwnEtcd(options)),
      settings: this.#settings,
      virtualClusters,
      policies,
      templates,
      activity,
      allocations: caches.allocations,
      leavingSinceMs: this.#leavingSinceMs,
      activeJobs: this.#activeJobs,
      sleepPauses: this.#sleepPauses,
      snapshots: this.#snapshots,
      datastoreGrowth: this.#datastoreGrowth,
      ...facts,
      identity,
      newId: newId ?? randomId,
      machineMemory: machineMemory ?? (() => undefined),
      onWarmPool: onWarmPool ?? (() => undefined),
      onUsage: onUsage ?? (() => undefined),
      usage: this.#usage,
      random: this.#random,
      clock: this.#clock,
      logger,
    };
  }

  /** Retries with back-off until `work` succeeds; undefined when aborted before. */
  async #retryUntilDone<T>(
    signal: AbortSignal,
    problem: string,
    work: () => Promise<T>,
  ): Promise<T | undefined> {
    const backoff = new Backoff({ clock: this.#clock, random: this.#random });
    while (!signal.aborted) {
      try {
        return await work();
      } catch (error) {
        if (signal.aborted) break;
        this.#options.logger.warn({ err: error }, `${problem}: ${explain(error).message}`);
        await this.#clock.sleep(backoff.next(), signal).catch(() => {});
      }
    }
    return undefined;
  }
}

const base32 = 'abcdefghijklmnopqrstuvwxyz234567';

function randomId(): string {
  return Array.from(randomBytes(10), (byte) => base32[byte % 32]).join('');
}
