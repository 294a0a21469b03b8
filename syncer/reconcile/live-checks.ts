import type { KubeClient, KubeObject, Resource } from '../../kube/index.ts';

/** How many looks a tenant has at once, and how many more with each second. */
const burst = 1_000;
const perSecond = 50;

/**
 * How often the super cluster is asked live for what an object of a tenant says it is a copy of: the tenant can write such
 * objects at will.
 */
export class LiveCheckBudget {
  readonly #nowMs: () => number;
  #left = burst;
  #atMs: number;

  constructor(nowMs: () => number) {
    this.#nowMs = nowMs;
    this.#atMs = nowMs();
  }

  /** Takes one look; false: there is none left at the moment. */
  take(): boolean {
    const nowMs = this.#nowMs();
    // Clocks may be set back.
    const passedMs = Math.max(0, nowMs - this.#atMs);
    this.#left = Math.min(burst, this.#left + (passedMs * perSecond) / 1_000);
    this.#atMs = nowMs;
    if (this.#left < 1) return false;
    this.#left -= 1;
    return true;
  }
}

/** A list is good for that long. What is searched for is older than its copy, and so than a list that lacks it. */
const listTtlMs = 2_000;

interface List {
  readonly atMs: number;
  readonly objects: Promise<readonly KubeObject[]>;
}

/** What a server has of a resource, as metadata, asked for once for all searches at about the same time. */
export class SharedLists {
  readonly #client: KubeClient;
  readonly #lists = new Map<Resource, List>();

  constructor(client: KubeClient) {
    this.#client = client;
  }

  /** Throws what the client throws. */
  of(resource: Resource, nowMs: number): Promise<readonly KubeObject[]> {
    const present = this.#lists.get(resource);
    if (present !== undefined && Math.abs(nowMs - present.atMs) < listTtlMs) return present.objects;
    const objects = this.#client.list(resource, { metadataOnly: true }).then(({ items }) => items);
    const list: List = { atMs: nowMs, objects };
    this.#lists.set(resource, list);
    objects.catch(() => {
      if (this.#lists.get(resource) === list) this.#lists.delete(resource);
    });
    return objects;
  }
}
