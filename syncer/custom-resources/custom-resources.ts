import { type Reflector, resources, type Store } from '../../kube/index.ts';
import {
  byTenantIndex,
  type Caches,
  DefinitionGuard,
  type SyncEngine,
  type TenantState,
} from '../engine/index.ts';
import {
  type Definition,
  type DownKind,
  isEstablished,
  isPublished,
  preferredVersion,
  servedVersion,
  versionsOf,
} from '../kinds/index.ts';
import { uidMark } from '../mapping/index.ts';
import { definitionIn, describe } from './described.ts';
import type { FollowedKinds, Wish } from './followed-kinds.ts';

export interface CustomResourcesOptions {
  state: TenantState;
  engine: Pick<SyncEngine, 'takeUp' | 'requeueKind' | 'drop'>;
  followed: FollowedKinds;
  superCaches: Caches;
  /** Fills a store from the tenant's API server. */
  reflector: (kind: DownKind, store: Store) => Reflector;
  /** On a clock that does not jump. */
  nowMs: () => number;
}

/** Why the objects of a definition are not synced although the tenant has opted in. */
export interface Problem {
  readonly name: string;
  readonly reason: string;
}

interface Plan {
  readonly wish: Wish;
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
 * Which custom resources are synced for one tenant: takes each up when its definition is published, opted into
 * and served on both sides, and drops it when that ends. What is opted out of stays until nothing of it is left in
 * the super cluster. One that is in trouble holds no other up.
 */
export class CustomResources {
  readonly #options: CustomResourcesOptions;
  readonly #watched = new Map<string, Watched>();
  /** Since when nothing is left of what is not wanted any more, by name of its definition. */
  readonly #drainedAtMs = new Map<string, number>();
  readonly #running = new Set<Promise<void>>();
  #problems: readonly Problem[] = [];
  /** Those that nothing stands in the way of, but perhaps a server that does not answer for them. */
  #plans: ReadonlyMap<string, Plan> = new Map();
  #signal: AbortSignal | undefined;

  constructor(options: CustomResourcesOptions) {
    this.#options = options;
  }

  /** Of those that the tenant has opted in to. */
  get problems(): readonly Problem[] {
    const unanswered = [...this.#plans]
      .filter(([, { isWanted }]) => isWanted)
      .flatMap(([name, { wish }]): Problem[] => {
        if (this.#options.followed.kind(wish) === undefined)
          return [
            { name, reason: `cannot be read in the super cluster (version ${wish.version}), or not yet` },
          ];
        return this.#watched.get(name)?.reflector.hasSynced === true
          ? []
          : [{ name, reason: `cannot be read in the tenant (version ${wish.version}), or not yet` }];
      });
    return [...this.#problems, ...unanswered];
  }

  /** Those that watch the tenant at this moment. */
  get reflectors(): readonly Reflector[] {
    return [...this.#watched.values()].map(({ reflector }) => reflector);
  }

  /** Works until aborted. The tenant has joined the engine. */
  async run(signal: AbortSignal): Promise<void> {
    const { state, followed, superCaches } = this.#options;
    this.#signal = signal;
    const look = (): void => this.look();
    const definitions = resources.customResourceDefinitions;
    const unsubscribe = [
      followed.subscribe(look),
      state.caches.store(definitions).subscribe(look),
      superCaches.store(definitions).subscribe(look),
    ];
    this.look();
    if (!signal.aborted) {
      await new Promise((resolve) => signal.addEventListener('abort', resolve, { once: true }));
    }
    for (const each of unsubscribe) each();
    for (const name of this.#watched.keys()) this.#drop(name);
    followed.forget(state.info.uid);
    await Promise.all(this.#running);
  }

  /** Looks at what is wanted and what is there; to be called from time to time, and when settings have changed. */
  look(): void {
    if (this.#signal === undefined || this.#signal.aborted) return;
    const { state, followed, superCaches } = this.#options;
    const published = superCaches.byIndex(resources.customResourceDefinitions, 'byPublished', 'true');
    const names = new Set([
      ...state.info.customResources,
      ...this.#watched.keys(),
      ...published.map(({ metadata }) => metadata.name ?? ''),
    ]);
    const problems: Problem[] = [];
    const plans = new Map<string, Plan>();
    for (const name of names) {
      const plan = this.#plan(name);
      if (plan === undefined) continue;
      if ('reason' in plan) problems.push(plan);
      else plans.set(name, plan);
    }
    this.#problems = problems;
    this.#plans = plans;
    for (const [name, watched] of this.#watched) {
      if (!isSame(watched, plans.get(name))) this.#drop(name);
    }
    followed.want(
      state.info.uid,
      [...plans.values()].map(({ wish }) => wish),
    );
    for (const [name, plan] of plans) {
      const kind = followed.kind(plan.wish);
      const watched = this.#watched.get(name);
      if (watched?.kind !== kind) this.#drop(name);
      if (kind === undefined) continue;
      if (!this.#watched.has(name)) this.#watch(name, plan, kind);
      else if (watched !== undefined && watched.plan.isWanted !== plan.isWanted) {
        watched.plan = plan;
        this.#options.engine.requeueKind(state, kind.name);
      }
    }
  }

  /** What is to be watched of a definition; `undefined`: nothing, and nobody has asked for it. */
  #plan(name: string): Plan | Problem | undefined {
    const { state, superCaches } = this.#options;
    const original = definitionIn(superCaches, name);
    const isOptedIn = state.info.customResources.includes(name);
    const isWanted = isOptedIn && isPublished(original);
    if (isWanted) this.#drainedAtMs.delete(name);
    else if (!this.#hasLeft(name, original)) {
      return isOptedIn ? { name, reason: 'is not published' } : undefined;
    }
    const because = (reason: string): Problem | undefined => (isOptedIn ? { name, reason } : undefined);
    if (original?.spec?.scope !== 'Namespaced') return because('is not namespaced');
    const copy = definitionIn(state.caches, name);
    if (copy !== undefined && uidMark(copy) === undefined) return because("is the tenant's own");
    if (copy?.metadata.uid === undefined || !isEstablished(copy)) return because('is not established yet');
    const version = commonVersion(original, copy);
    if (version === undefined) return because('has no version that both sides serve');
    return { wish: { name, version }, copyUid: copy.metadata.uid, isWanted };
  }

  /** Whether anything that is not wanted is in the super cluster yet, or may come there. */
  #hasLeft(name: string, original: Definition | undefined): boolean {
    const { state, superCaches, followed, nowMs } = this.#options;
    const { uid } = state.info;
    const watched = this.#watched.get(name);
    if (watched === undefined || followed.kind(watched.plan.wish) !== watched.kind) {
      return isPublished(original) && followed.hasLeft(name, uid);
    }
    if (superCaches.of(watched.kind).byIndex(byTenantIndex, uid).length > 0) {
      this.#drainedAtMs.delete(name);
      return true;
    }
    const since = this.#drainedAtMs.get(name) ?? nowMs();
    this.#drainedAtMs.set(name, since);
    if (nowMs() - since < drainedAfterMs) return true;
    followed.forgetLeft(name, uid);
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
        if (!stop.signal.aborted) engine.takeUp(state, { kind, definition });
      },
      () => undefined,
    );
  }

  #drop(name: string): void {
    const watched = this.#watched.get(name);
    if (watched === undefined) return;
    const { state, engine } = this.#options;
    this.#watched.delete(name);
    engine.drop(state, watched.kind.name);
    watched.stop.abort(new Error('this kind is watched no more'));
    state.caches.remove(watched.kind, watched.store);
  }
}

function isSame({ plan: present }: Watched, plan: Plan | undefined): boolean {
  return present.copyUid === plan?.copyUid && present.wish.version === plan.wish.version;
}

/** The version that objects are stored in where both sides serve it, else the best that they do. */
function commonVersion(original: Definition, copy: Definition): string | undefined {
  const common = versionsOf(original).filter(
    ({ name }) => describe(original, name) !== undefined && servedVersion(copy, name) !== undefined,
  );
  return preferredVersion(common)?.name;
}
