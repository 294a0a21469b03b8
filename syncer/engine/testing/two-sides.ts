import { type KubeObject, Reflector, type Resource, resources, systemClock } from '../../../kube/index.ts';
import { type FakeCluster, startFakeCluster } from '../../../kube/testing/index.ts';
import { allKinds } from '../../kinds/index.ts';
import { testTenant } from '../../kinds/testing.ts';
import { superNamespaceName } from '../../mapping/index.ts';
import { Caches } from '../caches.ts';
import { SyncEngine } from '../engine.ts';
import { IdentityGuard } from '../identity-guard.ts';
import { TenantState } from '../tenant-state.ts';

const tenantUid = 'uid-of-the-tenants-kube-system';

/** An engine between two fake API servers, with one tenant. `await using` ends all of it. */
export class TwoSides implements AsyncDisposable {
  readonly info = testTenant();
  readonly tenant: FakeCluster;
  readonly super: FakeCluster;
  readonly state: TenantState;
  readonly engine: SyncEngine;
  /** What the engine reported, in order: `mismatch tenant`, `mismatch super`, `held`. */
  readonly reports: string[] = [];
  readonly #superCaches = new Caches(allKinds, 'super');
  readonly #stop = new AbortController();
  #running: Promise<void>[] = [];
  #reportWaiters: (() => void)[] = [];

  private constructor(tenant: FakeCluster, superCluster: FakeCluster) {
    this.tenant = tenant;
    this.super = superCluster;
    this.state = new TenantState({
      info: this.info,
      client: tenant.client,
      caches: new Caches(allKinds, 'tenant'),
      superCaches: this.#superCaches,
      identity: tenantUid,
      nowMs: () => Date.now(),
    });
    this.engine = new SyncEngine({
      kinds: allKinds,
      superClient: superCluster.client,
      superCaches: this.#superCaches,
      superIdentity: new IdentityGuard(superCluster.client, undefined),
      clock: systemClock,
      workers: 8,
      onMismatch: (state, side) => {
        state.frozen = side;
        this.#report(`mismatch ${side}`);
      },
      onHeld: () => this.#report('held'),
    });
  }

  /** `prepare` fills the servers before the engine looks at them for the first time. */
  static async start(prepare?: (sides: TwoSides) => void): Promise<TwoSides> {
    const sides = new TwoSides(await startFakeCluster(), await startFakeCluster());
    sides.tenant.server.put(resources.namespaces, { metadata: { name: 'kube-system', uid: tenantUid } });
    sides.super.server.put(resources.namespaces, { metadata: { name: 'kube-system', uid: 'super' } });
    sides.tenant.server.put(resources.namespaces, { metadata: { name: 'shop' } });
    prepare?.(sides);
    await sides.join();
    return sides;
  }

  get shop(): string {
    return superNamespaceName(this.info, 'shop');
  }

  async join(): Promise<void> {
    const { signal } = this.#stop;
    const reflectors = allKinds.flatMap(({ resource }) => [
      new Reflector({ client: this.super.client, resource, store: this.#superCaches.store(resource) }),
      new Reflector({ client: this.tenant.client, resource, store: this.state.caches.store(resource) }),
    ]);
    this.#running = reflectors.map((reflector) => reflector.run(signal));
    await Promise.all(reflectors.map((reflector) => reflector.synced(signal)));
    this.engine.join(this.state, 1);
    this.#running.push(this.engine.run(signal));
  }

  /** An object of the tenant's namespace `shop`. */
  inShop(resource: Resource, object: KubeObject): KubeObject {
    return this.tenant.server.put(resource, {
      ...object,
      metadata: { namespace: 'shop', ...object.metadata },
    });
  }

  /** Its super object, if there is one. */
  inSuper(resource: Resource, name: string): KubeObject | undefined {
    return this.super.server.get(resource, { namespace: this.shop, name });
  }

  async until(predicate: () => boolean): Promise<void> {
    await Promise.race([this.tenant.server.until(predicate), this.super.server.until(predicate)]);
  }

  /** Resolves when the engine has reported this. */
  async reported(what: string): Promise<void> {
    while (!this.reports.includes(what)) {
      await new Promise<void>((resolve) => this.#reportWaiters.push(resolve));
    }
  }

  async [Symbol.asyncDispose](): Promise<void> {
    this.#stop.abort(new Error('test is over'));
    await Promise.all(this.#running);
    await this.tenant[Symbol.asyncDispose]();
    await this.super[Symbol.asyncDispose]();
  }

  #report(what: string): void {
    this.reports.push(what);
    for (const waiter of this.#reportWaiters.splice(0)) waiter();
  }
}
