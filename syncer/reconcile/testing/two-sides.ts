import { type Clock, type KubeObject, type Resource, resources, systemClock } from '../../../kube/index.ts';
import { type FakeCluster, startFakeCluster } from '../../../kube/testing/index.ts';
import type { TenantInfo } from '../../context.ts';
import type { CustomResourceInformers } from '../../controllers/custom-resources.ts';
import { SyncEngine } from '../../engine.ts';
import { allKinds } from '../../kinds/registry.ts';
import { testTenant } from '../../kinds/testing.ts';
import { SuperSide } from '../../super-side.ts';
import type { Caches } from '../caches.ts';
import type { TenantState } from '../tenant-state.ts';
import { TenantSide } from './tenant-side.ts';

export interface TwoSidesOptions {
  clock?: Clock;
  workers?: number;
  fair?: boolean;
  /** Settings of the tenant that is there from the beginning. */
  tenant?: Partial<TenantInfo>;
}

/** One life of an engine: what it remembers ends with it. */
interface Life {
  readonly engine: SyncEngine;
  readonly superSide: SuperSide;
  readonly states: Map<TenantSide, TenantState>;
  readonly stop: AbortController;
  readonly running: Promise<void>[];
}

/** An engine between fake API servers: a super cluster and one tenant, or more. `await using` ends all of it. */
export class TwoSides implements AsyncDisposable {
  readonly super: FakeCluster;
  /** What the engine reported, in order: `mismatch tenant`, `mismatch super`, `held`. */
  readonly reports: string[] = [];
  readonly #first: TenantSide;
  readonly #tenants: TenantSide[];
  readonly #options: TwoSidesOptions;
  #life: Life | undefined;
  #reportWaiters: (() => void)[] = [];

  private constructor(tenant: FakeCluster, superCluster: FakeCluster, options: TwoSidesOptions) {
    this.super = superCluster;
    this.super.server.put(resources.namespaces, { metadata: { name: 'kube-system', uid: 'super' } });
    this.#first = new TenantSide(tenant, testTenant(options.tenant));
    this.#tenants = [this.#first];
    this.#options = options;
  }

  /** `prepare` fills the servers before the engine looks at them for the first time. */
  static async start(prepare?: (sides: TwoSides) => void, options: TwoSidesOptions = {}): Promise<TwoSides> {
    const sides = new TwoSides(await startFakeCluster(), await startFakeCluster(), options);
    prepare?.(sides);
    await sides.restart();
    return sides;
  }

  /** The tenant that is there from the beginning. */
  get first(): TenantSide {
    return this.#first;
  }

  get tenant(): FakeCluster {
    return this.#first.cluster;
  }

  get info(): TenantInfo {
    return this.#first.info;
  }

  get engine(): SyncEngine {
    return this.#now.engine;
  }

  get superCaches(): Caches {
    return this.#now.superSide.caches;
  }

  /** Custom resources of the super cluster. */
  get customResources(): CustomResourceInformers {
    return this.#now.superSide.customResources;
  }

  get state(): TenantState {
    return this.stateOf(this.#first);
  }

  get shop(): string {
    return this.#first.superNamespace('shop');
  }

  stateOf(tenant: TenantSide): TenantState {
    return this.#now.states.get(tenant) as TenantState;
  }

  /** Serves one more tenant. */
  async add(info: TenantInfo): Promise<TenantSide> {
    const tenant = new TenantSide(await startFakeCluster(), info);
    this.#tenants.push(tenant);
    await this.#join(this.#now, tenant);
    return tenant;
  }

  /** Ends the engine, wherever it is, and starts one that remembers nothing. */
  async restart(): Promise<void> {
    await this.#end();
    const clock = this.#options.clock ?? systemClock;
    const superSide = new SuperSide({
      client: this.super.client,
      kinds: allKinds,
      clock,
      onProblem: () => undefined,
    });
    const engine = new SyncEngine({
      kinds: allKinds,
      superClient: this.super.client,
      superCaches: superSide.caches,
      superIdentity: superSide.identity,
      clock,
      workers: this.#options.workers ?? 8,
      fair: this.#options.fair ?? true,
      onMismatch: (_state, side) => this.#report(`mismatch ${side}`),
      onHeld: () => this.#report('held'),
    });
    const stop = new AbortController();
    const life: Life = { engine, superSide, states: new Map(), stop, running: [superSide.run(stop.signal)] };
    this.#life = life;
    await superSide.synced(stop.signal);
    life.running.push(engine.run(stop.signal));
    for (const tenant of this.#tenants) await this.#join(life, tenant);
  }

  /** An object of the tenant's namespace `shop`. */
  inShop(resource: Resource, object: KubeObject): KubeObject {
    return this.#first.inShop(resource, object);
  }

  /** Its super object, if there is one. */
  inSuper(resource: Resource, name: string): KubeObject | undefined {
    return this.super.server.get(resource, { namespace: this.shop, name });
  }

  async until(predicate: () => boolean): Promise<void> {
    const servers = [this.super, ...this.#tenants.map(({ cluster }) => cluster)];
    await Promise.race(servers.map(({ server }) => server.until(predicate)));
  }

  /** Resolves when the engine has reported this. */
  async reported(what: string): Promise<void> {
    while (!this.reports.includes(what)) {
      await new Promise<void>((resolve) => this.#reportWaiters.push(resolve));
    }
  }

  async [Symbol.asyncDispose](): Promise<void> {
    await this.#end();
    for (const { cluster } of this.#tenants) await cluster[Symbol.asyncDispose]();
    await this.super[Symbol.asyncDispose]();
  }

  get #now(): Life {
    if (this.#life === undefined) throw new Error('the engine does not run');
    return this.#life;
  }

  async #join(life: Life, tenant: TenantSide): Promise<void> {
    const clock = this.#options.clock ?? systemClock;
    const { state, running } = await tenant.follow(
      life.engine,
      life.superSide.caches,
      clock,
      life.stop.signal,
    );
    life.states.set(tenant, state);
    life.running.push(...running);
    life.engine.join(state, 1);
  }

  async #end(): Promise<void> {
    const life = this.#life;
    this.#life = undefined;
    life?.stop.abort(new Error('the engine ends'));
    await Promise.all(life?.running ?? []);
  }

  #report(what: string): void {
    this.reports.push(what);
    for (const waiter of this.#reportWaiters.splice(0)) waiter();
  }
}
