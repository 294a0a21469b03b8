import { setTimeout as delay } from 'node:timers/promises';
import type { VirtualCluster } from '../../api/virtual-cluster.ts';
import { resources } from '../../kube/index.ts';
import { type Footprint, footprint, noFootprint, type Traces } from '../harness/footprint.ts';
import { poll } from '../harness/poll.ts';
import type { World } from '../harness/world.ts';

const lifeMs = 12_000;
const betweenMs = 8_000;
const retryMs = 500;
const goneTimeoutMs = 180_000;

/** Tenants that come and go, whatever happens around them: of none of them anything may be left. */
export class PassersBy {
  readonly #world: World;
  readonly #stop = new AbortController();
  readonly #traces = new Map<string, Traces>();
  readonly #running: Promise<void>;

  constructor(world: World) {
    this.#world = world;
    this.#running = this.#run();
  }

  get size(): number {
    return this.#traces.size;
  }

  async stop(): Promise<void> {
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
        { timeoutMs: goneTimeoutMs },
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
      await this.#insist(() => this.#accepted(['create', name], (vc) => vc !== undefined, name));
      await this.#pause(lifeMs);
      await this.#insist(() => this.#note(name));
      await this.#insist(() =>
        this.#accepted(
          ['delete', name, '--ignore-not-found'],
          (vc) => vc === undefined || vc.metadata.deletionTimestamp !== undefined,
          name,
        ),
      );
      await this.#pause(betweenMs);
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

  async #insist(attempt: () => Promise<boolean>): Promise<void> {
    for (;;) {
      const done = await attempt().catch(() => false);
      if (done) return;
      await delay(retryMs);
    }
  }

  async #pause(ms: number): Promise<void> {
    await delay(ms, undefined, { signal: this.#stop.signal }).catch(() => undefined);
  }
}
