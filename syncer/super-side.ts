import {
  type Clock,
  type KubeClient,
  Reflector,
  type ReflectorProblem,
  type Resource,
} from '../kube/index.ts';
import { Caches, IdentityGuard, VersionHistory } from './engine/index.ts';
import type { SyncedKind } from './kinds/index.ts';
import { marks } from './mapping/index.ts';

export interface SuperSideOptions {
  client: KubeClient;
  kinds: readonly SyncedKind[];
  clock: Clock;
  onProblem: (kind: string, problem: ReflectorProblem) => void;
}

/** The caches of the super cluster, shared by all tenants: our own objects, and all of some kinds. */
export class SuperSide {
  readonly caches: Caches;
  /** Who the super cluster is: the first that this syncer saw. */
  readonly identity: IdentityGuard;
  readonly #client: KubeClient;
  readonly #history = new VersionHistory();
  readonly #reflectors: Reflector[];

  constructor(options: SuperSideOptions) {
    this.#client = options.client;
    this.identity = new IdentityGuard(options.client, undefined);
    this.caches = new Caches(options.kinds, 'super');
    this.#reflectors = options.kinds.map((kind) => {
      const all = kind.direction === 'up' && kind.superScope === 'all';
      return new Reflector({
        client: options.client,
        resource: kind.resource,
        store: this.caches.store(kind.resource),
        clock: options.clock,
        consistentStart: true,
        ...(all ? {} : { labelSelector: [marks.tenant, kind.selector?.super].filter(Boolean).join(',') }),
        beforeReplace: (_objects, version, signal) => this.#checkList(kind.resource, version, signal),
        onResourceVersion: (version) => this.#history.observe(kind.resource, version),
        onProblem: (problem) => options.onProblem(kind.name, problem),
      });
    });
  }

  get hasSynced(): boolean {
    return this.#reflectors.every((reflector) => reflector.hasSynced);
  }

  async synced(signal: AbortSignal): Promise<void> {
    await Promise.all(this.#reflectors.map((reflector) => reflector.synced(signal)));
  }

  async run(signal: AbortSignal): Promise<void> {
    await Promise.all(this.#reflectors.map((reflector) => reflector.run(signal)));
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
