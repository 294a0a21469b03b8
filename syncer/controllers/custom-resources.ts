import { deepEqual } from 'fast-equals';
import { labelKeys } from '../../api/labels.ts';
import {
  ignoreNotFound,
  type KubeClient,
  type KubeObject,
  type Reflector,
  type Resource,
  resources,
  type Store,
  type StoreEvent,
  untilAborted,
} from '../../kube/index.ts';
import type { DownKind } from '../kinds/contract.ts';
import {
  type Definition,
  isEstablished,
  preferredVersion,
  resourceOf,
  servedResource,
  servedVersion,
  versionsOf,
} from '../kinds/custom-resource-definitions.ts';
import { type CustomResource, customResourceKind } from '../kinds/custom-resources.ts';
import { isPublished } from '../kinds/published-kind.ts';
import { originalUid, tenantUidOf } from '../mapping/labels.ts';
import { byTenantIndex, type Caches } from '../reconcile/caches.ts';
import { type ActionGate, recordNotice } from '../reconcile/execute.ts';
import { DefinitionGuard } from '../reconcile/guards.ts';
import type { CustomKind, TenantState } from '../reconcile/tenant-state.ts';

/** The definition of this name as one side has it. */
function definitionIn(caches: Caches, name: string): Definition | undefined {
  return caches.get<Definition & KubeObject>(resources.customResourceDefinitions, { name });
}

/** What the objects of a definition are in one of its versions; `undefined`: they are not to be had in it. */
function describeResource(definition: Definition | undefined, version: string): CustomResource | undefined {
  if (definition === undefined || definition.metadata.deletionTimestamp !== undefined) return undefined;
  const served = servedVersion(definition, version);
  const resource = resourceOf(definition, version);
  if (served === undefined || resource === undefined || !resource.namespaced) return undefined;
  return { resource, hasStatus: served.subresources?.status !== undefined };
}

interface CustomResourceInformersOptions {
  client: KubeClient;
  /** Of the super cluster. */
  caches: Caches;
  /** Fills a store with the objects of a kind that carry a tenant's mark. */
  reflector: (kind: DownKind, store: Store) => Reflector;
}

/** Objects of one definition in one version. */
interface CustomResourceVersion {
  /** Of the definition. */
  readonly name: string;
  readonly version: string;
}

/** Which tenants have objects of a definition in the super cluster from before; without `tenants` until listed. */
interface LeftoverList {
  tenants?: ReadonlySet<string>;
}

/** The cache of one definition's objects in one version, kept up to date. */
interface Informer {
  readonly served: CustomResourceVersion;
  readonly customResource: CustomResource;
  readonly kind: DownKind;
  readonly store: Store;
  readonly stop: AbortController;
  readonly reflector: Reflector;
  isComplete: boolean;
}

/**
 * Informers for custom resources in the super cluster, shared by all tenants: each runs as long as a tenant requests
 * it. One that cannot be listed does not affect the others.
 */
export class CustomResourceInformers {
  readonly #options: CustomResourceInformersOptions;
  readonly #requests = new Map<string, readonly CustomResourceVersion[]>();
  readonly #informers = new Map<string, Informer>();
  /** By name of the definition. */
  readonly #leftovers = new Map<string, LeftoverList>();
  readonly #running = new Set<Promise<void>>();
  #listeners: readonly (() => void)[] = [];
  #signal: AbortSignal | undefined;

  constructor(options: CustomResourceInformersOptions) {
    this.#options = options;
  }

  /** Those that watch the super cluster at this moment. */
  get reflectors(): readonly Reflector[] {
    return [...this.#informers.values()].map(({ reflector }) => reflector);
  }

  /** Works until aborted. The cache of definitions must be complete. */
  async run(signal: AbortSignal): Promise<void> {
    this.#signal = signal;
    const definitions = this.#options.caches.store(resources.customResourceDefinitions);
    const unsubscribe = definitions.subscribe(({ object }) =>
      this.#definitionChanged(object.metadata.name ?? ''),
    );
    this.#reconcile();
    await untilAborted(signal);
    unsubscribe();
    for (const { stop } of this.#informers.values()) stop.abort(signal.reason);
    await Promise.all(this.#running);
  }

  /** Called when a kind has become complete or has ended. Returns how to stop that. */
  subscribe(listener: () => void): () => void {
    this.#listeners = [...this.#listeners, listener];
    return () => {
      this.#listeners = this.#listeners.filter((each) => each !== listener);
    };
  }

  /** Everything that a tenant needs from now on; it no longer uses any other kind. */
  request(tenant: string, versions: readonly CustomResourceVersion[]): void {
    // Another replica may have served the tenant since its leftovers were listed.
    if (!this.#requests.has(tenant)) this.#leftovers.clear();
    this.#requests.set(tenant, versions);
    this.#reconcile();
  }

  /** The tenant is served no more; its leftovers are listed anew when it comes back. */
  release(tenant: string): void {
    this.#requests.delete(tenant);
    this.#leftovers.clear();
    this.#reconcile();
  }

  /** The kind of these objects, once the cache holds all of them. */
  kind(served: CustomResourceVersion): DownKind | undefined {
    const informer = this.#informers.get(idOf(served));
    return informer?.isComplete === true ? informer.kind : undefined;
  }

  /** Whether a tenant has objects of this definition in the super cluster from before; false until they are listed. */
  hasLeftovers(name: string, tenant: string): boolean {
    if (!this.#leftovers.has(name)) this.#findLeftovers(name);
    return this.#leftovers.get(name)?.tenants?.has(tenant) === true;
  }

  /** The tenant has no objects of this definition any more. */
  clearLeftovers(name: string, tenant: string): void {
    const search = this.#leftovers.get(name);
    if (search?.tenants?.has(tenant) === true)
      search.tenants = new Set([...search.tenants].filter((uid) => uid !== tenant));
  }

  /** Starts what tenants request and ends what none requests any more. */
  #reconcile(): void {
    if (this.#signal === undefined || this.#signal.aborted) return;
    const wanted = new Map([...this.#requests.values()].flat().map((served) => [idOf(served), served]));
    for (const [id, informer] of this.#informers) {
      if (wanted.has(id)) continue;
      this.#informers.delete(id);
      this.#release(informer, 'no tenant uses this kind any more');
    }
    for (const [id, served] of wanted) if (!this.#informers.has(id)) this.#start(id, served);
  }

  #start(id: string, served: CustomResourceVersion): void {
    const { caches, reflector: reflectorOf } = this.#options;
    const customResource = describeResource(definitionIn(caches, served.name), served.version);
    if (customResource === undefined) return;
    const kind = customResourceKind(customResource);
    const store = caches.add(kind) as Store;
    const stop = new AbortController();
    const reflector = reflectorOf(kind, store);
    const informer: Informer = { served, customResource, kind, store, stop, reflector, isComplete: false };
    this.#informers.set(id, informer);
    this.#track(reflector.run(stop.signal));
    reflector.synced(stop.signal).then(
      () => {
        if (stop.signal.aborted) return;
        informer.isComplete = true;
        this.#notify();
      },
      () => undefined,
    );
  }

  /**
   * A definition has changed: informers of an API that is gone or has changed end, and start anew if they
   * can.
   */
  #definitionChanged(name: string): void {
    const definition = definitionIn(this.#options.caches, name);
    const ended = [...this.#informers].filter(
      ([, { served, customResource }]) =>
        served.name === name && !deepEqual(describeResource(definition, served.version), customResource),
    );
    // Users of a cache have to let go of it before it goes.
    for (const [id] of ended) this.#informers.delete(id);
    if (ended.length > 0) this.#notify();
    for (const [, informer] of ended) this.#release(informer, 'the definition has changed');
    this.#reconcile();
  }

  #release({ kind, store, stop }: Informer, why: string): void {
    stop.abort(new Error(why));
    this.#options.caches.remove(kind, store);
  }

  /** Lists once which tenants have objects. */
  #findLeftovers(name: string): void {
    const search: LeftoverList = {};
    this.#leftovers.set(name, search);
    const definition = definitionIn(this.#options.caches, name);
    const version = preferredVersion(definition === undefined ? [] : versionsOf(definition))?.name ?? '';
    const customResource = describeResource(definition, version);
    if (customResource === undefined) return;
    const signal = this.#signal;
    const searching = this.#options.client
      .list(customResource.resource, { labelSelector: labelKeys.tenant, signal })
      .then(
        ({ items }) => {
          const tenants = items.filter((object) => originalUid(object) !== undefined).map(tenantUidOf);
          // A list that began before `clear` is no longer in the map.
          search.tenants = new Set(tenants.filter((uid) => uid !== undefined));
          this.#notify();
        },
        () => {
          // The next question lists again.
          if (this.#leftovers.get(name) === search) this.#leftovers.delete(name);
        },
      );
    this.#track(searching);
  }

  #track(work: Promise<void>): void {
    const tracked = work.finally(() => this.#running.delete(tracked));
    this.#running.add(tracked);
  }

  #notify(): void {
    for (const listener of this.#listeners) listener();
  }
}

function idOf({ name, version }: CustomResourceVersion): string {
  return `${name}/${version}`;
}

/** Where kinds that come and go are synced: the engine. */
interface CustomKinds {
  /** Syncs one more kind for a tenant that has joined; its caches on both sides must be complete. */
  addKind(tenant: TenantState, custom: CustomKind): void;
  /** Looks at all objects of such a kind again. */
  requeueKind(tenant: TenantState, kind: string): void;
  /** Ends that at once: what is queued of this kind is dropped, and nothing of it is deleted. */
  removeKind(tenant: TenantState, kind: string): void;
}

interface TenantCustomResourcesOptions {
  state: TenantState;
  engine: CustomKinds;
  informers: CustomResourceInformers;
  superCaches: Caches;
  /** Fills a store from the tenant's API server. */
  reflector: (kind: DownKind, store: Store) => Reflector;
  /** On a clock that does not jump. */
  nowMs: () => number;
}

/** Why the objects of a definition are not synced although the tenant has opted in. */
export interface CustomResourceProblem {
  readonly name: string;
  readonly reason: string;
}

interface Plan {
  readonly served: CustomResourceVersion;
  /** UID of the tenant's copy of the definition. */
  readonly copyUid: string;
  /** False: what is left in the super cluster is to go. */
  readonly isWanted: boolean;
}

/** Objects of one definition that are watched in the tenant. */
interface Watched {
  plan: Plan;
  readonly kind: DownKind;
  readonly stop: AbortController;
  readonly store: Store;
  readonly reflector: Reflector;
}

/** A write that was under way when the tenant opted out has arrived by then. */
const drainedAfterMs = 35_000;

/**
 * Which custom resources are synced for one tenant: starts each when its definition is published, opted into
 * and served on both sides, and stops it when that ends. What is opted out of stays until nothing of it is left in
 * the super cluster. A problem with one does not affect the others.
 */
export class TenantCustomResources {
  readonly #options: TenantCustomResourcesOptions;
  readonly #watched = new Map<string, Watched>();
  /** Since when the super cluster has no object of a kind that is no longer wanted, by name of its definition. */
  readonly #drainedAtMs = new Map<string, number>();
  readonly #running = new Set<Promise<void>>();
  #problems: readonly CustomResourceProblem[] = [];
  /** Those without a problem, but for a server that may not answer for them. */
  #plans: ReadonlyMap<string, Plan> = new Map();
  #signal: AbortSignal | undefined;

  constructor(options: TenantCustomResourcesOptions) {
    this.#options = options;
  }

  /** Of those that the tenant has opted in to. */
  get problems(): readonly CustomResourceProblem[] {
    const unanswered = [...this.#plans]
      .filter(([, { isWanted }]) => isWanted)
      .flatMap(([name, { served }]): CustomResourceProblem[] => {
        if (this.#options.informers.kind(served) === undefined)
          return [
            { name, reason: `cannot be read in the super cluster (version ${served.version}), or not yet` },
          ];
        return this.#watched.get(name)?.reflector.hasSynced === true
          ? []
          : [{ name, reason: `cannot be read in the tenant (version ${served.version}), or not yet` }];
      });
    return [...this.#problems, ...unanswered];
  }

  /** Those that watch the tenant at this moment. */
  get reflectors(): readonly Reflector[] {
    return [...this.#watched.values()].map(({ reflector }) => reflector);
  }

  /** Works until aborted; rejects when a definition could not be read. The tenant has joined the engine. */
  async run(signal: AbortSignal): Promise<void> {
    const { state, informers, superCaches } = this.#options;
    this.#signal = signal;
    const failed = Promise.withResolvers<never>();
    failed.promise.catch(() => undefined);
    let isDue = false;
    // Once for all events of a turn, and not for definitions that are not published.
    const changed = ({ object }: StoreEvent): void => {
      if (isDue || !this.#concerns(object.metadata.name ?? '')) return;
      isDue = true;
      setImmediate(() => {
        isDue = false;
        // Definitions are the tenant's invention.
        try {
          this.reconcile();
        } catch (error) {
          failed.reject(error);
        }
      });
    };
    const definitions = resources.customResourceDefinitions;
    const unsubscribe = [
      informers.subscribe(() => this.reconcile()),
      state.caches.store(definitions).subscribe(changed),
      superCaches.store(definitions).subscribe(changed),
    ];
    try {
      this.reconcile();
      await Promise.race([untilAborted(signal), failed.promise]);
    } finally {
      for (const each of unsubscribe) each();
      for (const name of this.#watched.keys()) this.#stop(name);
      informers.release(state.info.uid);
      await Promise.all(this.#running);
    }
  }

  /** Whether anything depends on the definition of this name. */
  #concerns(name: string): boolean {
    const { state, superCaches } = this.#options;
    return (
      this.#watched.has(name) ||
      this.#plans.has(name) ||
      state.info.customResources.includes(name) ||
      isPublished(definitionIn(superCaches, name))
    );
  }

  /** Starts and stops kinds as settings and definitions demand. Call it from time to time, and when settings change. */
  reconcile(): void {
    if (this.#signal === undefined || this.#signal.aborted) return;
    const { state, informers, superCaches } = this.#options;
    const published = superCaches.byIndex(resources.customResourceDefinitions, 'byPublished', 'true');
    const names = new Set([
      ...state.info.customResources,
      ...this.#watched.keys(),
      ...published.map(({ metadata }) => metadata.name ?? ''),
    ]);
    const problems: CustomResourceProblem[] = [];
    const plans = new Map<string, Plan>();
    for (const name of names) {
      const plan = this.#planOf(name);
      if (plan === undefined) continue;
      if ('reason' in plan) problems.push(plan);
      else plans.set(name, plan);
    }
    this.#problems = problems;
    this.#plans = plans;
    for (const [name, watched] of this.#watched) {
      if (!isSame(watched, plans.get(name))) this.#stop(name);
    }
    informers.request(
      state.info.uid,
      [...plans.values()].map(({ served }) => served),
    );
    for (const [name, plan] of plans) {
      const kind = informers.kind(plan.served);
      const watched = this.#watched.get(name);
      if (watched?.kind !== kind) this.#stop(name);
      if (kind === undefined) continue;
      if (!this.#watched.has(name)) this.#watch(name, plan, kind);
      else if (watched !== undefined && watched.plan.isWanted !== plan.isWanted) {
        watched.plan = plan;
        this.#options.engine.requeueKind(state, kind.name);
      }
    }
  }

  /** What is to be watched of a definition; `undefined`: nothing, and the tenant has not asked for it. */
  #planOf(name: string): Plan | CustomResourceProblem | undefined {
    const { state, superCaches } = this.#options;
    const original = definitionIn(superCaches, name);
    const isOptedIn = state.info.customResources.includes(name);
    const isWanted = isOptedIn && isPublished(original);
    if (isWanted) this.#drainedAtMs.delete(name);
    else if (!this.#hasLeftovers(name, original)) {
      return isOptedIn ? { name, reason: 'is not published' } : undefined;
    }
    const because = (reason: string): CustomResourceProblem | undefined =>
      isOptedIn ? { name, reason } : undefined;
    if (original?.spec?.scope !== 'Namespaced') return because('is not namespaced');
    const copy = definitionIn(state.caches, name);
    if (copy !== undefined && originalUid(copy) === undefined) return because("is the tenant's own");
    if (copy?.metadata.uid === undefined || !isEstablished(copy)) return because('is not established yet');
    const version = commonVersion(original, copy);
    if (version === undefined) return because('has no version that both sides serve');
    return { served: { name, version }, copyUid: copy.metadata.uid, isWanted };
  }

  /** Whether the super cluster still has objects that are not wanted, or may get some from a write under way. */
  #hasLeftovers(name: string, original: Definition | undefined): boolean {
    const { state, superCaches, informers, nowMs } = this.#options;
    const { uid } = state.info;
    const watched = this.#watched.get(name);
    if (watched === undefined || informers.kind(watched.plan.served) !== watched.kind) {
      return isPublished(original) && informers.hasLeftovers(name, uid);
    }
    if (superCaches.of(watched.kind).byIndex(byTenantIndex, uid).length > 0) {
      this.#drainedAtMs.delete(name);
      return true;
    }
    const since = this.#drainedAtMs.get(name) ?? nowMs();
    this.#drainedAtMs.set(name, since);
    if (nowMs() - since < drainedAfterMs) return true;
    informers.clearLeftovers(name, uid);
    return false;
  }

  #watch(name: string, plan: Plan, kind: DownKind): void {
    const { state, engine } = this.#options;
    const store = state.caches.add(kind) as Store;
    const stop = new AbortController();
    const reflector = this.#options.reflector(kind, store);
    this.#watched.set(name, { plan, kind, stop, store, reflector });
    this.#drainedAtMs.delete(name);
    const running = reflector.run(stop.signal).finally(() => this.#running.delete(running));
    this.#running.add(running);
    const definition = new DefinitionGuard(state.client, name, plan.copyUid);
    reflector.synced(stop.signal).then(
      () => {
        if (!stop.signal.aborted) engine.addKind(state, { kind, definition });
      },
      () => undefined,
    );
  }

  #stop(name: string): void {
    const watched = this.#watched.get(name);
    if (watched === undefined) return;
    const { state, engine } = this.#options;
    this.#watched.delete(name);
    engine.removeKind(state, watched.kind.name);
    watched.stop.abort(new Error('this kind is watched no more'));
    state.caches.remove(watched.kind, watched.store);
  }
}

function isSame({ plan: present }: Watched, plan: Plan | undefined): boolean {
  return present.copyUid === plan?.copyUid && present.served.version === plan.served.version;
}

/** The version that objects are stored in where both sides serve it, else the best that they do. */
function commonVersion(original: Definition, copy: Definition): string | undefined {
  const common = versionsOf(original).filter(
    ({ name }) => describeResource(original, name) !== undefined && servedVersion(copy, name) !== undefined,
  );
  return preferredVersion(common)?.name;
}

/** How long a copy of a definition that still has objects is left alone. */
const lookAgainMs = 30_000;

/**
 * Keeps the copy of a definition as long as there are objects of it: the tenant's API server would delete them with
 * it.
 */
export const definitionGate: ActionGate = async (work, action) => {
  const { tenant, situation, kind, signal } = work;
  if (action.do !== 'deleteTenant' || situation.tenantObject === undefined) return action;
  const resource = servedResource(situation.tenantObject);
  if (resource === undefined || !(await hasObjects(tenant.client, resource, signal))) return action;
  const message = `this ${kind.resource.kind} is no longer offered as it is; it stays as long as there are objects of it, which would go with it`;
  await recordNotice(work, { type: 'Warning', reason: 'StillUsed', message });
  return { is: 'later', afterMs: lookAgainMs };
};

/** Whether a server has any objects of a resource. It has none of one that it does not serve. */
async function hasObjects(client: KubeClient, resource: Resource, signal: AbortSignal): Promise<boolean> {
  const list = await ignoreNotFound(client.list(resource, { limit: 1, signal }));
  return list !== undefined && list.items.length > 0;
}
