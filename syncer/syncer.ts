import type { Logger } from 'pino';
import { type Clock, type ConnectionOptions, type KubeClient, resources } from '../kube/index.ts';
import { SyncEngine } from './engine/index.ts';
import { allKinds } from './kinds/index.ts';
import { KubeletProxy } from './kubelet/index.ts';
import { HealthServer, type SyncerMetrics } from './metrics/index.ts';
import { networkPoliciesAreEnforced } from './network-policy-engine.ts';
import { observeEngine, observeTenants } from './observe.ts';
import { protectedRanges } from './protected-ranges.ts';
import type { SyncerOptions } from './settings.ts';
import { SuperSide } from './super-side.ts';
import { type DirectoryHooks, TenantDirectory, type TenantSession } from './tenants/index.ts';

export interface SyncerParts {
  superClient: KubeClient;
  /** How `superClient` is connected, for connections of other kinds. */
  superConnection: ConnectionOptions;
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
    const kubelet = this.#kubelet(superSide);
    const running: Promise<void>[] = [];
    try {
      await health.listen(this.#options.metrics.port, this.#options.metrics.host);
      running.push(superSide.run(ending.signal));
      const port = await kubelet.listen(ending.signal);
      await superSide.synced(ending.signal);
      logger.info('super cluster caches are complete');
      const isEnforced = await this.#networkPoliciesAreEnforced(ending.signal);
      const protectedCIDRs = await this.#protectedCIDRs(ending.signal);
      running.push(...this.#serve(superSide, kubelet, port, { isEnforced, protectedCIDRs }, ending.signal));
      await Promise.all(running);
    } catch (error) {
      if (!ending.signal.aborted) throw error;
    } finally {
      ending.abort(new Error('syncer stops'));
      signal.removeEventListener('abort', stop);
      await Promise.allSettled(running);
      await kubelet.close();
      await health.close();
    }
  }

  #kubelet(superSide: SuperSide): KubeletProxy {
    const { superClient, superConnection, clock, logger } = this.#parts;
    const { caches } = superSide;
    return new KubeletProxy({
      ...this.#options.kubelet,
      superClient,
      superConnection,
      superObjects: caches,
      nodes: () => caches.store(resources.nodes).list(),
      clock,
      logger,
    });
  }

  async #networkPoliciesAreEnforced(signal: AbortSignal): Promise<boolean> {
    const { superClient, logger } = this.#parts;
    try {
      return await networkPoliciesAreEnforced(this.#options.networkPolicies, superClient, signal);
    } catch (error) {
      if (signal.aborted) throw error;
      logger.warn(
        { err: error },
        'cannot find out who enforces NetworkPolicies; nobody does, tenants are told',
      );
      return false;
    }
  }

  async #protectedCIDRs(signal: AbortSignal): Promise<readonly string[]> {
    const { superClient, logger } = this.#parts;
    try {
      return [...this.#options.protectedCIDRs, ...(await protectedRanges(superClient, signal))];
    } catch (error) {
      if (signal.aborted) throw error;
      logger.warn(
        { err: error },
        'cannot find out where the super cluster itself is; tenants may point no EndpointSlice beyond their own pods',
      );
      return ['0.0.0.0/0', '::/0'];
    }
  }

  #serve(
    superSide: SuperSide,
    kubelet: KubeletProxy,
    kubeletPort: number,
    found: { isEnforced: boolean; protectedCIDRs: readonly string[] },
    signal: AbortSignal,
  ): Promise<void>[] {
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
      followed: superSide.followed,
      superIdentity: superSide.identity,
      engine,
      kinds: allKinds,
      clock,
      logger,
      settings: {
        kubelet: { address: this.#options.kubelet.advertise, port: kubeletPort },
        nodeLabels: this.#options.nodeLabels,
        deniedKeyPrefixes: this.#options.deniedKeyPrefixes,
        transparentKeyPrefixes: this.#options.transparentKeyPrefixes,
        protectedCIDRs: found.protectedCIDRs,
        networkPoliciesEnforced: found.isEnforced,
        ingressAnnotations: this.#options.ingressAnnotations,
      },
      hooks: { ...observeTenants(metrics), ...forKubelet(kubelet) },
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

/** Whom the kubelet proxy serves is whom this syncer serves. */
function forKubelet(kubelet: KubeletProxy): Pick<DirectoryHooks, 'serving' | 'leaving'> {
  return {
    serving: (session, authorities) => kubelet.serve(asKubeletSees(session), authorities),
    leaving: (uid) => kubelet.leave(uid),
  };
}

function asKubeletSees(session: TenantSession): Parameters<KubeletProxy['serve']>[0] {
  const { state } = session;
  return {
    get isComplete() {
      return session.isJoined;
    },
    client: state.client,
    context: () => state.context(),
    pods: () => state.caches.store(resources.pods).list(),
    nodes: () => state.caches.store(resources.nodes).list(),
    superNamespace: (namespace) => state.superNamespace(namespace),
  };
}
