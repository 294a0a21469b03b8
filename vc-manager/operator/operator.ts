import { randomBytes } from 'node:crypto';
import type { Logger } from 'pino';
import {
  Backoff,
  type Clock,
  Connection,
  type ConnectionOptions,
  isNotFound,
  KubeClient,
  LeaseElection,
  Reflector,
  resources,
  Store,
  systemClock,
} from '../../kube/index.ts';
import type { VirtualCluster, VirtualClusterPolicy } from '../api/index.ts';
import type { ControlPlaneTemplate } from '../control-plane/index.ts';
import type { ControlPlaneDriver } from '../drivers/index.ts';
import type { ManagerPki } from '../pki/index.ts';
import { Claims } from './claims.ts';
import { explain } from './explain.ts';
import { assertLeads, type Leadership, leadersDatastore, leadersDriver } from './leading.ts';
import { keyOf, onVirtualCluster } from './on-virtual-cluster.ts';
import { provision, remove } from './pass.ts';
import type { Datastore, Services } from './services.ts';
import { type OperatorSettings, type OperatorSettingsInput, operatorSettings } from './settings.ts';
import { ensureNamespace, prepareSuperCluster } from './setup/index.ts';
import { StatusWriter } from './status-writer.ts';
import { Tenant } from './tenant.ts';
import { type Outcome, WorkQueue } from './work-queue.ts';

export interface OperatorOptions {
  /** The super cluster. Only for the lease, and for the namespace that it is in. */
  client: KubeClient;
  /**
   * Another way to the super cluster, for all that only the leader may do: `beforeWrite` is asked before each write
   * and throws once the lease is not held any more. It is closed at the end of the term.
   */
  leadersClient: (beforeWrite: () => void) => KubeClient;
  /** `close`: looks away from what runs, without touching it; called when another manager may take over. */
  driver: ControlPlaneDriver & { close?: () => Promise<void> };
  datastore: Datastore;
  /** Those that come with the package; put into the super cluster where they are missing. */
  templates: readonly ControlPlaneTemplate[];
  /** Asked at every pass over a tenant; has to renew what is due. */
  managerPki: () => Promise<ManagerPki>;
  settings: OperatorSettingsInput;
  logger: Logger;
  /** Who holds the lease; must differ from every other manager's. */
  identity: string;
  clock?: Clock;
  random?: () => number;
  newId?: () => string;
  /** Default: a KubeClient. Its options have `beforeWrite` of their own. */
  connect?: (options: ConnectionOptions) => KubeClient;
  /** Default: those of LeaseElection. */
  lease?: { leaseDurationMs?: number; renewMs?: number };
}

const leaseName = 'skerry-vc-manager';

/** Makes VirtualClusters of the super cluster be what they ask for. Of several managers one works at a time. */
export class Operator {
  readonly #options: OperatorOptions;
  readonly #settings: OperatorSettings;
  readonly #clock: Clock;
  readonly #random: () => number;

  /** Throws `InvalidSettings`. */
  constructor(options: OperatorOptions) {
    this.#options = options;
    this.#settings = operatorSettings(options.settings);
    this.#clock = options.clock ?? systemClock;
    this.#random = options.random ?? Math.random;
  }

  /** Works until aborted. Control planes run on; faults of the super cluster are waited out. */
  async run(signal: AbortSignal): Promise<void> {
    const { client, identity, lease } = this.#options;
    const { namespace } = this.#settings;
    const election = new LeaseElection({
      client,
      namespace,
      name: leaseName,
      identity,
      clock: this.#clock,
      ...lease,
    });
    await this.#untilDone(signal, 'the super cluster cannot be used yet', () =>
      ensureNamespace(client, namespace, signal),
    );
    if (signal.aborted) return;
    this.#options.logger.info({ identity }, 'waiting for the lease');
    await election.run(signal, async (term) => {
      const leaders = this.#options.leadersClient(() => assertLeads(election));
      try {
        await this.#lead(leaders, election, term);
      } finally {
        await leaders.connection.close();
        this.#options.logger.info({ identity }, 'not leading any more');
      }
    });
  }

  async #lead(client: KubeClient, leadership: Leadership, signal: AbortSignal): Promise<void> {
    const { templates, managerPki, logger, newId } = this.#options;
    logger.info({ identity: this.#options.identity }, 'leading');
    const driver = leadersDriver(this.#options.driver, leadership);
    const datastore = leadersDatastore(this.#options.datastore, leadership);
    const clock = this.#clock;
    const settings = this.#settings;
    const prepared = await this.#untilDone(signal, 'the super cluster cannot be prepared yet', () =>
      prepareSuperCluster({ client, settings, templates, managerPki, clock, logger }, signal),
    );
    if (prepared === undefined) return;
    const virtualClusters = new Store<VirtualCluster>({ indexes: { id: (vc) => [vc.status?.id ?? ''] } });
    const services: Services = {
      client,
      driver,
      datastore,
      settings,
      virtualClusters,
      policies: new Store<VirtualClusterPolicy>(),
      templates: new Store<ControlPlaneTemplate>(),
      claims: new Claims(virtualClusters),
      leaving: new Map(),
      ...prepared,
      newId: newId ?? randomId,
      random: this.#random,
      clock,
      logger,
    };
    await this.#work(services, leadership, signal);
  }

  async #work(services: Services, leadership: Leadership, signal: AbortSignal): Promise<void> {
    const { client, virtualClusters, policies, templates, driver, logger, settings } = services;
    const clock = this.#clock;
    const queue = new WorkQueue({
      parallel: settings.parallel,
      clock,
      random: this.#random,
      handle: (key, pass, failures) => this.#pass(key, { services, leadership, signal: pass, failures }),
    });
    const lookAtAll = (): void => {
      for (const vc of virtualClusters.list()) queue.add(keyOf(vc));
    };
    const stopWatching = [
      virtualClusters.subscribe((event) => onVirtualCluster(event, queue, services, signal)),
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
          else if (what === 'ready') queue.hurry(keyOf(vc));
        }
      }),
    ];
    const reflectors = [
      new Reflector({ client, clock, resource: resources.virtualClusters, store: virtualClusters }),
      new Reflector({ client, clock, resource: resources.virtualClusterPolicies, store: policies }),
      new Reflector({ client, clock, resource: resources.controlPlaneTemplates, store: templates }),
    ];
    const running = reflectors.map((reflector) => reflector.run(signal));
    try {
      // What is taken can only be known when all that exists is known.
      await Promise.all(reflectors.map((reflector) => reflector.synced(signal)));
      await queue.run(signal);
    } catch (error) {
      if (!signal.aborted) throw error;
    } finally {
      for (const stop of stopWatching) stop();
      await Promise.all(running);
      await this.#options.driver.close?.();
    }
  }

  async #pass(
    key: string,
    {
      services,
      leadership,
      signal,
      failures,
    }: { services: Services; leadership: Leadership; signal: AbortSignal; failures: number },
  ): Promise<Outcome> {
    const { client, logger } = services;
    const clock = this.#clock;
    const [namespace = '', name = ''] = key.split('/');
    let current: VirtualCluster;
    try {
      current = await client.get<VirtualCluster>(resources.virtualClusters, { namespace, name }, { signal });
    } catch (error) {
      if (isNotFound(error)) return { kind: 'done' };
      if (signal.aborted) throw error;
      const { message, retryAfterMs } = explain(error);
      logger.warn({ virtualCluster: key }, message);
      return { kind: 'failed', ...(retryAfterMs === undefined ? {} : { retryAfterMs }) };
    }
    const status = new StatusWriter({ client, clock, signal, current });
    const connect = (tenant: Tenant): KubeClient => this.#connect(tenant, leadership);
    const tenant = new Tenant({ virtualCluster: current, status, signal, clock, connect });
    try {
      if (current.metadata.deletionTimestamp !== undefined) return await remove(tenant, services);
      return await provision(tenant, services, failures);
    } finally {
      await tenant.close();
    }
  }

  #connect(tenant: Tenant, leadership: Leadership): KubeClient {
    const { servingCa, leafs } = tenant.required(tenant.pki, 'certificates');
    const connect = this.#options.connect ?? ((options) => new KubeClient(new Connection(options)));
    return connect({
      server: tenant.required(tenant.vc.status?.endpoint, 'endpoint'),
      ca: servingCa.certPem,
      cert: leafs.manager.certPem,
      key: leafs.manager.keyPem,
      userAgent: 'skerry-vc-manager',
      beforeWrite: () => assertLeads(leadership),
    });
  }

  /** Tries until it succeeds; undefined when aborted before. */
  async #untilDone<T>(signal: AbortSignal, problem: string, work: () => Promise<T>): Promise<T | undefined> {
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
