import { type Clock, type KubeClient, Reflector, type ReflectorProblem } from '../kube/index.ts';
import { Caches } from './engine/index.ts';
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
  readonly #reflectors: Reflector[];

  constructor(options: SuperSideOptions) {
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
}
