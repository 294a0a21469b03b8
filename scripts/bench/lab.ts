import { randomBytes } from 'node:crypto';
import { annotationKeys, labelKeys } from '../../api/labels.ts';
import { apiVersion } from '../../api/names.ts';
import type { VirtualCluster, VirtualClusterSpec } from '../../api/virtual-cluster.ts';
import {
  type Condition,
  Connection,
  type ConnectionOptions,
  connectionFromSecret,
  createIfAbsent,
  deleteIfPresent,
  ignoreNotFound,
  KubeClient,
  Reflector,
  resources,
  Store,
  systemClock,
  withClient,
} from '../../kube/index.ts';
import { adminKubeconfig } from '../../vc-manager/cli/virtual-clusters.ts';
import { cpuSeconds } from '../../vc-manager/os/process-identity.ts';
import { GeneratorProcess } from './child-process.ts';
import type { Target } from './generator/protocol.ts';
import type { BenchProcess } from './measure.ts';
import type { BenchOptions } from './options.ts';
import type { Stack } from './stack.ts';

interface LabOptions {
  stack: Stack;
  options: BenchOptions;
  signal: AbortSignal;
  onProgress: (message: string) => void;
}

const tenantNamespace = 'bench';
/** More at once slow each other down and delay the first. */
const tenantsAtOnce = 8;
/** Added to the time limit for each standing pod. */
const standingTimeoutMsPerPod = 200;
/** CPU use, in cores, below which the stack counts as quiet; idle tenants add to it. */
const quietCores = 0.3;
const quietCoresPerTenant = 0.02;
const quietTimeoutMs = 30_000;

/** What scenarios work with: a stack, its tenants and the load generator. One for each run. */
export class Lab {
  readonly stack: Stack;
  readonly generator = new GeneratorProcess();
  readonly tenants: Tenants;
  readonly signal: AbortSignal;
  readonly client: KubeClient;
  readonly #options: BenchOptions;
  readonly #onProgress: (message: string) => void;
  readonly #connection: Connection;
  /** Prefix of the names of everything that this run creates in the super cluster. */
  readonly #prefix = `skerry-bench-${randomBytes(3).toString('hex')}`;
  readonly #direct = new Map<string, Target>();
  readonly #tenantTargets = new Map<string, Target>();
  readonly #requested = new Set<string>();

  constructor({ stack, options, signal, onProgress }: LabOptions) {
    this.stack = stack;
    this.signal = signal;
    this.#options = options;
    this.#onProgress = onProgress;
    this.#connection = new Connection({ ...stack.superCluster, userAgent: 'skerry-bench' });
    this.client = new KubeClient(this.#connection);
    this.tenants = new Tenants(this.client, this.#prefix);
  }

  /** For whatever has no limit of its own. */
  get timeoutMs(): number {
    return this.#options.timeoutMs;
  }

  /** Of its tenants, in the super cluster. */
  get namespace(): string {
    return this.#prefix;
  }

  async prepare(): Promise<void> {
    await prepareNamespace(this.client, this.#prefix, this.signal);
  }

  log(message: string): void {
    this.#onProgress(message);
  }

  /** Namespaces of the super cluster, one for each tenant that is compared with it. */
  async directTargets(): Promise<Target[]> {
    const { tenants } = this.#options;
    for (let index = 0; index < tenants; index++) {
      const name = `direct-${index}`;
      if (this.#direct.has(name)) continue;
      const namespace = `${this.#prefix}-${name}`;
      this.#direct.set(name, { name, namespace, connection: this.stack.superCluster });
      await prepareNamespace(this.client, namespace, this.signal);
    }
    return [...this.#direct.values()];
  }

  /** A namespace in each tenant; tenants are created on first use. */
  async tenantTargets(): Promise<Target[]> {
    const names = Array.from({ length: this.#options.tenants }, (_, index) => `tenant-${index}`);
    const missing = names.filter((name) => !this.#tenantTargets.has(name));
    if (missing.length === 0) return [...this.#tenantTargets.values()];
    this.log(`creating ${missing.length} tenants, ${Math.min(tenantsAtOnce, missing.length)} at a time`);
    const waiting = missing.values();
    let joined = 0;
    await Promise.all(
      Array.from({ length: tenantsAtOnce }, async () => {
        for (const name of waiting) {
          this.#tenantTargets.set(name, await this.createTenant(name));
          joined++;
          this.log(`${joined} of ${missing.length} tenants are ready`);
        }
      }),
    );
    // In the order of their names, not in that in which they became ready.
    return names.flatMap((name) => this.#tenantTargets.get(name) ?? []);
  }

  /** A namespace in a new tenant, which is served. */
  async createTenant(name: string, spec: VirtualClusterSpec = {}): Promise<Target> {
    await this.request(name, spec);
    const connection = await this.tenants.waitUntilUsable(name, this.signal);
    await this.tenants.waitUntilSynced(name, this.signal);
    await withClient({ ...connection, userAgent: 'skerry-bench' }, (client) =>
      prepareNamespace(client, tenantNamespace, this.signal),
    );
    return { name, namespace: tenantNamespace, connection };
  }

  /** Creates or deletes pods until all tenants together have this many, rounded up to equal parts. Returns the number. */
  async ensureStandingPods(pods: number): Promise<number> {
    const targets = await this.tenantTargets();
    const perTarget = Math.ceil(pods / targets.length);
    const total = perTarget * targets.length;
    this.log(`bringing ${targets.length} tenants to ${perTarget} pods each`);
    const { inFlight, timeoutMs } = this.#options;
    await this.generator.request('open', { targets }, this.signal);
    const limits = { inFlight, timeoutMs: timeoutMs + total * standingTimeoutMsPerPod };
    await this.generator.request('ensureStandingPods', { perTarget, ...limits }, this.signal);
    return total;
  }

  /** Label selector for the objects of this run's tenants in the super cluster. */
  superSelector(): string {
    const uids = [...this.#tenantTargets.keys()].flatMap(
      (name) => this.tenants.get(name)?.metadata.uid ?? [],
    );
    return `skerry.dev/tenant in (${uids.join(',')})`;
  }

  /** Creates the VirtualCluster of a tenant; `close` removes it at the latest. */
  async request(name: string, spec: VirtualClusterSpec = {}): Promise<void> {
    this.#requested.add(name);
    const { driver } = this.#options;
    await this.tenants.request(name, { ...(driver && { driver }), ...spec }, this.signal);
  }

  async removeTenant(name: string): Promise<void> {
    await this.tenants.remove([name], this.signal);
    this.#requested.delete(name);
    this.#tenantTargets.delete(name);
  }

  async processes(): Promise<BenchProcess[]> {
    const processes = await this.stack.processes();
    // Without the stack's processes a total would be misleading.
    if (processes.length === 0) return [];
    return [...processes, { pid: this.generator.pid, group: 'generator', component: 'generator' }];
  }

  /** Waits until processes use little CPU. Returns false when they still do after 30 s. */
  async waitUntilQuiet(): Promise<boolean> {
    const limit = quietCores + quietCoresPerTenant * this.#tenantTargets.size;
    const deadline = performance.now() + quietTimeoutMs;
    let before = await this.#totalSeconds();
    while (performance.now() < deadline) {
      await systemClock.sleep(1000, this.signal);
      const after = await this.#totalSeconds();
      if (after - before < limit) return true;
      before = after;
    }
    this.log('it does not become quiet; measuring all the same');
    return false;
  }

  /** Waits until no pod of a tenant is left in the super cluster. */
  async superPodsGone(): Promise<void> {
    if (this.#tenantTargets.size === 0) return;
    const path = `/api/v1/pods?limit=1&labelSelector=${encodeURIComponent(this.superSelector())}`;
    const deadline = performance.now() + this.#options.timeoutMs;
    for (;;) {
      const { items = [] } = (await this.client.raw('GET', path, { signal: this.signal })) as {
        items?: unknown[] | null;
      };
      if (!items?.length) return;
      if (performance.now() > deadline) throw new Error('pods of tenants stay in the super cluster');
      await systemClock.sleep(250, this.signal);
    }
  }

  /** Ends the generator and removes what was created in the super cluster. */
  async close(options: { stackGoesToo: boolean; signal: AbortSignal }): Promise<void> {
    try {
      await this.generator.end();
      if (!options.stackGoesToo) {
        await this.tenants.remove([...this.#requested], options.signal);
        const namespaces = [this.#prefix, ...[...this.#direct.values()].map(({ namespace }) => namespace)];
        for (const name of namespaces) await this.client.delete(resources.namespaces, { name }, options);
      }
    } finally {
      await this.tenants.close();
      await this.#connection.close();
    }
  }

  async #totalSeconds(): Promise<number> {
    let total = 0;
    for (const { pid } of await this.processes()) total += cpuSeconds(pid) ?? 0;
    return total;
  }
}

const pollMs = 25;
const warmPollMs = 250;

/** The VirtualClusters of one namespace of the super cluster, which belongs to this run alone. */
class Tenants {
  readonly #client: KubeClient;
  readonly #namespace: string;
  readonly #store = new Store<VirtualCluster>();
  readonly #stop = new AbortController();
  #running: Promise<void> | undefined;
  readonly #reflector: Reflector<VirtualCluster>;

  constructor(client: KubeClient, namespace: string) {
    this.#client = client;
    this.#namespace = namespace;
    this.#reflector = new Reflector<VirtualCluster>({
      client,
      resource: resources.virtualClusters,
      store: this.#store,
      namespace,
      consistentStart: true,
      onProblem: ({ error }) => console.error('cannot follow VirtualClusters:', error),
    });
  }

  get(name: string): VirtualCluster | undefined {
    return this.#store.get({ namespace: this.#namespace, name });
  }

  async request(name: string, spec: VirtualClusterSpec, signal: AbortSignal): Promise<void> {
    // Not earlier: the manager installs the resource that is watched.
    this.#running ??= this.#reflector.run(this.#stop.signal);
    const vc = {
      apiVersion,
      kind: 'VirtualCluster',
      metadata: { name, namespace: this.#namespace },
      spec,
    };
    await this.#client.create(resources.virtualClusters, vc, { signal });
  }

  /** Resolves when the tenant's API server has answered a request with its admin kubeconfig. */
  async waitUntilUsable(name: string, signal: AbortSignal): Promise<ConnectionOptions> {
    await this.#when(
      name,
      (vc) => {
        throwIfFailed(vc);
        return vc?.status?.kubeconfigSecret !== undefined;
      },
      signal,
    );
    const vc = this.get(name);
    if (vc === undefined) throw new Error(`the tenant ${name} was deleted`);
    const options = connectionFromSecret(await adminKubeconfig(this.#client, vc, signal));
    return withClient({ ...options, requestTimeoutMs: 5_000 }, async (tenant) => {
      for (;;) {
        try {
          await tenant.list(resources.namespaces, { signal });
          return options;
        } catch {
          // Any failure is tried again, as a user would.
        }
        throwIfFailed(this.get(name));
        await systemClock.sleep(pollMs, signal);
      }
    });
  }

  /** Resolves when the conditions Ready and Synced are both True. */
  async waitUntilSynced(name: string, signal: AbortSignal): Promise<void> {
    await this.#when(
      name,
      (vc) => {
        throwIfFailed(vc);
        return isTrue(vc, 'Ready') && isTrue(vc, 'Synced');
      },
      signal,
    );
  }

  /** Resolves when nothing of its control plane runs. */
  async putToSleep(name: string, signal: AbortSignal): Promise<void> {
    const ref = { namespace: this.#namespace, name };
    const patch = { metadata: { annotations: { [annotationKeys.sleep]: new Date().toISOString() } } };
    await this.#client.patch(resources.virtualClusters, ref, patch, { type: 'merge', signal });
    const isAsleep = (vc: VirtualCluster | undefined): boolean =>
      vc?.status?.phase === 'Asleep' && vc.status.sleep?.stopped === true;
    await this.#when(name, isAsleep, signal);
  }

  /** Changes the VirtualCluster; resolves when `isDone` holds of it, and no job is under way. */
  async change(
    name: string,
    patch: object,
    isDone: (vc: VirtualCluster) => boolean,
    signal: AbortSignal,
  ): Promise<void> {
    const ref = { namespace: this.#namespace, name };
    await this.#client.patch(resources.virtualClusters, ref, patch, { type: 'merge', signal });
    await this.#when(
      name,
      (vc) => {
        throwIfFailed(vc);
        return vc !== undefined && vc.status?.jobs?.current === undefined && isDone(vc);
      },
      signal,
    );
  }

  /** Resolves when as many control planes wait for an owner as the manager wants; at once without a warm pool. */
  async waitUntilWarm(wanted: number, signal: AbortSignal): Promise<void> {
    while ((await this.warm(signal)) < wanted) await systemClock.sleep(warmPollMs, signal);
  }

  /** Control planes that wait for an owner. */
  async warm(signal: AbortSignal): Promise<number> {
    const { items } = await this.#client.list<VirtualCluster>(resources.virtualClusters, {
      labelSelector: labelKeys.warm,
      signal,
    });
    return items.filter((vc) => isTrue(vc, 'Ready')).length;
  }

  /** Deletes VirtualClusters; resolves when their finalizers are done. */
  async remove(names: readonly string[], signal: AbortSignal): Promise<void> {
    await Promise.all(
      names.map(async (name) => {
        const ref = { namespace: this.#namespace, name };
        await deleteIfPresent(this.#client, resources.virtualClusters, ref, { signal });
        await this.#when(name, (vc) => vc === undefined, signal);
      }),
    );
  }

  async close(): Promise<void> {
    this.#stop.abort();
    await this.#running;
  }

  async #when(
    name: string,
    condition: (vc: VirtualCluster | undefined) => boolean,
    signal: AbortSignal,
  ): Promise<void> {
    await this.#reflector.synced(signal);
    const { promise, resolve, reject } = Promise.withResolvers<void>();
    const look = (): void => {
      try {
        if (condition(this.get(name))) resolve();
      } catch (error) {
        reject(error);
      }
    };
    const aborted = (): void => reject(signal.reason);
    const unsubscribe = this.#store.subscribe(look);
    signal.addEventListener('abort', aborted, { once: true });
    try {
      signal.throwIfAborted();
      look();
      await promise;
    } finally {
      unsubscribe();
      signal.removeEventListener('abort', aborted);
    }
  }
}

/** Creates a namespace and waits until pods may be created in it. */
async function prepareNamespace(client: KubeClient, name: string, signal: AbortSignal): Promise<void> {
  await createIfAbsent(client, resources.namespaces, { metadata: { name } }, { signal });
  const account = { namespace: name, name: 'default' };
  while ((await ignoreNotFound(client.get(resources.serviceAccounts, account, { signal }))) === undefined)
    await systemClock.sleep(pollMs, signal);
}

function isTrue(vc: VirtualCluster | undefined, type: string): boolean {
  const conditions: Condition[] = vc?.status?.conditions ?? [];
  return conditions.some((condition) => condition.type === type && condition.status === 'True');
}

function throwIfFailed(vc: VirtualCluster | undefined): void {
  if (vc?.status?.phase !== 'Failed') return;
  const why = vc.status.conditions?.find(({ type }) => type === 'Ready')?.message ?? 'no reason given';
  throw new Error(`the tenant ${vc.metadata.name} has failed: ${why}`);
}
