import { type Clock, type KubeObject, Reflector, type Resource, resources } from '../../../kube/index.ts';
import type { FakeCluster } from '../../../kube/testing/index.ts';
import type { TenantInfo } from '../../context.ts';
import type { SyncEngine } from '../../engine.ts';
import { allKinds } from '../../kinds/registry.ts';
import { superNamespaceName } from '../../mapping/names.ts';
import { Caches } from '../caches.ts';
import { TenantState } from '../tenant-state.ts';

/** A tenant with a fake API server, which has the namespaces `kube-system` and `shop`. */
export class TenantSide {
  readonly cluster: FakeCluster;
  /** Another one counts from the next time that an engine starts. */
  info: TenantInfo;
  readonly identity: string;

  constructor(cluster: FakeCluster, info: TenantInfo) {
    this.cluster = cluster;
    this.info = info;
    this.identity = `kube-system-of-${info.name}`;
    cluster.server.put(resources.namespaces, { metadata: { name: 'kube-system', uid: this.identity } });
    cluster.server.put(resources.namespaces, { metadata: { name: 'shop' } });
  }

  /** Fills new caches and keeps them up to date until aborted. */
  async follow(
    engine: SyncEngine,
    superCaches: Caches,
    clock: Clock,
    signal: AbortSignal,
  ): Promise<{ state: TenantState; running: Promise<void>[] }> {
    const { client } = this.cluster;
    const state = new TenantState({
      info: this.info,
      client,
      caches: new Caches(allKinds, 'tenant'),
      superCaches,
      identity: this.identity,
      nowMs: () => clock.now(),
    });
    const watched = allKinds.filter((kind) => kind.direction === 'up' || kind.isSecondCopy !== true);
    const reflectors = watched.map(
      ({ resource, selector, ...kind }) =>
        new Reflector({
          client,
          metadataOnly: 'payload' in kind,
          resource,
          store: state.caches.store(resource),
          clock,
          consistentStart: true,
          onProblem: () => undefined,
          ...(selector?.tenant === undefined ? {} : { labelSelector: selector.tenant }),
        }),
    );
    const running = reflectors.map((reflector) => reflector.run(signal));
    // As a session does: what cannot be recalled is tried one by one.
    const recalled = engine.loadEventCopies(state, signal).catch(() => undefined);
    await Promise.all([...reflectors.map((reflector) => reflector.synced(signal)), recalled]);
    return { state, running };
  }

  superNamespace(namespace: string): string {
    return superNamespaceName(this.info, namespace);
  }

  /** Makes or changes an object of the namespace `shop`. */
  inShop(resource: Resource, object: KubeObject): KubeObject {
    return this.cluster.server.put(resource, {
      ...object,
      metadata: { namespace: 'shop', ...object.metadata },
    });
  }
}
