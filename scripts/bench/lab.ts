import { randomBytes } from 'node:crypto';
import { apiVersion } from '../../api/names.ts';
import type { VirtualCluster } from '../../api/virtual-cluster.ts';
import {
  type Condition,
  Connection,
  type ConnectionOptions,
  connectionFromSecret,
  isAlreadyExists,
  isNotFound,
  KubeClient,
  Reflector,
  resources,
  Store,
  systemClock,
} from '../../kube/index.ts';
import { adminKubeconfig } from '../../vc-manager/cli/virtual-clusters.ts';
import { GeneratorProcess } from './generator/generator-process.ts';
import type { Target } from './generator/protocol.ts';
import { type BenchProcess, cpuSeconds } from './measure.ts';
import type { BenchOptions } from './options.ts';
import type { Stack } from './stack.ts';

interface LabOptions {
  stack: Stack;
  options: BenchOptions;
  signal: AbortSignal;
  onProgress: (message: string) => void;
}

const tenantNamespace = 'bench';
/** More at once only make each other slower, and the first of them late. */
const tenantsAtOnce = 8;
/** For pods that stay: what else there is to do with many of them would take as long. */
const standingTimeoutMsPerPod = 200;
/** Idle tenants are not free, so that there is always some use of CPU. */
const quietCores = 0.3;
const quietCoresPerTenant = 0.02;
const quietTimeoutMs = 30_000;

/** What scenarios work with: a stack, its tenants and the load generator. Made once for a run. */
export class Lab {
  readonly stack: Stack;
  readonly generator = new GeneratorProcess();
  readonly tenants: Tenants;
  readonly signal: AbortSignal;
  readonly client: KubeClient;
  readonly #options: BenchOptions;
  readonly #onProgress: (message: string) => void;
  readonly #connection: Connection;
  /** Root of everything that this run creates in the super cluster. */
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

  async prepare(): Promise<void> {
    await prepareNamespace(this.client, this.#prefix, this.signal);
  }

  log(message: string): void {
    this.#onProgress(message);
  }

  /** Namespaces of the super cluster, one in place of each tenant. */
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

  /** A namespace in each of the tenants, which are created when they are first wanted. */
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
          this.#tenantTargets.set(name, await this.#createTenant(name));
          joined++;
          this.log(`${joined} of ${missing.length} tenants are ready`);
        }
      }),
    );
    // In their order, not in that in which they became ready.
    return names.flatMap((name) => this.#tenantTargets.get(name) ?? []);
  }

  async #createTenant(name: string): Promise<Target> {
    await this.request(name);
    const connection = await this.tenants.waitUntilUsable(name, this.signal);
    await this.tenants.waitUntilSynced(name, this.signal);
    const client = new Connection({ ...connection, userAgent: 'skerry-bench' });
    try {
      await prepareNamespace(new KubeClient(client), tenantNamespace, this.signal);
    } finally {
      await client.close();
    }
    return { name, namespace: tenantNamespace, connection };
  }

  /** Brings all tenants together to this many pods that stay, rounded up to equal parts. Returns how many there are. */
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

  /** Which objects of the super cluster are of this run's tenants. */
  superSelector(): string {
    const uids = [...this.#tenantTargets.keys()].flatMap(
      (name) => this.tenants.get(name)?.metadata.uid ?? [],
    );
    return `skerry.dev/tenant in (${uids.join(',')})`;
  }

  /** Asks for a tenant that is removed with the lab at the latest. */
  async request(name: string): Promise<void> {
    this.#requested.add(name);
    await this.tenants.request(name, this.signal);
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

  /** Waits until the echoes of what was done before have died away; gives up after a while and says so. */
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
    for (const { pid } of await this.processes()) total += (await cpuSeconds(pid)) ?? 0;
    return total;
  }
}

const pollMs = 25;

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
    });
  }

  get(name: string): VirtualCluster | undefined {
    return this.#store.get({ namespace: this.#namespace, name });
  }

  async request(name: string, signal: AbortSignal): Promise<void> {
    // Not before: without a manager there is nothing to watch.
    this.#running ??= this.#reflector.run(this.#stop.signal);
    const vc = {
      apiVersion,
      kind: 'VirtualCluster',
      metadata: { name, namespace: this.#namespace },
      spec: {},
    };
    await this.#client.create(resources.virtualClusters, vc, { signal });
  }

  /** Resolves when the tenant's own API server has answered its admin for the first time. */
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
    const connection = new Connection({ ...options, requestTimeoutMs: 5_000 });
    try {
      const tenant = new KubeClient(connection);
      for (;;) {
        try {
          await tenant.list(resources.namespaces, { signal });
          return options;
        } catch {
          // Whatever it is, a person would try again.
        }
        throwIfFailed(this.get(name));
        await systemClock.sleep(pollMs, signal);
      }
    } finally {
      await connection.close();
    }
  }

  /** Resolves when manager and syncer both say that they are done. */
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

  /** Resolves when nothing is left of them that the manager waits for. */
  async remove(names: readonly string[], signal: AbortSignal): Promise<void> {
    await Promise.all(
      names.map(async (name) => {
        try {
          await this.#client.delete(
            resources.virtualClusters,
            { namespace: this.#namespace, name },
            { signal },
          );
        } catch (error) {
          if (!isNotFound(error)) throw error;
        }
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
  await client.create(resources.namespaces, { metadata: { name } }, { signal }).catch((error: unknown) => {
    if (!isAlreadyExists(error)) throw error;
  });
  for (;;) {
    try {
      await client.get(resources.serviceAccounts, { namespace: name, name: 'default' }, { signal });
      return;
    } catch (error) {
      if (!isNotFound(error)) throw error;
    }
    await systemClock.sleep(pollMs, signal);
  }
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
