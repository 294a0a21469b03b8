import { labelKeys } from '../api/labels.ts';
import {
  type Clock,
  type KubeClient,
  onAbort,
  Reflector,
  type ReflectorProblem,
  type Resource,
  type Store,
} from '../kube/index.ts';
import { CustomResourceInformers } from './controllers/custom-resources.ts';
import { superWatches } from './controllers/registry.ts';
import type { SyncedKind } from './kinds/contract.ts';
import { hasKnownFields } from './kinds/registry.ts';
import { Caches, type SuperWatch } from './reconcile/caches.ts';
import { IdentityGuard, VersionHistory } from './reconcile/guards.ts';
import { relistInTurn, runPeriodically } from './reconcile/resync.ts';

export interface SuperSideOptions {
  client: KubeClient;
  kinds: readonly SyncedKind[];
  clock: Clock;
  onProblem: (kind: string, problem: ReflectorProblem) => void;
  /** 0 to 1; default Math.random. */
  random?: () => number;
  /** True: objects of tenants are followed from the first `cover` on. Default: those of all tenants at once. */
  waitsForScope?: boolean;
}

type FollowedResource = Pick<SuperWatch, 'name' | 'resource' | 'superScope' | 'selector'> & {
  readonly cutManagedFields: boolean;
  /** See ReflectorOptions. */
  readonly watchesMetadataOnly?: boolean;
};

/** Of which buckets the objects are followed. */
export type SuperScope = 'all' | ReadonlySet<number>;

/** One kind each time, in turns. */
const listAfreshEveryMs = 5 * 60_000;
/** Custom resources that cannot be listed delay the start no longer than this. */
const customWithinMs = 5_000;

/** The caches of the super cluster, shared by all tenants: our own objects, and all of some kinds. */
export class SuperSide {
  readonly caches: Caches;
  /** Kinds that are followed as long as a tenant wants them; the start does not wait for these. */
  readonly customResources: CustomResourceInformers;
  /** Of the super cluster that this syncer saw first. */
  readonly identity: IdentityGuard;
  readonly #client: KubeClient;
  readonly #history = new VersionHistory();
  readonly #reflectors: readonly Reflector[];
  /** Those that follow the objects of some tenants only, and what else their selectors ask for. */
  readonly #narrow = new Map<Reflector, string | undefined>();
  readonly #scoped = Promise.withResolvers<void>();
  #scope: SuperScope = 'all';
  #hasSynced = false;
  readonly #rounds: { readonly everyMs: number; readonly clock: Clock; readonly random: () => number };

  constructor(options: SuperSideOptions) {
    this.#rounds = {
      everyMs: listAfreshEveryMs,
      clock: options.clock,
      random: options.random ?? Math.random,
    };
    this.#client = options.client;
    this.identity = new IdentityGuard(options.client, undefined);
    this.caches = new Caches(options.kinds, 'super', superWatches);
    if (options.waitsForScope !== true) this.#scoped.resolve();
    const reflector = (watch: FollowedResource, store: Store): Reflector => {
      const { name, resource, superScope, selector: own } = watch;
      const made = new Reflector({
        client: options.client,
        resource,
        store,
        clock: options.clock,
        consistentStart: true,
        cutManagedFields: watch.cutManagedFields,
        watchesMetadataOnly: watch.watchesMetadataOnly === true,
        labelSelector: { all: undefined, allTenants: labelKeys.tenant, marked: this.#selector(own) }[
          superScope
        ],
        beforeReplace: (_objects, version, signal) => this.#checkList(resource, version, signal),
        onResourceVersion: (version) => this.#history.observe(resource, version),
        onProblem: (problem) => options.onProblem(name, problem),
      });
      if (superScope === 'marked') this.#narrow.set(made, own);
      return made;
    };
    this.#reflectors = [
      ...options.kinds.map((kind) => reflector(followed(kind), this.caches.of(kind))),
      ...superWatches.map((watch) =>
        reflector({ ...watch, cutManagedFields: true }, this.caches.watched(watch.name)),
      ),
    ];
    this.customResources = new CustomResourceInformers({
      client: options.client,
      caches: this.caches,
      reflector: (kind, store) => reflector(followed(kind), store),
    });
  }

  /** Whether the caches have been complete once. */
  get hasSynced(): boolean {
    this.#hasSynced ||= this.#reflectors.every((reflector) => reflector.hasSynced);
    return this.#hasSynced;
  }

  async synced(signal: AbortSignal): Promise<void> {
    await Promise.all(this.#reflectors.map((reflector) => reflector.synced(signal)));
  }

  /**
   * Follows the objects of these buckets and of no others from now on; resolves when the caches hold them. What goes
   * from the caches with its bucket is reported like what has gone, so its tenant must not be served any more.
   */
  async cover(scope: SuperScope, signal: AbortSignal): Promise<void> {
    this.#scope = scope;
    const followed = this.customResources.reflectors;
    for (const reflector of this.#narrow.keys()) {
      // Of custom resources, those that have ended are of no interest any more.
      if (!this.#reflectors.includes(reflector) && !followed.includes(reflector))
        this.#narrow.delete(reflector);
    }
    const custom = followed.filter((reflector) => reflector.hasSynced);
    for (const [reflector, own] of this.#narrow) reflector.setLabelSelector(this.#selector(own));
    this.#scoped.resolve();
    await this.synced(signal);
    const patience = AbortSignal.any([signal, AbortSignal.timeout(customWithinMs)]);
    await Promise.allSettled(custom.map((reflector) => reflector.synced(patience)));
  }

  async run(signal: AbortSignal): Promise<void> {
    const all = (): readonly Reflector[] => [...this.#reflectors, ...this.customResources.reflectors];
    const listAfresh = relistInTurn(all, this.#rounds.random);
    const rounds = runPeriodically(this.#rounds, signal, listAfresh).catch((error: unknown) => {
      if (!signal.aborted) throw error;
    });
    const followed = this.synced(signal).then(
      () => this.customResources.run(signal),
      () => undefined,
    );
    onAbort(signal, () => this.#scoped.resolve());
    const reflecting = this.#reflectors.map(async (reflector) => {
      if (this.#narrow.has(reflector)) await this.#scoped.promise;
      await reflector.run(signal);
    });
    await Promise.all([rounds, followed, ...reflecting]);
  }

  #selector(own: string | undefined): string {
    const buckets = this.#scope === 'all' ? undefined : [...this.#scope].toSorted((a, b) => a - b);
    const inScope = buckets && `${labelKeys.bucket} in (${buckets.length === 0 ? 'none' : buckets.join()})`;
    return [labelKeys.tenant, inScope, own].filter(Boolean).join();
  }

  /**
   * Before a list replaces what the cache holds: throws if it is not from this super cluster as it is now (sync rule
   * `side-identity`).
   */
  async #checkList(resource: Resource, version: string, signal: AbortSignal): Promise<void> {
    if (!(await this.identity.verify())) {
      throw new Error(
        this.identity.distrusted ?? 'the super cluster is not the one that this syncer started with',
      );
    }
    const back = await this.#history.regression(this.#client, resource, version, signal);
    if (back === undefined) return;
    this.identity.distrust(
      `the super cluster shows ${back.resource} that are older (resourceVersion ${back.now}) than what it has shown before (${back.shown})`,
    );
    throw new Error(this.identity.distrusted);
  }
}

/** What is followed of a kind in the super cluster. */
function followed(kind: SyncedKind): FollowedResource {
  return {
    name: kind.name,
    resource: kind.resource,
    superScope: kind.direction === 'up' ? 'all' : kind.ofAllTenants === true ? 'allTenants' : 'marked',
    cutManagedFields: hasKnownFields(kind),
    watchesMetadataOnly: kind.direction === 'down' && kind.payload !== undefined,
    selector: kind.selector?.super,
  };
}
