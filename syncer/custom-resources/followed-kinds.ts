import { deepEqual } from 'fast-equals';
import { labelKeys } from '../../api/labels.ts';
import { type KubeClient, type Reflector, resources, type Store } from '../../kube/index.ts';
import type { Caches } from '../engine/index.ts';
import {
  type CustomResource,
  customResourceKind,
  type DownKind,
  preferredVersion,
  versionsOf,
} from '../kinds/index.ts';
import { tenantUidOf, uidMark } from '../mapping/index.ts';
import { definitionIn, describe } from './described.ts';

export interface FollowedKindsOptions {
  client: KubeClient;
  /** Of the super cluster. */
  caches: Caches;
  /** Fills a store with the objects of a kind that carry a tenant's mark. */
  reflector: (kind: DownKind, store: Store) => Reflector;
}

/** Objects of one definition in one version. */
export interface Wish {
  /** Of the definition. */
  readonly name: string;
  readonly version: string;
}

/** A list of a definition's objects, asked for or answered. */
interface Search {
  /** Those that have some. */
  tenants?: ReadonlySet<string>;
}

interface Followed {
  readonly wish: Wish;
  readonly customResource: CustomResource;
  readonly kind: DownKind;
  readonly store: Store;
  readonly stop: AbortController;
  readonly reflector: Reflector;
  isComplete: boolean;
}

/**
 * The custom resources that are followed in the super cluster, each as long as a tenant wants it. One that
 * cannot be followed is nobody else's problem.
 */
export class FollowedKinds {
  readonly #options: FollowedKindsOptions;
  readonly #wishes = new Map<string, readonly Wish[]>();
  readonly #followed = new Map<string, Followed>();
  /** What tenants have of a definition in the super cluster, by its name. */
  readonly #left = new Map<string, Search>();
  readonly #running = new Set<Promise<void>>();
  #listeners: readonly (() => void)[] = [];
  #signal: AbortSignal | undefined;

  constructor(options: FollowedKindsOptions) {
    this.#options = options;
  }

  /** Those that watch the super cluster at this moment. */
  get reflectors(): readonly Reflector[] {
    return [...this.#followed.values()].map(({ reflector }) => reflector);
  }

  /** Works until aborted. The cache of definitions must be complete. */
  async run(signal: AbortSignal): Promise<void> {
    this.#signal = signal;
    const definitions = this.#options.caches.store(resources.customResourceDefinitions);
    const unsubscribe = definitions.subscribe(({ object }) => this.#redefined(object.metadata.name ?? ''));
    this.#agree();
    if (!signal.aborted) {
      await new Promise((resolve) => signal.addEventListener('abort', resolve, { once: true }));
    }
    unsubscribe();
    for (const followed of this.#followed.values()) followed.stop.abort(signal.reason);
    await Promise.all(this.#running);
  }

  /** Called when a kind has become complete or has ended. Returns how to stop that. */
  subscribe(listener: () => void): () => void {
    this.#listeners = [...this.#listeners, listener];
    return () => {
      this.#listeners = this.#listeners.filter((each) => each !== listener);
    };
  }

  /** All that a tenant wants from now on. It has let go of everything else. */
  want(tenant: string, wishes: readonly Wish[]): void {
    // Another replica may have served it since what is left behind was looked for.
    if (!this.#wishes.has(tenant)) this.#left.clear();
    this.#wishes.set(tenant, wishes);
    this.#agree();
  }

  /** The tenant is served no more; what it leaves behind is looked for anew when it comes back. */
  forget(tenant: string): void {
    this.#wishes.delete(tenant);
    this.#left.clear();
    this.#agree();
  }

  /** The kind of these objects, once the cache holds all of them. */
  kind(wish: Wish): DownKind | undefined {
    const followed = this.#followed.get(idOf(wish));
    return followed?.isComplete === true ? followed.kind : undefined;
  }

  /** Whether a tenant has objects of this definition in the super cluster from before; finds out first. */
  hasLeft(name: string, tenant: string): boolean {
    if (!this.#left.has(name)) this.#search(name);
    return this.#left.get(name)?.tenants?.has(tenant) === true;
  }

  /** Nothing of it is left. */
  forgetLeft(name: string, tenant: string): void {
    const search = this.#left.get(name);
    if (search?.tenants?.has(tenant) === true)
      search.tenants = new Set([...search.tenants].filter((uid) => uid !== tenant));
  }

  /** Starts what is wanted and ends what nobody wants any more. */
  #agree(): void {
    if (this.#signal === undefined || this.#signal.aborted) return;
    const wanted = new Map([...this.#wishes.values()].flat().map((wish) => [idOf(wish), wish]));
    for (const [id, followed] of this.#followed) {
      if (wanted.has(id)) continue;
      this.#followed.delete(id);
      this.#release(followed, 'no tenant wants this kind any more');
    }
    for (const [id, wish] of wanted) if (!this.#followed.has(id)) this.#start(id, wish);
  }

  #start(id: string, wish: Wish): void {
    const { caches, reflector: reflectorOf } = this.#options;
    const customResource = describe(definitionIn(caches, wish.name), wish.version);
    if (customResource === undefined) return;
    const kind = customResourceKind(customResource);
    const store = caches.add(kind) as Store;
    const stop = new AbortController();
    const reflector = reflectorOf(kind, store);
    const followed: Followed = { wish, customResource, kind, store, stop, reflector, isComplete: false };
    this.#followed.set(id, followed);
    this.#track(reflector.run(stop.signal));
    reflector.synced(stop.signal).then(
      () => {
        if (stop.signal.aborted) return;
        followed.isComplete = true;
        this.#tell();
      },
      () => undefined,
    );
  }

  /** A definition has changed: what is followed by an API that is gone or another by now ends, and begins anew if it can. */
  #redefined(name: string): void {
    const definition = definitionIn(this.#options.caches, name);
    const ended = [...this.#followed].filter(
      ([, { wish, customResource }]) =>
        wish.name === name && !deepEqual(describe(definition, wish.version), customResource),
    );
    // Whoever uses a cache has to let go of it before it does.
    for (const [id] of ended) this.#followed.delete(id);
    if (ended.length > 0) this.#tell();
    for (const [, followed] of ended) this.#release(followed, 'the definition has changed');
    this.#agree();
  }

  #release({ kind, store, stop }: Followed, why: string): void {
    stop.abort(new Error(why));
    this.#options.caches.remove(kind, store);
  }

  /** Lists, once, whose objects there are. */
  #search(name: string): void {
    const search: Search = {};
    this.#left.set(name, search);
    const definition = definitionIn(this.#options.caches, name);
    const version = preferredVersion(definition === undefined ? [] : versionsOf(definition))?.name ?? '';
    const customResource = describe(definition, version);
    if (customResource === undefined) return;
    const signal = this.#signal;
    const searching = this.#options.client
      .list(customResource.resource, { labelSelector: labelKeys.tenant, ...(signal && { signal }) })
      .then(
        ({ items }) => {
          const tenants = items.filter((object) => uidMark(object) !== undefined).map(tenantUidOf);
          // One that was begun before it was forgotten is no longer in the map.
          search.tenants = new Set(tenants.filter((uid) => uid !== undefined));
          this.#tell();
        },
        () => {
          // Whoever asks next has it looked for again.
          if (this.#left.get(name) === search) this.#left.delete(name);
        },
      );
    this.#track(searching);
  }

  #track(work: Promise<void>): void {
    const tracked = work.finally(() => this.#running.delete(tracked));
    this.#running.add(tracked);
  }

  #tell(): void {
    for (const listener of this.#listeners) listener();
  }
}

function idOf({ name, version }: Wish): string {
  return `${name}/${version}`;
}
