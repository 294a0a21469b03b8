import type { Logger } from 'pino';
import { type Clock, type ConnectionOptions, type KubeClient, resources } from '../kube/index.ts';
import { Coverage } from './coverage.ts';
import { allKinds } from './kinds/registry.ts';
import { KubeletProxy } from './kubelet/index.ts';
import { type Links, openLinks } from './links.ts';
import { HealthServer, type SyncerMetrics } from './metrics/index.ts';
import { Serving } from './serving.ts';
import { metricsUrl, type SyncerOptions } from './settings.ts';
import { followRecords, replicaIdentity, Shards } from './shards/index.ts';
import { SuperSide } from './super-side.ts';
import { findSurroundings, followSurroundings } from './surroundings.ts';
import { PodTraces, podsPage } from './trace/index.ts';

export interface SyncerParts {
  superConnection: ConnectionOptions;
  metrics: SyncerMetrics;
  clock: Clock;
  logger: Logger;
}

/** Mirrors objects between tenant control planes and the super cluster, until aborted: all, or a share of them. */
export class Syncer {
  readonly #options: SyncerOptions;
  readonly #parts: SyncerParts;
  readonly #traces: PodTraces;

  constructor(options: SyncerOptions, parts: SyncerParts) {
    this.#options = options;
    this.#parts = parts;
    const { pods } = parts.metrics;
    this.#traces = new PodTraces({
      clock: parts.clock,
      onSpan: (name, tookMs) => pods.step(name, tookMs),
      onReady: (tenant, tookMs) => pods.ready(tenant, tookMs),
    });
  }

  /**
   * Throws only when it cannot start (a port is taken, the super cluster refuses its credentials), and when another
   * process has taken over its name.
   */
  async run(signal: AbortSignal): Promise<void> {
    const { superConnection, metrics, clock, logger } = this.#parts;
    const ending = new AbortController();
    const stop = (): void => ending.abort(signal.reason);
    signal.addEventListener('abort', stop, { once: true });
    if (signal.aborted) stop();

    const links = openLinks(superConnection, clock, () => metrics.fencedWrite());
    const superSide = this.#superSide(links.superClient);
    let serving: Serving | undefined;
    const coverage = new Coverage({
      cover: (scope, until) => superSide.cover(scope, until),
      onResumed: () => serving?.retryNow(),
    });
    this.#traces.followSuper(superSide.caches.store(resources.pods));
    const health = new HealthServer({
      metrics,
      pages: { '/debug/pods': (query) => podsPage(this.#traces, query) },
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
      const around = { ...this.#parts, options: this.#options, superClient: links.superClient };
      const surroundings = await findSurroundings(around, ending.signal);
      serving = new Serving({
        ...this.#parts,
        ...{ options: this.#options, links, superSide, coverage, kubelet, kubeletPort, surroundings },
        traces: this.#traces,
      });
      const changed = serving.changeSurroundings.bind(serving);
      running.push(
        serving.run(ending.signal),
        followSurroundings(around, surroundings, changed, ending.signal),
      );
      ready.resolve();
      await Promise.all(running);
    } catch (error) {
      if (!ending.signal.aborted) throw error;
    } finally {
      ending.abort(new Error('syncer stops'));
      signal.removeEventListener('abort', stop);
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
      clock,
      logger,
    });
  }

  #shards({ unfenced, fence }: Links, coverage: Coverage, metricsPort: number, ready: Promise<void>): Shards {
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
      fence,
      holder: coverage,
      ready,
      clock,
      logger,
    });
  }
}
