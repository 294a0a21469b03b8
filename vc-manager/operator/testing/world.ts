import { Readable } from 'node:stream';
import { pino } from 'pino';
import type { ControlPlaneTemplate } from '../../../api/control-plane-template.ts';
import { crdManifests } from '../../../api/crds.ts';
import { annotationKeys } from '../../../api/labels.ts';
import type { VirtualCluster, VirtualClusterSpec } from '../../../api/virtual-cluster.ts';
import { type CallOptions, Connection, KubeClient, type KubeObject, resources } from '../../../kube/index.ts';
import { fastClock } from '../../../kube/testing/fast-clock.ts';
import { FakeApiServer } from '../../../kube/testing/index.ts';
import type { ControlPlanePlan } from '../../control-plane/plan.ts';
import { loadTemplates } from '../../control-plane/template.ts';
import {
  type ComponentListener,
  type Confinement,
  type ControlPlaneDriver,
  type ControlPlaneObservation,
  componentHash,
  type EnsureOptions,
  type StopOptions,
} from '../../drivers/driver.ts';
import { planSurge } from '../../drivers/slots.ts';
import type { Entry, KeyspaceView } from '../../etcd/keyspace.ts';
import { createAuthority, issue, type ManagerPki } from '../../pki/index.ts';
import { Operator } from '../operator.ts';
import type { Datastore, OperatorOptions, OwnDatastore } from '../services.ts';

/** Carries plans out in memory. */
export class FakeDriver implements ControlPlaneDriver {
  readonly confinement: readonly Confinement[] = ['egress'];
  /** Every plan that was ever to be carried out, in order. */
  readonly ensured: ControlPlanePlan[] = [];
  readonly plans = new Map<string, ControlPlanePlan>();
  /** Asked before each; may throw or wait. */
  beforeEnsure: (plan: ControlPlanePlan, options: EnsureOptions) => void | Promise<void> = () => {};
  /** Asked when the first component is ready and the others are not. */
  beforeRest: (plan: ControlPlanePlan, options: EnsureOptions) => void | Promise<void> = () => {};
  beforeStop: (id: string) => void | Promise<void> = () => {};
  beforeRemove: (id: string) => void | Promise<void> = () => {};
  active = 0;
  maxActive = 0;
  readonly running = new Set<string>();
  readonly #listeners = new Set<ComponentListener>();

  /** Whether it starts an API server that has changed beside the earlier one, where it may. */
  replacesBySurge = false;
  /** How often the new one was ready. */
  handOvers = 0;

  async ensure(asked: ControlPlanePlan, options: EnsureOptions): Promise<void> {
    const { plan, surge } = await this.#planSurge(asked, options);
    this.ensured.push(plan);
    this.active += 1;
    this.maxActive = Math.max(this.maxActive, this.active);
    options.onProgress?.('starting kube-apiserver');
    try {
      await this.beforeEnsure(plan, options);
      options.signal.throwIfAborted();
      if (surge !== undefined) {
        this.plans.set(plan.id, plan);
        this.handOvers++;
        await surge.handOver();
      }
      options.onReady?.(plan.components[0]?.name ?? '');
      await this.beforeRest(plan, options);
      options.signal.throwIfAborted();
      this.plans.set(plan.id, plan);
      this.running.add(plan.id);
    } finally {
      this.active -= 1;
    }
  }

  async #planSurge(plan: ControlPlanePlan, { surge }: EnsureOptions): ReturnType<typeof planSurge> {
    if (!this.replacesBySurge) return { plan };
    return planSurge(plan, surge, async (name) => {
      const runs = this.running.has(plan.id);
      const found = this.plans.get(plan.id)?.components.filter((each) => each.name === name) ?? [];
      return found.map((each) => ({ slot: name, hash: componentHash(each), runs }));
    });
  }

  async observe(id: string): Promise<ControlPlaneObservation> {
    const state = this.running.has(id) ? 'running' : 'stopped';
    const components = (this.plans.get(id)?.components ?? []).map(
      ({ name }) => ({ name, state, restarts: 0 }) as const,
    );
    return { id, components };
  }

  watch(listener: ComponentListener): () => void {
    this.#listeners.add(listener);
    return () => this.#listeners.delete(listener);
  }

  /** As when a component dies. */
  kill(id: string, component: string): void {
    this.running.delete(id);
    for (const listener of this.#listeners) listener(id, component, 'exited');
  }

  /** As when a component that somebody has given up waiting for comes up after all. */
  becomeReady(id: string, component: string): void {
    for (const listener of this.#listeners) listener(id, component, 'ready');
  }

  /** Id and component. */
  readonly forgotten: [string, string][] = [];

  async stop(id: string, { components, forget }: Partial<StopOptions> = {}): Promise<void> {
    await this.beforeStop(id);
    const plan = this.plans.get(id);
    if (forget === true && plan !== undefined) {
      for (const each of components ?? []) this.forgotten.push([id, each]);
      const left = plan.components.filter(({ name }) => components?.includes(name) !== true);
      this.plans.set(id, { ...plan, components: left });
    }
    if (components === undefined) this.running.delete(id);
  }

  async remove(id: string): Promise<void> {
    await this.beforeRemove(id);
    this.running.delete(id);
    this.plans.delete(id);
  }

  async list(): Promise<string[]> {
    return [...this.plans.keys()].sort();
  }

  async *logs(): AsyncGenerator<string> {}
}

/** The tenants' datastore, in memory. */
export class FakeDatastore implements Datastore {
  readonly tenants = new Set<string>();
  /** Every id that was ever given a place. */
  readonly seen = new Set<string>();
  beforeEnsure: () => void | Promise<void> = () => {};

  async ensureTenant(id: string): Promise<{ user: string; prefix: string }> {
    await this.beforeEnsure();
    this.tenants.add(id);
    this.seen.add(id);
    return { user: `tenant-${id}`, prefix: `/tenants/${id}/` };
  }

  /** Asked before each; may wait. */
  beforeRemove: (id: string) => void | Promise<void> = () => {};

  async removeTenant(
    id: string,
    { beforeWrite = () => {} }: { beforeWrite?: () => void } = {},
  ): Promise<void> {
    await this.beforeRemove(id);
    beforeWrite();
    this.tenants.delete(id);
    this.entries.delete(id);
  }

  /** What every tenant takes. */
  usage = { keys: 0, bytes: 0 };
  measured = 0;

  async countTenantKeys(): Promise<number> {
    return this.usage.keys;
  }

  async measureTenant(): Promise<{ keys: number; bytes: number }> {
    this.measured++;
    return { ...this.usage };
  }

  /** Of each tenant, without its prefix. */
  readonly entries = new Map<string, Entry[]>();

  async viewTenant(id: string): Promise<KeyspaceView> {
    const entries = this.entries.get(id) ?? [];
    return { revision: 1, count: entries.length, entries: Readable.from(entries) };
  }

  async replaceTenant(
    id: string,
    entries: AsyncIterable<Entry>,
    { keepOthers = false }: { keepOthers?: boolean },
  ): Promise<number> {
    const written: Entry[] = keepOthers ? [...(this.entries.get(id) ?? [])] : [];
    try {
      for await (const entry of entries) written.push(entry);
    } catch (error) {
      if (!keepOthers) this.entries.set(id, []);
      throw error;
    }
    this.entries.set(id, written);
    return written.length;
  }

  async fillTenant(id: string, entries: readonly Entry[]): Promise<boolean> {
    if ((this.entries.get(id) ?? []).length > 0) return false;
    this.entries.set(id, [...entries]);
    return true;
  }

  /** What it was last raised to. */
  raised = 0;

  async raise(target: number): Promise<number> {
    this.raised = Math.max(this.raised, target);
    return this.raised;
  }

  total = { bytesInUse: 0, quotaBytes: 8 * 1024 ** 3, revision: 1 };
  readonly compacted: number[] = [];

  async size(): Promise<{ bytesInUse: number; quotaBytes: number; revision: number }> {
    return { ...this.total };
  }

  async compact(revision: number): Promise<void> {
    this.compacted.push(revision);
  }

  async listTenants(): Promise<{ users: string[]; roles: string[]; prefixes: string[] }> {
    const ids = [...this.tenants].sort();
    return { users: ids, roles: ids, prefixes: ids };
  }
}

/** What tenants have in etcds of their own, by endpoint. */
export class FakeOwnDatastores {
  readonly entries = new Map<string, Entry[]>();
  /** What it is raised to then. */
  onRaise: (target: number) => number = (target) => target;
  beforeReplace: (endpoint: string, signal: AbortSignal) => void | Promise<void> = () => {};

  readonly open = ({ endpoint }: { endpoint: string }): OwnDatastore => ({
    count: async () => this.entries.get(endpoint)?.length ?? 0,
    view: async () => {
      const entries = this.entries.get(endpoint) ?? [];
      return { revision: 1, count: entries.length, entries: Readable.from(entries) };
    },
    replace: async (entries, { keepOthers = false, signal = new AbortController().signal }) => {
      await this.beforeReplace(endpoint, signal);
      const written: Entry[] = keepOthers ? [...(this.entries.get(endpoint) ?? [])] : [];
      for await (const entry of entries) written.push(entry);
      this.entries.set(endpoint, written);
      return written.length;
    },
    raise: async (target) => this.onRaise(target),
    close: async () => {},
  });
}

/** The manager's certificates, in memory. */
export async function testManagerPki(): Promise<ManagerPki> {
  const etcdCa = await createAuthority({ commonName: 'datastore' });
  const kubeletProxyCa = await createAuthority({ commonName: 'kubelet-proxy' });
  const leaf = await issue(etcdCa, { commonName: 'test', usage: ['client'] });
  return {
    etcdCa,
    etcdServer: leaf,
    etcdManager: leaf,
    etcdRootPassword: 'test',
    kubeletProxyCa,
    kubeletProxy: leaf,
    renewals: [],
    renewAt: new Date(8.64e15),
  };
}

/** What all worlds share, as it takes longer to make than all the rest of one. */
let parts: Promise<[ManagerPki, ControlPlaneTemplate[]]> | undefined;

/** The fake serves any resource but does not say which. */
class SuperClient extends KubeClient {
  readonly #world: World;

  constructor(connection: Connection, world: World) {
    super(connection);
    this.#world = world;
  }

  override async update<T extends KubeObject>(...args: Parameters<KubeClient['update']>): Promise<T> {
    await this.#world.beforeUpdate(args[1]);
    return super.update<T>(args[0], args[1] as T, args[2]);
  }

  override async raw(
    method: string,
    path: string,
    options?: CallOptions & { body?: unknown },
  ): Promise<unknown> {
    if (path === '/version') return { gitVersion: this.#world.superVersion };
    if (path !== '/apis/skerry.dev/v1alpha1') return super.raw(method, path, options);
    return {
      resources: crdManifests().map(({ spec }) => ({
        name: (spec as { names: { plural: string } }).names.plural,
      })),
    };
  }
}

export interface RunningOperator {
  /** Waits until it has ended; as after a crash, nothing that it had begun is finished. */
  stop(): Promise<void>;
}

type Pace = Pick<OperatorOptions, 'clock' | 'lease'>;

// Long, because a busy machine must not end a term: those who stop hand it over.
const lease = { leaseDurationMs: 60_000, renewMs: 100, callTimeoutMs: 30_000 };

/** Pauses pass this many times as fast. No lease is lost, however far a test sets the time forward. */
export function fastPace(factor: number): Required<Pace> {
  const leaseDurationMs = 30 * 24 * 60 * 60_000;
  return { clock: fastClock(factor), lease: { ...lease, leaseDurationMs, renewMs: lease.renewMs * factor } };
}

/** A super cluster, a tenant, a driver and a datastore that operators under test share. */
export class World {
  readonly superCluster: FakeApiServer;
  /** One stands for all tenants. */
  readonly tenant: FakeApiServer;
  readonly driver = new FakeDriver();
  readonly datastore = new FakeDatastore();
  readonly ownDatastores = new FakeOwnDatastores();
  /** What the super cluster says that it is. */
  superVersion = 'v1.36.3';
  /** Asked before a manager writes an object of the super cluster anew; may wait. */
  beforeUpdate: (object: KubeObject) => void | Promise<void> = () => {};
  readonly #pki: ManagerPki;
  readonly #templates: ControlPlaneTemplate[];
  readonly #pace: Pace;
  readonly #operators = new Set<RunningOperator>();
  #identities = 0;

  private constructor(
    superCluster: FakeApiServer,
    tenant: FakeApiServer,
    pki: ManagerPki,
    templates: ControlPlaneTemplate[],
    pace: Pace,
  ) {
    this.superCluster = superCluster;
    this.tenant = tenant;
    this.#pki = pki;
    this.#templates = templates;
    this.#pace = pace;
  }

  /** `pace` is that of all managers in it, unless they are run with another one. */
  static async start(pace: Pace = { lease }): Promise<World> {
    const superCluster = await FakeApiServer.start();
    const tenant = await FakeApiServer.start();
    for (const manifest of crdManifests()) {
      const conditions = [{ type: 'Established', status: 'True' }];
      superCluster.put(resources.customResourceDefinitions, plain({ ...manifest, status: { conditions } }));
    }
    for (const server of [superCluster, tenant]) {
      for (const name of ['default', 'kube-system']) server.put(resources.namespaces, { metadata: { name } });
    }
    // As the tenant's controllers make it.
    tenant.put(resources.serviceAccounts, { metadata: { namespace: 'kube-system', name: 'default' } });
    parts ??= Promise.all([testManagerPki(), loadTemplates()]);
    const [pki, templates] = await parts;
    // Tests change templates.
    return new World(superCluster, tenant, pki, structuredClone(templates), pace);
  }

  /** Before a manager is run. */
  changeTemplates(change: (template: ControlPlaneTemplate) => void): void {
    for (const template of this.#templates) change(template);
  }

  run(options: Partial<OperatorOptions> & { connection?: Connection } = {}): RunningOperator {
    const connection = new Connection(this.superCluster.connectionOptions);
    const operator = new Operator({
      client: new SuperClient(connection, this),
      fencedClient: (beforeWrite) =>
        new SuperClient(
          options.connection ?? new Connection({ ...this.superCluster.connectionOptions, beforeWrite }),
          this,
        ),
      driver: this.driver,
      datastore: this.datastore,
      ownDatastore: this.ownDatastores.open,
      templates: this.#templates,
      managerPki: async () => this.#pki,
      logger: pino({ level: 'silent' }),
      identity: `manager-${++this.#identities}`,
      connect: ({ beforeWrite = () => {} }) =>
        new KubeClient(new Connection({ ...this.tenant.connectionOptions, beforeWrite })),
      random: () => 0,
      ...this.#pace,
      ...options,
      settings: {
        advertiseAddress: '192.0.2.1',
        etcdEndpoint: 'https://127.0.0.1:2379',
        // One tenant stands for all: each would have the DNS of the others put right.
        dns: 'none',
        ...options.settings,
      },
    });
    const controller = new AbortController();
    const ended = operator.run(controller.signal);
    const running: RunningOperator = {
      stop: async () => {
        this.#operators.delete(running);
        controller.abort();
        await ended;
        await connection.close();
      },
    };
    this.#operators.add(running);
    return running;
  }

  create(
    name: string,
    spec: VirtualClusterSpec = {},
    metadata: Partial<KubeObject['metadata']> = {},
  ): VirtualCluster {
    return this.superCluster.put(resources.virtualClusters, {
      metadata: { namespace: 'team', name, generation: 1, ...metadata },
      spec: { clusterDomain: 'cluster.local', weight: 1, ...spec },
    }) as VirtualCluster;
  }

  get(name: string): VirtualCluster | undefined {
    return this.superCluster.get(resources.virtualClusters, { namespace: 'team', name }) as
      | VirtualCluster
      | undefined;
  }

  /** One of the Secrets that are in Skerry's own namespace; there or not. */
  secretOf(name: string, which: 'pki' | 'syncer'): KubeObject | undefined {
    const ref = { namespace: 'skerry-system', name: `tenant-${this.get(name)?.status?.id}-${which}` };
    return this.superCluster.get(resources.secrets, ref);
  }

  /** Changes the spec as an API server does: the generation counts up. */
  edit(name: string, spec: VirtualClusterSpec): void {
    const vc = this.get(name);
    if (vc === undefined) throw new Error(`no VirtualCluster ${name}`);
    const generation = (vc.metadata.generation ?? 1) + 1;
    this.superCluster.put(resources.virtualClusters, {
      ...vc,
      metadata: { ...vc.metadata, generation },
      spec: { ...vc.spec, ...spec },
    });
  }

  async delete(name: string): Promise<void> {
    const client = new KubeClient(new Connection(this.superCluster.connectionOptions));
    await client.delete(resources.virtualClusters, { namespace: 'team', name });
    await client.connection.close();
  }

  async untilGone(name: string): Promise<void> {
    await this.superCluster.until(() => this.get(name) === undefined);
  }

  async untilReady(name: string): Promise<VirtualCluster> {
    return this.until(
      name,
      (vc) => vc.status?.phase === 'Ready' && condition(vc, 'Ready')?.status === 'True',
    );
  }

  /** Until a condition has this reason. */
  async untilReason(name: string, type: string, reason: string): Promise<VirtualCluster> {
    return this.until(name, (vc) => condition(vc, type)?.reason === reason);
  }

  async until(name: string, predicate: (vc: VirtualCluster) => boolean): Promise<VirtualCluster> {
    let found: VirtualCluster | undefined;
    await this.superCluster.until(() => {
      found = this.get(name);
      return found !== undefined && predicate(found);
    });
    return found as VirtualCluster;
  }

  /** What is there of any VirtualCluster, anywhere. */
  async leftovers(): Promise<Record<string, string[]>> {
    const names = (objects: KubeObject[]): string[] => objects.map(({ metadata }) => metadata.name ?? '');
    return {
      secrets: names(this.superCluster.list(resources.secrets)).filter(
        (name) => name !== 'skerry-kubelet-proxy',
      ),
      addresses: names(this.superCluster.list(resources.ipAddresses)),
      controlPlanes: await this.driver.list(),
      datastore: [...this.datastore.tenants],
    };
  }

  async end(): Promise<void> {
    await Promise.all([...this.#operators].map((operator) => operator.stop()));
    await this.superCluster.stop();
    await this.tenant.stop();
  }
}

export function condition(
  vc: VirtualCluster,
  type: string,
): { status: string; reason?: string; message?: string } | undefined {
  return vc.status?.conditions?.find((each) => each.type === type);
}

function plain(object: KubeObject): KubeObject {
  return JSON.parse(JSON.stringify(object)) as KubeObject;
}

/** What people ask of jobs, and what they see of them. */
export function jobRequests(world: () => World) {
  const jobs = (name: string) => world().get(name)?.status?.jobs;
  const annotate = (name: string, key: string, value: string): void => {
    const vc = world().get(name) as VirtualCluster;
    const annotations = { ...vc.metadata.annotations, [key]: value };
    world().superCluster.put(resources.virtualClusters, { ...vc, metadata: { ...vc.metadata, annotations } });
  };
  const cancel = (name: string): void =>
    annotate(name, annotationKeys.cancelJob, jobs(name)?.current?.id ?? '');
  /** The driver does not come to an end until it is given up. */
  const stall = (): { release: () => void } => {
    const gate = Promise.withResolvers<void>();
    world().driver.beforeEnsure = (_plan, { signal }) => {
      signal.addEventListener('abort', () => gate.reject(signal.reason), { once: true });
      return gate.promise;
    };
    return { release: () => gate.resolve() };
  };
  return { annotate, cancel, jobs, stall };
}
