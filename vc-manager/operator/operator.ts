import { randomBytes } from 'node:crypto';
import type { Logger } from 'pino';
import { Backoff, type Clock, type KubeClient, LeaseElection, systemClock } from '../../kube/index.ts';
import type { Fence } from '../jobs/tenant-lock.ts';
import { Caches } from './caches.ts';
import { explain } from './errors.ts';
import { assertHeld, fenced } from './fencing.ts';
import { LeaderLoop } from './leader-loop.ts';
import type { OperatorOptions, Services } from './services.ts';
import { type OperatorSettings, operatorSettings } from './settings.ts';
import {
  ensureNamespace,
  prepareSuperCluster,
  readSuperClusterFacts,
  type SuperClusterFacts,
  uidOfKubeSystem,
} from './setup.ts';
import { SharedWorker } from './shared-worker.ts';

const leaseName = 'skerry-vc-manager';

/**
 * Makes VirtualClusters of the super cluster be what they ask for. Of several managers one decides; with Redis between
 * them they share the work.
 */
export class Operator {
  readonly #options: OperatorOptions;
  readonly #settings: OperatorSettings;
  readonly #clock: Clock;
  readonly #random: () => number;
  readonly #begun = new Set<string>();
  readonly #leaving = new Map<string, number>();

  /** Throws `InvalidSettings`. */
  constructor(options: OperatorOptions) {
    this.#options = options;
    this.#settings = operatorSettings(options.settings);
    this.#clock = options.clock ?? systemClock;
    this.#random = options.random ?? Math.random;
  }

  /** Works until aborted. Control planes run on; faults of the super cluster are waited out. */
  async run(signal: AbortSignal): Promise<void> {
    const { client, redis } = this.#options;
    const { namespace } = this.#settings;
    await this.#untilDone(signal, 'the super cluster cannot be used yet', () =>
      ensureNamespace(client, namespace, signal),
    );
    if (signal.aborted) return;
    if (redis === undefined) await this.#compete(signal, undefined);
    else await this.#share(signal);
  }

  /** Leads whenever no other manager does. */
  async #compete(
    signal: AbortSignal,
    shared: { view: Caches; sharing: SharedWorker } | undefined,
  ): Promise<void> {
    const { client, identity, lease, logger, driver } = this.#options;
    const { namespace } = this.#settings;
    const clock = this.#clock;
    const election = new LeaseElection({ client, namespace, name: leaseName, identity, clock, ...lease });
    logger.info({ identity }, 'waiting for the lease');
    await election.run(signal, async (term) => {
      const leaders = this.#options.fencedClient(() => assertHeld(election));
      try {
        await this.#lead(leaders, election, { term, shared });
      } finally {
        // What is shared is not another's: other managers look after it all the time.
        if (driver.isShared !== true || shared === undefined) await driver.close?.();
        await leaders.connection.close();
        logger.info({ identity }, 'not leading any more');
      }
    });
  }

  async #lead(
    client: KubeClient,
    leadership: Fence,
    { term, shared }: { term: AbortSignal; shared: { view: Caches; sharing: SharedWorker } | undefined },
  ): Promise<void> {
    const { templates, managerPki, logger, driver, identity, connect } = this.#options;
    logger.info({ identity }, 'leading');
    const clock = this.#clock;
    const settings = this.#settings;
    const prepared = await this.#untilDone(term, 'the super cluster cannot be prepared yet', () =>
      prepareSuperCluster({ client, settings, templates, managerPki, clock, logger }, term),
    );
    if (prepared === undefined) return;
    const view = shared?.view ?? new Caches({ client, clock });
    const viewing = new AbortController();
    const watching = shared === undefined ? view.run(AbortSignal.any([term, viewing.signal])) : undefined;
    const sharing = shared?.sharing;
    const services = fenced(this.#services({ client, view, prepared }), this.#options, leadership);
    let working: Promise<void> | undefined;
    try {
      await view.synced(term);
      if (sharing !== undefined && driver.isShared !== true) {
        sharing.leadership = leadership;
        working = sharing.runner.work(term);
      }
      await new LeaderLoop({ services, leadership, connect, sharing }).run(term);
    } catch (error) {
      if (!term.aborted) throw error;
    } finally {
      viewing.abort();
      await Promise.all([watching, working]);
    }
  }

  /** Takes part in the work of all managers, and leads whenever no other one does. */
  async #share(signal: AbortSignal): Promise<void> {
    const { client, logger, driver, managerPki } = this.#options;
    const { namespace, parallel } = this.#settings;
    const superIdentity = await this.#untilDone(signal, 'the super cluster cannot be used yet', () =>
      uidOfKubeSystem(client, signal),
    );
    if (superIdentity === undefined) return;
    // Several super clusters may have one Redis.
    const queueName = `skerry-${superIdentity.slice(0, 8)}`;
    logger.info({ queue: queueName }, 'jobs are shared through Redis');
    const view = new Caches({ client, clock: this.#clock });
    let seen: SuperClusterFacts | undefined;
    const services = async (): Promise<Services> => {
      // The one that leads has prepared it before it offered anything.
      seen ??= { ...(await readSuperClusterFacts(client, this.#settings, signal)), managerPki };
      return this.#services({ client, view, prepared: seen });
    };
    const parts = { operator: this.#options, view, services, queueName };
    const sharing = await SharedWorker.create(parts, { parallel, namespace });
    const watching = view.run(signal);
    try {
      const working =
        driver.isShared === true
          ? view.synced(signal).then(
              () => sharing.runner.work(signal),
              () => undefined,
            )
          : undefined;
      await Promise.all([this.#compete(signal, { view, sharing }), working]);
    } finally {
      await sharing.close();
      if (driver.isShared === true) await driver.close?.();
      await watching;
    }
  }

  #services({
    client,
    view,
    prepared,
  }: {
    client: KubeClient;
    view: Caches;
    prepared: SuperClusterFacts;
  }): Services {
    const { driver, datastore, logger, identity, newId } = this.#options;
    const { virtualClusters, policies, templates } = view;
    return {
      client,
      driver,
      datastore,
      settings: this.#settings,
      virtualClusters,
      policies,
      templates,
      allocations: view.allocations,
      leavingSinceMs: this.#leaving,
      activeJobIds: this.#begun,
      ...prepared,
      identity,
      newId: newId ?? randomId,
      random: this.#random,
      clock: this.#clock,
      logger,
    };
  }

  #untilDone<T>(signal: AbortSignal, problem: string, work: () => Promise<T>): Promise<T | undefined> {
    const { logger } = this.#options;
    return retryUntilDone({ clock: this.#clock, random: this.#random, logger }, { signal, problem }, work);
  }
}

const base32 = 'abcdefghijklmnopqrstuvwxyz234567';

function randomId(): string {
  return Array.from(randomBytes(10), (byte) => base32[byte % 32]).join('');
}

/** Tries until it succeeds; undefined when aborted before. */
export async function retryUntilDone<T>(
  { clock, random, logger }: { clock: Clock; random: () => number; logger: Logger },
  { signal, problem }: { signal: AbortSignal; problem: string },
  work: () => Promise<T>,
): Promise<T | undefined> {
  const backoff = new Backoff({ clock, random });
  while (!signal.aborted) {
    try {
      return await work();
    } catch (error) {
      if (signal.aborted) break;
      logger.warn({ err: error }, `${problem}: ${explain(error).message}`);
      await clock.sleep(backoff.next(), signal).catch(() => {});
    }
  }
  return undefined;
}
