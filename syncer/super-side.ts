import {
  type Clock,
  type KubeClient,
  Reflector,
  type ReflectorProblem,
  type Resource,
  type Store,
} from '../kube/index.ts';
import { FollowedKinds } from './custom-resources/index.ts';
import { Caches, freshListsOf, IdentityGuard, inRounds, VersionHistory } from './engine/index.ts';
import { type SyncedKind, superResourceOf } from './kinds/index.ts';
import { marks } from './mapping/index.ts';

export interface SuperSideOptions {
  client: KubeClient;
  kinds: readonly SyncedKind[];
  clock: Clock;
  onProblem: (kind: string, problem: ReflectorProblem) => void;
  /** 0 to 1; default Math.random. */
  random?: () => number;
}

/** One kind each time, in turns. */
const listAfreshEveryMs = 5 * 60_000;

/** The caches of the super cluster, shared by all tenants: our own objects, and all of some kinds. */
export class SuperSide {
  readonly caches: Caches;
  /** Kinds that are followed as long as a tenant wants them; nobody waits for these. */
  readonly followed: FollowedKinds;
  /** Who the super cluster is: the first that this syncer saw. */
  readonly identity: IdentityGuard;
  readonly #client: KubeClient;
  readonly #history = new VersionHistory();
  readonly #reflectors: Reflector[];
  readonly #rounds: { readonly everyMs: number; readonly clock: Clock; readonly random: () => number };

  constructor(options: SuperSideOptions) {
    this.#rounds = {
      everyMs: listAfreshEveryMs,
      clock: options.clock,
      random: options.random ?? Math.random,
    };
    this.#client = options.client;
    this.identity = new IdentityGuard(options.client, undefined);
    this.caches = new Caches(options.kinds, 'super');
    const reflector = (kind: SyncedKind, store: Store): Reflector => {
      const all = kind.direction === 'up' && kind.superScope === 'all';
      return new Reflector({
        client: options.client,
        resource: superResourceOf(kind),
        store,
        clock: options.clock,
        consistentStart: true,
        ...(all ? {} : { labelSelector: [marks.tenant, kind.selector?.super].filter(Boolean).join(',') }),
        beforeReplace: (_objects, version, signal) => this.#checkList(superResourceOf(kind), version, signal),
        onResourceVersion: (version) => this.#history.observe(superResourceOf(kind), version),
        onProblem: (problem) => options.onProblem(kind.name, problem),
      });
    };
    this.#reflectors = options.kinds.map((kind) => reflector(kind, this.caches.of(kind)));
    this.followed = new FollowedKinds({ client: options.client, caches: this.caches, reflector });
  }

  get hasSynced(): boolean {
    return this.#reflectors.every((reflector) => reflector.hasSynced);
  }

  async synced(signal: AbortSignal): Promise<void> {
    await Promise.all(this.#reflectors.map((reflector) => reflector.synced(signal)));
  }

  async run(signal: AbortSignal): Promise<void> {
    const all = (): readonly Reflector[] => [...this.#reflectors, ...this.followed.reflectors];
    const listAfresh = freshListsOf(all, this.#rounds.random);
    const rounds = inRounds(this.#rounds, signal, listAfresh).catch((error: unknown) => {
      if (!signal.aborted) throw error;
    });
    const followed = this.synced(signal).then(
      () => this.followed.run(signal),
      () => undefined,
    );
    await Promise.all([rounds, followed, ...this.#reflectors.map((reflector) => reflector.run(signal))]);
  }

  /** Before a list replaces what the cache holds: throws if it is not from this super cluster as it is now (sync rule 0 A). */
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
