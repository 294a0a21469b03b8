import { expect } from 'vitest';
import type { VirtualCluster, VirtualClusterPhase } from '../../api/virtual-cluster.ts';
import {
  Connection,
  connectionFromSecret,
  KubeClient,
  type KubeObject,
  resources,
} from '../../kube/index.ts';
import { heldRequestMs } from './poll.ts';
import type { Tenant, World } from './world.ts';

/** A tenant that is put to sleep and woken, whatever runs its control plane. */
export class Sleeper {
  readonly #world: World;
  readonly #tenant: Tenant;
  readonly #running: () => Promise<readonly string[]>;

  /** `running`: the processes, containers or pods of its control plane that run. */
  constructor(world: World, tenant: Tenant, running: () => Promise<readonly string[]>) {
    this.#world = world;
    this.#tenant = tenant;
    this.#running = running;
  }

  until<R>(
    what: string,
    answer: (vc: VirtualCluster) => R | undefined | false,
    timeoutMs?: number,
  ): Promise<R> {
    return this.#world.superCluster.until<R, VirtualCluster>(
      { resource: resources.virtualClusters, ...this.#tenant.ref, what, timeoutMs },
      ([vc]) => vc !== undefined && answer(vc),
    );
  }

  untilPhase(phase: VirtualClusterPhase): Promise<VirtualCluster> {
    return this.until(`the phase ${phase}`, (vc) => vc.status?.phase === phase && vc);
  }

  /** UIDs of its pods in the super cluster. */
  async superPods(): Promise<string[]> {
    const labelSelector = `skerry.dev/tenant=${this.#tenant.uid}`;
    const { items } = await this.#world.superCluster.client.list(resources.pods, { labelSelector });
    return items.map(({ metadata }) => metadata.uid ?? '').sort();
  }

  /** Returns when nothing of its control plane runs. */
  async sleep(): Promise<void> {
    const { name } = this.#tenant;
    const { exitCode, stdout } = await this.#world.cli(['sleep', name, '--wait']);
    expect([exitCode, stdout.trim()]).toEqual([0, `${name} is asleep`]);
    expect(await this.#running()).toEqual([]);
  }

  /** The pods of a namespace, by the first request of a client that is new. */
  async podsByFirstRequest(namespace: string): Promise<KubeObject[]> {
    const options = connectionFromSecret(this.#tenant.kubeconfig);
    const patient = { requestTimeoutMs: heldRequestMs, connectTimeoutMs: heldRequestMs };
    const connection = new Connection({ ...options, ...patient });
    try {
      return (await new KubeClient(connection).list(resources.pods, { namespace })).items;
    } finally {
      await connection.close();
    }
  }

  /**
   * Sleeps, when `whileAsleep` looks at what is left, and is woken by a request to the gateway; its pods in the super
   * cluster run on.
   */
  async sleepAndWake(
    namespace: string,
    whileAsleep: () => Promise<void> = async () => undefined,
  ): Promise<void> {
    const { name } = this.#tenant;
    const parts = await this.#running();
    expect(parts).not.toEqual([]);
    const [pods, seen] = [await this.superPods(), await this.podsByFirstRequest(namespace)];
    await this.sleep();
    await whileAsleep();
    expect(await this.superPods()).toEqual(pods);
    const uids = (all: KubeObject[]): string[] => all.map(({ metadata }) => metadata.uid ?? '').sort();
    const since = performance.now();
    expect(uids(await this.podsByFirstRequest(namespace))).toEqual(uids(seen));
    console.log(`${name}: answers ${((performance.now() - since) / 1000).toFixed(1)} s after it was asked`);
    await this.#untilAwake();
    expect(await this.#running()).toHaveLength(parts.length);
    expect(await this.superPods()).toEqual(pods);
  }

  /**
   * Has the manager killed while it stops the control plane, and while it starts it. `killManager` is told which one is
   * at work, and is to return when none of this name works any more; another one goes on from there.
   */
  async outlastKills(killManager: (holder: string) => Promise<void>): Promise<void> {
    const { name } = this.#tenant;
    const pods = await this.superPods();
    const ask = async (what: 'sleep' | 'wake'): Promise<void> => {
      expect((await this.#world.cli([what, name])).exitCode).toBe(0);
    };
    // Waited for before it is asked for, so that it cannot be over by then.
    const stopping = this.until('the way to sleep', ({ status }) => {
      const isStopping = status?.phase === 'Asleep' && status.sleep?.stopped !== true;
      return isStopping && (status.jobs?.current?.holder ?? '');
    });
    const [stopper] = await Promise.all([stopping, ask('sleep')]);
    await killManager(stopper);
    await this.until('all of it to be stopped', ({ status }) => status?.sleep?.stopped);
    expect(await this.#running()).toEqual([]);
    const waking = this.until('the way back', ({ status }) => {
      const { kind, step, holder = '' } = status?.jobs?.current ?? {};
      return kind === 'wake' && step === 'control-plane' && holder;
    });
    const [waker] = await Promise.all([waking, ask('wake')]);
    await killManager(waker);
    await this.#untilAwake();
    const { status } = await this.#world.virtualCluster(name);
    expect(status?.jobs?.history?.[0]).toMatchObject({ kind: 'wake', result: 'Succeeded', attempts: 2 });
    expect(await this.superPods()).toEqual(pods);
  }

  /** With its controllers. */
  #untilAwake(): Promise<true> {
    return this.until(
      'it to be awake',
      ({ status }) => (status?.phase === 'Ready' && status.jobs?.current === undefined) || undefined,
    );
  }
}
