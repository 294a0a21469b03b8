import { randomBytes } from 'node:crypto';
import { Connection, KubeClient, resources, systemClock } from '../../kube/index.ts';
import type { BenchOptions } from './arguments.ts';
import { GeneratorProcess } from './generator/generator-process.ts';
import type { Target } from './generator/protocol.ts';
import { cpuSeconds } from './measure/proc.ts';
import type { BenchProcess } from './measure/process-groups.ts';
import type { Stack } from './stack/stack.ts';
import { prepareNamespace, Tenants } from './stack/tenants.ts';

export interface LabOptions {
  stack: Stack;
  options: BenchOptions;
  signal: AbortSignal;
  onProgress: (message: string) => void;
}

const tenantNamespace = 'bench';
/** More at once only make each other slower, and the first of them late. */
const tenantsAtOnce = 8;
/** For pods that stay: what else there is to do with many of them would take as long. */
const standTimeoutMsPerPod = 200;
/** Idle tenants are not free, so that there is always some use of CPU. */
const quietCores = 0.3;
const quietCoresPerTenant = 0.02;
const longestSettleMs = 30_000;

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

  tell(message: string): void {
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
    this.tell(`creating ${missing.length} tenants, ${Math.min(tenantsAtOnce, missing.length)} at a time`);
    const waiting = missing.values();
    let joined = 0;
    await Promise.all(
      Array.from({ length: tenantsAtOnce }, async () => {
        for (const name of waiting) {
          this.#tenantTargets.set(name, await this.#createTenant(name));
          joined++;
          this.tell(`${joined} of ${missing.length} tenants are ready`);
        }
      }),
    );
    // In their order, not in that in which they became ready.
    return names.flatMap((name) => this.#tenantTargets.get(name) ?? []);
  }

  async #createTenant(name: string): Promise<Target> {
    await this.request(name);
    const connection = await this.tenants.usable(name, this.signal);
    await this.tenants.joined(name, this.signal);
    const client = new Connection({ ...connection, userAgent: 'skerry-bench' });
    try {
      await prepareNamespace(new KubeClient(client), tenantNamespace, this.signal);
    } finally {
      await client.close();
    }
    return { name, namespace: tenantNamespace, connection };
  }

  /** Brings all tenants together to this many pods that stay, rounded up to equal parts. Returns how many there are. */
  async stand(pods: number): Promise<number> {
    const targets = await this.tenantTargets();
    const perTarget = Math.ceil(pods / targets.length);
    const total = perTarget * targets.length;
    this.tell(`bringing ${targets.length} tenants to ${perTarget} pods each`);
    const { inFlight, timeoutMs } = this.#options;
    await this.generator.ask('open', { targets }, this.signal);
    const limits = { inFlight, timeoutMs: timeoutMs + total * standTimeoutMsPerPod };
    await this.generator.ask('stand', { perTarget, ...limits }, this.signal);
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
  async settle(): Promise<boolean> {
    const limit = quietCores + quietCoresPerTenant * this.#tenantTargets.size;
    const deadline = performance.now() + longestSettleMs;
    let before = await this.#totalSeconds();
    while (performance.now() < deadline) {
      await systemClock.sleep(1000, this.signal);
      const after = await this.#totalSeconds();
      if (after - before < limit) return true;
      before = after;
    }
    this.tell('it does not become quiet; measuring all the same');
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
