import type { Logger } from 'pino';
import type { DifferenceReport } from '../api/difference-report.ts';
import {
  type Clock,
  Connection,
  type ConnectionOptions,
  KubeClient,
  linkedController,
  resources,
} from '../kube/index.ts';
import { HealthServer } from '../program/health-server.ts';
import { packageVersion } from '../program/package-root.ts';
import { BucketScope } from './bucket-scope.ts';
import { SyncEngine } from './engine.ts';
import { allKinds } from './kinds/registry.ts';
import { KubeletProxy } from './kubelet/kubelet-proxy.ts';
import { differencesPage, podsPage } from './observability/debug-pages.ts';
import { PodTraces } from './observability/pod-traces.ts';
import { observeEngine, observeTenants, type SyncerMetrics } from './observability/syncer-metrics.ts';
import { metricsUrl, type SyncerOptions } from './settings.ts';
import { followRecords } from './sharding/members.ts';
import { Fence, replicaIdentity } from './sharding/own-lease.ts';
import { Shards } from './sharding/shards.ts';
import {
  findSuperClusterFacts,
  followSuperClusterFacts,
  type SuperClusterFacts,
} from './super-cluster-facts.ts';
import { SuperSide } from './super-side.ts';
import { type DirectoryHooks, TenantDirectory } from './tenants/directory.ts';
import type { TenantSession } from './tenants/session.ts';
import { CurrentTenant, Watchdog } from './watchdog/watchdog.ts';

/** A Lease counts for ten seconds; a third of it is for a write that has been sent and has not arrived. */
const windowMs = 6_600;

/** The two ways to the super cluster. */
interface SuperClients {
  readonly fence: Fence;
  /** For everything that is done for tenants: its writes pass the fence. */
  readonly superClient: KubeClient;
  /** For what opens the fence. A connection of its own: a crowd of calls on the other one does not hold it up. */
  readonly unfenced: KubeClient;
  close(): Promise<void>;
}

function openSuperClients(options: ConnectionOptions, clock: Clock, onRefused: () => void): SuperClients {
  const fence = new Fence({ windowMs, clock, onRefused });
  const fenced = new Connection({ ...options, beforeWrite: () => fence.check() });
  const unfenced = new Connection(options);
  return {
    fence,
    superClient: new KubeClient(fenced),
    unfenced: new KubeClient(unfenced),
    async close() {
      await Promise.all([fenced.close(), unfenced.close()]);
    },
  };
}

/** The kubelet proxy serves the tenants of this syncer, and the pods of these are traced. */
function sessionHooks(
  kubelet: KubeletProxy,
  traces: PodTraces,
): Pick<DirectoryHooks, 'serving' | 'leaving' | 'used' | 'usedUnjoined'> {
  return {
    serving: (session, authorities) => {
      const { info, label, caches } = session.state;
      traces.follow(info.uid, label, caches.store(resources.pods));
      kubelet.serve(asKubeletSees(session), authorities);
    },
    leaving: (uid) => {
      traces.leave(uid);
      kubelet.leave(uid);
    },
    used: (uid, signal) => kubelet.used(uid, signal),
    usedUnjoined: (uid, pods, signal) => kubelet.usedBy(pods, uid, signal),
  };
}

function asKubeletSees(session: TenantSession): Parameters<KubeletProxy['serve']>[0] {
  const { state } = session;
  return {
    get isComplete() {
      return session.isJoined;
    },
    complete: session.joined,
    client: state.client,
    context: () => state.context(),
    superNamespace: (namespace) => state.superNamespace(namespace),
  };
}

interface ServingOptions extends Omit<SyncerParts, 'superConnection'> {
  options: SyncerOptions;
  links: SuperClients;
  superSide: SuperSide;
  coverage: BucketScope;
  kubelet: KubeletProxy;
  kubeletPort: number;
  superClusterFacts: SuperClusterFacts;
  traces: PodTraces;
  atWork: CurrentTenant;
}

interface WatchOptions extends Pick<SyncerParts, 'watchdog' | 'logger'> {
  atWork: CurrentTenant;
}

/** The tenants that this replica serves, and what is done for them. The caches of the super cluster must be complete. */
class Serving {
  readonly #engine: SyncEngine;
  readonly #directory: TenantDirectory;
  #superClusterFacts: SuperClusterFacts;

  constructor(parts: ServingOptions) {
    const { options, links, superSide, coverage, kubelet, kubeletPort, traces } = parts;
    const { metrics, clock, logger, atWork } = parts;
    this.#superClusterFacts = parts.superClusterFacts;
    const common = {
      superClient: links.superClient,
      superCaches: superSide.caches,
      superIdentity: superSide.identity,
      kinds: allKinds,
      clock,
      atWork,
    };
    const report = (error: unknown): void => logger.warn({ err: error }, 'cannot write a condition');
    this.#engine = new SyncEngine({
      ...common,
      workers: options.workers,
      fair: options.fair,
      onMismatch: (tenant, side) =>
        void this.#directory.session(tenant.info.uid)?.mismatch(side).catch(report),
      onHeld: (tenant) => void this.#directory.session(tenant.info.uid)?.held().catch(report),
      observer: observeEngine(metrics, traces, logger),
    });
    this.#directory = new TenantDirectory({
      ...common,
      systemNamespace: options.namespace,
      customResources: superSide.customResources,
      engine: this.#engine,
      logger,
      gate: coverage,
      beforeWrite: () => links.fence.check(),
      settings: () => ({
        kubelet: { address: options.kubelet.advertise, port: kubeletPort, name: options.kubelet.name },
        nodeLabels: options.nodeLabels,
        allowedAnnotations: options.allowedAnnotations,
        allowedLabels: options.allowedLabels,
        deniedKeyPrefixes: options.deniedKeyPrefixes,
        transparentKeyPrefixes: options.transparentKeyPrefixes,
        ingressAnnotations: options.ingressAnnotations,
        tenantCacheMiB: options.tenantCacheMiB,
        totalCacheMiB: options.totalCacheMiB,
        ...this.#superClusterFacts,
      }),
      hooks: { ...observeTenants(metrics), ...sessionHooks(kubelet, traces) },
    });
    metrics.collectFrom(
      () => this.#engine.depths(),
      (uid) => this.#engine.labelOf(uid),
    );
    metrics.collectSchedulingFrom(
      () => this.#engine.scheduling(),
      (uid) => this.#engine.labelOf(uid),
    );
    metrics.collectQuotasFrom(() => this.#engine.quotas());
    metrics.collectExpiriesFrom(() => this.#directory.expiries());
    metrics.collectCachesFrom(() => this.#engine.cacheBytes());
    metrics.collectObjectsFrom(() => this.#engine.objectCounts());
    metrics.gauge(
      'skerry_syncer_kubelet_connections',
      'Connections of tenants’ API servers that are open where this syncer answers as kubelet.',
      () => kubelet.connections,
    );
  }

  /** Works until aborted. */
  async run(signal: AbortSignal): Promise<void> {
    await Promise.all([this.#engine.run(signal), this.#directory.run(signal)]);
  }

  /** How the two sides of a tenant, `namespace/name`, differ; undefined: it is not served here. */
  differences(tenant: string, most: number): Promise<DifferenceReport | undefined> {
    return this.#engine.differences(tenant, most);
  }

  /** Until aborted, while this replica works. */
  async watch({ atWork, watchdog, logger }: WatchOptions, signal: AbortSignal): Promise<void> {
    if (watchdog === undefined) return;
    const dog = new Watchdog({
      ...watchdog,
      atWork,
      suspect: (uid) => this.#directory.suspect(uid),
      largest: (atLeastBytes) => this.#directory.largest(atLeastBytes),
      fills: (uid, atLeastBytes) => this.#directory.fills(uid, atLeastBytes),
      onNoted: (suspect) => this.#directory.noted(suspect),
      onProblem: (error) => logger.warn({ err: error }, 'the watchdog of this replica does not work'),
    });
    await dog.run(signal);
  }

  /** All that follows from them is looked at anew. */
  changeSuperClusterFacts(superClusterFacts: SuperClusterFacts): void {
    this.#superClusterFacts = superClusterFacts;
    this.#directory.reconsider();
  }

  /** What waits because it was refused is tried again. */
  retryNow(): void {
    for (const { tenant } of this.#engine.depths()) this.#engine.retryNow(tenant);
  }
}

interface SyncerParts {
  superConnection: ConnectionOptions;
  /** How another thread reaches the super cluster; absent: none watches this one. */
  watchdog?: { kubeconfig: string | undefined; context: string | undefined };
  metrics: SyncerMetrics;
  clock: Clock;
  logger: Logger;
}

/** Mirrors objects between tenant control planes and the super cluster, until aborted: all, or a share of them. */
export class Syncer {
  readonly #options: SyncerOptions;
  readonly #parts: SyncerParts;
  readonly #traces: PodTraces;
  readonly #atWork = new CurrentTenant();

  constructor(options: SyncerOptions, parts: SyncerParts) {
    this.#options = options;
    this.#parts = parts;
    const { metrics } = parts;
    this.#traces = new PodTraces({
      clock: parts.clock,
      onSpan: (name, tookMs) => metrics.podStep(name, tookMs),
      onReady: (tenant, tookMs) => metrics.podReady(tenant, tookMs),
    });
  }

  /**
   * Throws only when it cannot start (a port is taken, the super cluster refuses its credentials), and when another
   * process has taken over its name.
   */
  async run(signal: AbortSignal): Promise<void> {
    const { superConnection, metrics, clock, logger } = this.#parts;
    const { controller: ending, release } = linkedController(signal);
    const links = openSuperClients(superConnection, clock, () => metrics.fencedWrite());
    const superSide = this.#superSide(links.superClient);
    let serving: Serving | undefined;
    const coverage = new BucketScope({
      cover: (scope, until) => superSide.cover(scope, until),
      onResumed: () => serving?.retryNow(),
      clock,
    });
    this.#traces.followSuper(superSide.caches.store(resources.pods));
    const health = new HealthServer({
      metrics,
      pages: {
        '/debug/pods': (query) => podsPage(this.#traces, query),
        '/debug/differences': (query) =>
          differencesPage(async (tenant, most) => serving?.differences(tenant, most), query),
      },
      ready: { 'super-cluster': () => superSide.hasSynced },
    });
    const kubelet = this.#kubelet(links.superClient, superSide);
    const running: Promise<void>[] = [];
    const ready = Promise.withResolvers<void>();
    let shards: Shards | undefined;
    let replaced: unknown;
    try {
      const metricsPort = await health.listen(this.#options.metrics.port, this.#options.metrics.host);
      shards = this.#shards(links, coverage, metricsPort, ready.promise);
      const sharing = shards.run(ending.signal).catch((error: unknown) => {
        replaced = error;
        ending.abort(error);
      });
      running.push(superSide.run(ending.signal), coverage.run(ending.signal), sharing);
      const kubeletPort = await kubelet.listen(ending.signal);
      await superSide.synced(ending.signal);
      logger.info('super cluster caches are complete');
      const around = {
        ...this.#parts,
        options: this.#options,
        superClient: links.superClient,
        nodes: () => superSide.caches.store(resources.nodes).list(),
      };
      const superClusterFacts = await findSuperClusterFacts(around, ending.signal);
      serving = new Serving({
        ...this.#parts,
        ...{ options: this.#options, links, superSide, coverage, kubelet, kubeletPort, superClusterFacts },
        traces: this.#traces,
        atWork: this.#atWork,
      });
      const changed = serving.changeSuperClusterFacts.bind(serving);
      running.push(
        serving.run(ending.signal),
        serving.watch({ ...this.#parts, atWork: this.#atWork }, ending.signal),
        followSuperClusterFacts(around, superClusterFacts, changed, ending.signal),
      );
      ready.resolve();
      await Promise.all(running);
    } catch (error) {
      if (!ending.signal.aborted) throw error;
    } finally {
      ending.abort(new Error('syncer stops'));
      release();
      await Promise.allSettled(running);
      // Not before: nothing is done for any tenant any more.
      await shards?.leave();
      await kubelet.close();
      await health.close();
      await links.close();
    }
    if (replaced !== undefined) throw replaced;
  }

  #superSide(client: KubeClient): SuperSide {
    const { metrics, clock, logger } = this.#parts;
    return new SuperSide({
      client,
      kinds: allKinds,
      clock,
      waitsForScope: true,
      onProblem: (kind, problem) => {
        metrics.reflectorProblem('super', kind, problem.phase);
        logger.warn({ kind, phase: problem.phase, err: problem.error }, 'cannot follow the super cluster');
      },
    });
  }

  #kubelet(superClient: KubeClient, { caches }: SuperSide): KubeletProxy {
    const { superConnection, clock, logger } = this.#parts;
    return new KubeletProxy({
      ...this.#options.kubelet,
      namespace: this.#options.namespace,
      superClient,
      superConnection,
      superObjects: caches,
      nodes: () => caches.store(resources.nodes).list(),
      streamBytesPerSecond: this.#options.tenantStreamMiB * 1024 * 1024,
      atWork: this.#atWork,
      clock,
      logger,
    });
  }

  #shards(
    { unfenced, fence }: SuperClients,
    coverage: BucketScope,
    metricsPort: number,
    ready: Promise<void>,
  ): Shards {
    const { metrics, clock, logger } = this.#parts;
    const { namespace } = this.#options;
    const who = replicaIdentity(this.#options.replica);
    logger.info(
      { replica: who.replica },
      'this replica shares tenants with all others of this super cluster',
    );
    metrics.gauge(
      'skerry_syncer_buckets',
      'Buckets, of 64, whose tenants this syncer serves.',
      () => coverage.size,
    );
    return new Shards({
      ...who,
      client: unfenced,
      follow: followRecords(unfenced, namespace, clock, (error) =>
        logger.warn({ err: error }, 'cannot follow the other replicas'),
      ),
      namespace,
      metricsAddress: metricsUrl(this.#options, metricsPort),
      version: packageVersion(),
      fence,
      holder: coverage,
      ready,
      clock,
      logger,
    });
  }
}
