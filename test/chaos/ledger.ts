import { setTimeout as delay } from 'node:timers/promises';
import type { VirtualCluster } from '../../api/virtual-cluster.ts';
import { ApiError, ConnectionError, type KubeObject, type Resource, resources } from '../../kube/index.ts';
import { seeded } from '../harness/churn.ts';
import { type Footprint, footprint, noFootprint, type Traces } from '../harness/footprint.ts';
import { configMap, pod, service } from '../harness/manifests.ts';
import { poll } from '../harness/poll.ts';
import type { Tenant, World } from '../harness/world.ts';

interface Entry {
  readonly resource: Resource;
  readonly name: string;
  /** Of the object whose creation the API server has confirmed. */
  readonly uid: string;
  /** `asked`: nobody knows whether the delete was carried out. */
  state: 'there' | 'asked' | 'gone';
}

const sorts: readonly { resource: Resource; make: (namespace: string, name: string) => KubeObject }[] = [
  { resource: resources.pods, make: (namespace, name) => pod(namespace, name) },
  { resource: resources.services, make: (namespace, name) => service(namespace, name) },
  {
    resource: resources.configMaps,
    make: (namespace, name) => {
      const made = configMap(namespace, name, { kept: 'yes' });
      made.metadata.labels = { 'skerry.dev/sync': 'true' };
      return made;
    },
  },
];

const betweenMs = 250;
const keptAtOnce = 60;
const goneTimeoutMs = 120_000;

/**
 * Makes objects of names that are used once and deletes some of them, keeping book of what the tenant's API
 * server has confirmed: what it said to be there has to be there in the end, as the same object.
 */
export class Ledger {
  readonly #tenant: Tenant;
  readonly #namespace: string;
  readonly #random: () => number;
  readonly #entries: Entry[] = [];
  readonly #stop = new AbortController();
  readonly #running: Promise<void>;
  #failure: unknown;

  constructor(options: { tenant: Tenant; namespace: string; seed: number }) {
    this.#tenant = options.tenant;
    this.#namespace = options.namespace;
    this.#random = seeded(options.seed);
    this.#running = this.#run();
  }

  /** Confirmed creations. */
  get size(): number {
    return this.#entries.length;
  }

  async stop(): Promise<void> {
    this.#stop.abort();
    await this.#running;
    if (this.#failure !== undefined) throw this.#failure;
  }

  /** What the tenant's API server has forgotten, replaced or not deleted; what is on its way out is waited for. */
  async discrepancies(): Promise<string[]> {
    const found: string[] = [];
    for (const { resource } of sorts) {
      const namespace = this.#namespace;
      const left = await this.#tenant
        .until(
          { resource, namespace, timeoutMs: goneTimeoutMs, what: 'what is being deleted to go' },
          (all) => all.every(({ metadata }) => metadata.deletionTimestamp === undefined),
        )
        .catch((error: unknown) => error);
      if (left instanceof Error) found.push(left.message);
      const { items } = await this.#tenant.client.list(resource, { namespace });
      const uids = new Map(items.map(({ metadata }) => [metadata.name, metadata.uid]));
      for (const entry of this.#entries.filter((each) => each.resource === resource)) {
        const what = `${this.#tenant.name}: ${resource.kind} ${entry.name}`;
        const uid = uids.get(entry.name);
        if (entry.state === 'there' && uid === undefined) found.push(`${what} is lost`);
        if (entry.state === 'gone' && uid !== undefined) found.push(`${what} was deleted and is there`);
        if (uid !== undefined && uid !== entry.uid) found.push(`${what} is another object than before`);
      }
    }
    return found;
  }

  async #run(): Promise<void> {
    for (let turn = 0; !this.#stop.signal.aborted; turn++) {
      try {
        await this.#write(`kept-${turn}`);
      } catch (error) {
        this.#failure = error;
        return;
      }
      await delay(betweenMs);
    }
  }

  async #write(name: string): Promise<void> {
    const { client } = this.#tenant;
    const there = this.#entries.filter(({ state }) => state === 'there');
    if (there.length >= keptAtOnce || (there.length > 0 && this.#random() < 0.35)) {
      const entry = there[Math.floor(this.#random() * there.length)] as Entry;
      entry.state = 'asked';
      const ref = { namespace: this.#namespace, name: entry.name };
      if (await confirmed(client.delete(entry.resource, ref, { uid: entry.uid }).then(() => true)))
        entry.state = 'gone';
      return;
    }
    const { resource, make } = sorts[Math.floor(this.#random() * sorts.length)] as (typeof sorts)[number];
    const created = await confirmed(client.create(resource, make(this.#namespace, name)));
    const uid = created?.metadata.uid;
    if (uid !== undefined) this.#entries.push({ resource, name, uid, state: 'there' });
  }
}

/**
 * Undefined when it is not known to have been carried out. Even a refusal proves nothing while servers come and
 * go: one that has just begun does not know its roles, and one without its datastore calls a Service invalid.
 */
async function confirmed<T>(call: Promise<T>): Promise<T | undefined> {
  try {
    return await call;
  } catch (error) {
    if (error instanceof ApiError || error instanceof ConnectionError) return undefined;
    throw error;
  }
}

const lifeMs = 12_000;
const tenantPauseMs = 8_000;
const retryMs = 500;
/** How long after the faults the last steps may still fail. */
const lastTriesMs = 60_000;
const tenantGoneTimeoutMs = 180_000;

/** Tenants that come and go, whatever happens around them: of none of them anything may be left. */
export class ShortLivedTenants {
  readonly #world: World;
  readonly #stop = new AbortController();
  readonly #traces = new Map<string, Traces>();
  readonly #running: Promise<void>;
  #repeats = 0;
  /** On the monotonic clock: when a step that fails is not tried again. */
  #lastTryMs = Number.POSITIVE_INFINITY;

  constructor(world: World) {
    this.#world = world;
    this.#running = this.#run();
  }

  get size(): number {
    return this.#traces.size;
  }

  /** How often a step was tried again. */
  get repeats(): number {
    return this.#repeats;
  }

  /** The faults are over. The last tenant is deleted; rejects when that goes on failing. */
  async stop(): Promise<void> {
    this.#lastTryMs = performance.now() + lastTriesMs;
    this.#stop.abort();
    await this.#running;
  }

  /** Waits for the last of them to go; resolves to what remains of any. */
  async remains(): Promise<string[]> {
    const found: string[] = [];
    for (const traces of this.#traces.values()) {
      await poll(
        `VirtualCluster ${traces.name} to go`,
        async () => (await this.#find(traces.name)) === undefined,
        { timeoutMs: tenantGoneTimeoutMs },
      );
      const left: Footprint = await footprint(this.#world, traces);
      for (const [what, count] of Object.entries(left)) {
        if (count !== noFootprint[what as keyof Footprint]) found.push(`${traces.name}: ${count} ${what}`);
      }
    }
    return found;
  }

  async #run(): Promise<void> {
    for (let turn = 0; !this.#stop.signal.aborted; turn++) {
      const name = `passer-by-${turn}`;
      await this.#insist(`to create ${name}`, () =>
        this.#accepted(['create', name], (vc) => vc !== undefined, name),
      );
      await this.#pause(lifeMs);
      await this.#insist(`to read ${name}`, () => this.#note(name));
      await this.#insist(`to delete ${name}`, () =>
        this.#accepted(
          ['delete', name, '--ignore-not-found'],
          (vc) => vc === undefined || vc.metadata.deletionTimestamp !== undefined,
          name,
        ),
      );
      await this.#pause(tenantPauseMs);
    }
  }

  /** What the command says does not count while servers come and go; what is there does. */
  async #accepted(
    command: string[],
    holds: (vc: VirtualCluster | undefined) => boolean,
    name: string,
  ): Promise<boolean> {
    await this.#world.cli(command, { timeoutMs: 30_000 });
    return holds(await this.#find(name));
  }

  async #note(name: string): Promise<boolean> {
    const vc = await this.#find(name);
    const id = vc?.status?.id;
    // Without an id it has nothing yet that could be left.
    if (id !== undefined) this.#traces.set(name, { id, uid: vc?.metadata.uid ?? '', name });
    return true;
  }

  #find(name: string): Promise<VirtualCluster | undefined> {
    return this.#world.superCluster.find<VirtualCluster>(resources.virtualClusters, {
      namespace: 'default',
      name,
    });
  }

  /** While there are faults, as often as it takes. */
  async #insist(what: string, attempt: () => Promise<boolean>): Promise<void> {
    for (;;) {
      const outcome = await attempt().catch((error: unknown) => error);
      if (outcome === true) return;
      if (performance.now() > this.#lastTryMs)
        throw new Error(`in vain ${what}, ${lastTriesMs / 1_000} s after the faults`, {
          cause: outcome,
        });
      this.#repeats += 1;
      await delay(retryMs);
    }
  }

  async #pause(ms: number): Promise<void> {
    await delay(ms, undefined, { signal: this.#stop.signal }).catch(() => undefined);
  }
}
