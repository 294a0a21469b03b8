import type { Logger } from 'pino';
import { type Clock, type KubeClient, type KubeObject, resources } from '../kube/index.ts';
import { SyncEngine } from './engine/index.ts';
import { allKinds } from './kinds/index.ts';
import { KubeletServer, readServingCertificate } from './kubelet/index.ts';
import { HealthServer, type SyncerMetrics } from './metrics/index.ts';
import { observeEngine, observeTenants } from './observe.ts';
import type { SyncerOptions } from './settings.ts';
import { SuperSide } from './super-side.ts';
import { TenantDirectory } from './tenants/index.ts';

export interface SyncerParts {
  superClient: KubeClient;
  metrics: SyncerMetrics;
  clock: Clock;
  logger: Logger;
}

/** Mirrors objects between all tenant control planes and the super cluster, until aborted. */
export class Syncer {
  readonly #options: SyncerOptions;
  readonly #parts: SyncerParts;

  constructor(options: SyncerOptions, parts: SyncerParts) {
    this.#options = options;
    this.#parts = parts;
  }

  /** Throws only when it cannot start: a port is taken, the super cluster refuses its credentials. */
  async run(signal: AbortSignal): Promise<void> {
    const { superClient, metrics, clock, logger } = this.#parts;
    const superSide = new SuperSide({
      client: superClient,
      kinds: allKinds,
      clock,
      onProblem: (kind, problem) => {
        metrics.reflectorProblem('super', kind, problem.phase);
        logger.warn({ kind, phase: problem.phase, err: problem.error }, 'cannot follow the super cluster');
      },
    });
    const ending = new AbortController();
    const stop = (): void => ending.abort(signal.reason);
    signal.addEventListener('abort', stop, { once: true });
    if (signal.aborted) stop();

    const health = new HealthServer({
      metrics,
      ready: { 'super-cluster': () => superSide.hasSynced },
    });
    let kubelet: KubeletServer | undefined;
    const running: Promise<void>[] = [];
    try {
      await health.listen(this.#options.metrics.port, this.#options.metrics.host);
      running.push(superSide.run(ending.signal));
      const certificate = await readServingCertificate(superClient, clock, ending.signal, (error) =>
        logger.info({ err: error }, 'waiting for the serving certificate that vc-manager makes'),
      );
      kubelet = new KubeletServer({ ...certificate, nodesAreSimulated: () => nodesAreSimulated(superSide) });
      const port = await kubelet.listen(this.#options.kubelet.host, this.#options.kubelet.port);
      await superSide.synced(ending.signal);
      logger.info('super cluster caches are complete');
      running.push(...this.#serve(superSide, port, ending.signal));
      await Promise.all(running);
    } catch (error) {
      if (!ending.signal.aborted) throw error;
    } finally {
      ending.abort(new Error('syncer stops'));
      signal.removeEventListener('abort', stop);
      await Promise.allSettled(running);
      await kubelet?.close();
      await health.close();
    }
  }

  #serve(superSide: SuperSide, kubeletPort: number, signal: AbortSignal): Promise<void>[] {
    const { superClient, metrics, clock, logger } = this.#parts;
    const engine: SyncEngine = new SyncEngine({
      kinds: allKinds,
      superClient,
      superCaches: superSide.caches,
      superIdentity: superSide.identity,
      clock,
      workers: this.#options.workers,
      fair: this.#options.fair,
      onMismatch: (tenant, side) => void directory.session(tenant.info.uid)?.mismatch(side).catch(report),
      onHeld: (tenant) => void directory.session(tenant.info.uid)?.held().catch(report),
      observer: observeEngine(metrics, logger),
    });
    const directory = new TenantDirectory({
      superClient,
      superCaches: superSide.caches,
      superIdentity: superSide.identity,
      engine,
      kinds: allKinds,
      clock,
      logger,
      settings: {
        kubelet: { address: this.#options.kubelet.advertise, port: kubeletPort },
        deniedKeyPrefixes: this.#options.deniedKeyPrefixes,
        transparentKeyPrefixes: this.#options.transparentKeyPrefixes,
      },
      hooks: observeTenants(metrics),
    });
    metrics.collectFrom(
      () => engine.depths(),
      (uid) => engine.labelOf(uid),
    );
    metrics.collectObjectsFrom(() => engine.objectCounts());
    const report = (error: unknown): void => {
      if (!signal.aborted) logger.warn({ err: error }, 'cannot write a condition');
    };
    return [engine.run(signal), directory.run(signal)];
  }
}

/** Whether every node of the super cluster says of itself that it is simulated. */
function nodesAreSimulated(superSide: SuperSide): boolean {
  const nodes: KubeObject[] = [...superSide.caches.store(resources.nodes).list()];
  return nodes.length > 0 && nodes.every((node) => node.metadata.labels?.['skerry.dev/simulated'] === 'true');
}
