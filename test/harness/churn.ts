import { setTimeout as delay } from 'node:timers/promises';
import {
  ApiError,
  ConnectionError,
  type KubeClient,
  type KubeObject,
  type Resource,
  resources,
} from '../../kube/index.ts';
import { configMap, deployment, pod, service } from './manifests.ts';
import type { Tenant } from './world.ts';

interface ChurnOptions {
  tenant: Tenant;
  namespace: string;
  /** The same seed makes the same choices. */
  seed: number;
  /** Calls at once. */
  parallel?: number;
}

interface Sort {
  resource: Resource;
  make(namespace: string, name: string): KubeObject;
  /** Merge patch. */
  change(random: () => number): object;
}

const sorts: readonly Sort[] = [
  {
    resource: resources.pods,
    make: (namespace, name) => pod(namespace, name),
    change: (random) => ({ metadata: { labels: { turn: String(Math.floor(random() * 1e6)) } } }),
  },
  {
    resource: resources.configMaps,
    make: (namespace, name) => {
      const made = configMap(namespace, name, { turn: '0' });
      made.metadata.labels = { 'skerry.dev/sync': 'true' };
      return made;
    },
    change: (random) => ({ data: { turn: String(Math.floor(random() * 1e6)) } }),
  },
  {
    resource: resources.services,
    make: (namespace, name) => service(namespace, name),
    change: (random) => ({ spec: { sessionAffinity: random() < 0.5 ? 'ClientIP' : 'None' } }),
  },
  {
    resource: resources.deployments,
    make: (namespace, name) => deployment(namespace, name, 1),
    change: (random) => ({ spec: { replicas: Math.floor(random() * 4) } }),
  },
];

/** So few that each is made, changed and deleted again and again. */
const namesPerSort = 6;
/** While a server is away. */
const pauseMs = 100;

/** Load: objects of a tenant are made, changed and deleted at random until it is stopped. */
export class Churn {
  readonly #options: ChurnOptions;
  readonly #random: () => number;
  readonly #stop = new AbortController();
  readonly #workers: Promise<void>[];
  readonly #waiting = new Set<{ from: number; resolve: () => void }>();
  #done = 0;
  /** Anything but refusals that belong to the game and a server that is away. */
  #failure: unknown;

  constructor(options: ChurnOptions) {
    this.#options = options;
    this.#random = seeded(options.seed);
    this.#workers = Array.from({ length: options.parallel ?? 4 }, () => this.#work());
  }

  /** Writes that the API server has taken. */
  get done(): number {
    return this.#done;
  }

  /** Resolves after so many more writes. */
  more(writes: number): Promise<void> {
    return new Promise((resolve) => this.#waiting.add({ from: this.#done + writes, resolve }));
  }

  async stop(): Promise<void> {
    this.#stop.abort();
    await Promise.all(this.#workers);
    if (this.#failure !== undefined) throw this.#failure;
  }

  async #work(): Promise<void> {
    while (!this.#stop.signal.aborted) {
      try {
        await this.#write(this.#options.tenant.client);
        this.#count();
      } catch (error) {
        if (error instanceof ApiError && error.code < 500) continue;
        if (!(error instanceof ApiError) && !(error instanceof ConnectionError)) {
          this.#failure = error;
          return;
        }
        await delay(pauseMs);
      }
    }
  }

  async #write(client: KubeClient): Promise<void> {
    const random = this.#random;
    const sort = sorts[Math.floor(random() * sorts.length)] as Sort;
    const name = `churn-${Math.floor(random() * namesPerSort)}`;
    const ref = { namespace: this.#options.namespace, name };
    const dice = random();
    if (dice < 0.45) await client.create(sort.resource, sort.make(ref.namespace, name));
    else if (dice < 0.7) await client.patch(sort.resource, ref, sort.change(random), { type: 'merge' });
    else await client.delete(sort.resource, ref, { propagationPolicy: 'Background' });
  }

  #count(): void {
    this.#done += 1;
    for (const waiter of this.#waiting) {
      if (this.#done < waiter.from) continue;
      this.#waiting.delete(waiter);
      waiter.resolve();
    }
  }
}

/** A small generator of pseudo-random numbers (mulberry32): 0 to 1. */
export function seeded(seed: number): () => number {
  let state = seed >>> 0;
  return () => {
    state = (state + 0x6d2b79f5) >>> 0;
    let mixed = Math.imul(state ^ (state >>> 15), state | 1);
    mixed = (mixed + Math.imul(mixed ^ (mixed >>> 7), mixed | 61)) ^ mixed;
    return ((mixed ^ (mixed >>> 14)) >>> 0) / 4_294_967_296;
  };
}
