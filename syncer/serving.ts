import type { Coverage } from './coverage.ts';
import { forSessions } from './for-sessions.ts';
import { allKinds } from './kinds/registry.ts';
import type { KubeletProxy } from './kubelet/index.ts';
import type { Links } from './links.ts';
import { observeEngine, observeTenants } from './observe.ts';
import { SyncEngine } from './reconcile/engine.ts';
import type { SyncerOptions } from './settings.ts';
import type { SuperSide } from './super-side.ts';
import type { Surroundings } from './surroundings.ts';
import type { SyncerParts } from './syncer.ts';
import { TenantDirectory } from './tenants/index.ts';
import type { PodTraces } from './trace/index.ts';

export interface ServingOptions extends Omit<SyncerParts, 'superConnection'> {
  options: SyncerOptions;
  links: Links;
  superSide: SuperSide;
  coverage: Coverage;
  kubelet: KubeletProxy;
  kubeletPort: number;
  surroundings: Surroundings;
  traces: PodTraces;
}

/** The tenants that this replica serves, and what is done for them. The caches of the super cluster must be complete. */
export class Serving {
  readonly #engine: SyncEngine;
  readonly #directory: TenantDirectory;
  #surroundings: Surroundings;

  constructor(parts: ServingOptions) {
    const { options, links, superSide, coverage, kubelet, kubeletPort, traces } = parts;
    const { metrics, clock, logger } = parts;
    this.#surroundings = parts.surroundings;
    const common = {
      superClient: links.superClient,
      superCaches: superSide.caches,
      superIdentity: superSide.identity,
      kinds: allKinds,
      clock,
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
      followed: superSide.followed,
      engine: this.#engine,
      logger,
      gate: coverage,
      beforeWrite: () => links.fence.check(),
      settings: () => ({
        kubelet: {
          address: options.kubelet.advertise,
          port: kubeletPort,
          ...(options.kubelet.name === undefined ? {} : { name: options.kubelet.name }),
        },
        nodeLabels: options.nodeLabels,
        deniedKeyPrefixes: options.deniedKeyPrefixes,
        transparentKeyPrefixes: options.transparentKeyPrefixes,
        ingressAnnotations: options.ingressAnnotations,
        ...this.#surroundings,
      }),
      hooks: { ...observeTenants(metrics), ...forSessions(kubelet, traces) },
    });
    metrics.collectFrom(
      () => this.#engine.depths(),
      (uid) => this.#engine.labelOf(uid),
    );
    metrics.collectSchedulingFrom(
      () => this.#engine.scheduling(),
      (uid) => this.#engine.labelOf(uid),
    );
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

  /** All that follows from them is looked at anew. */
  changeSurroundings(surroundings: Surroundings): void {
    this.#surroundings = surroundings;
    this.#directory.reconsider();
  }

  /** What waits because it was refused is tried again. */
  retryNow(): void {
    for (const { tenant } of this.#engine.depths()) this.#engine.retryNow(tenant);
  }
}
