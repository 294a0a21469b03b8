import { mkdtemp, rm } from 'node:fs/promises';
import { tmpdir } from 'node:os';
import { join, resolve } from 'node:path';
import {
  Connection,
  type ConnectionOptions,
  isNotFound,
  KubeClient,
  loadKubeconfig,
  resources,
  systemClock,
} from '../../../kube/index.ts';
import { Binaries, defaultCacheDirectory } from '../../../vc-manager/binaries/index.ts';
import {
  grantOwnRights,
  managerComponent,
  ownComponents,
  syncerComponent,
} from '../../../vc-manager/cli/index.ts';
import type { ComponentPlan } from '../../../vc-manager/control-plane/index.ts';
import { ProcessDriver } from '../../../vc-manager/drivers/index.ts';
import { LocalStack, type LocalStackParts } from '../../../vc-manager/local-stack/index.ts';
import { freePort, machineAddress } from '../../../vc-manager/os/network.ts';
import { type BenchProcess, StackProcesses } from '../measure/process-groups.ts';
import { datastoreMetrics } from './datastore-metrics.ts';
import type { Stack, SyncerFlags } from './stack.ts';

export interface OwnStackOptions {
  nodes: number;
  env: NodeJS.ProcessEnv;
  /** False: a super cluster alone. */
  withSkerry: boolean;
  cpuProfileDir?: string;
  signal: AbortSignal;
  onProgress: (message: string) => void;
}

const host = '127.0.0.1';
// Of a range that is nobody's (RFC 5737): no pod of a simulated node dials it.
const nobody = '192.0.2.1';
const syncerPortRange: [number, number] = [23_000, 23_999];
const linesOfLogs = 15;
const managerTimeoutMs = 90_000;

/**
 * What `vc-manager up` starts, in a temporary directory: the same components with the same arguments.
 * Here, because the syncer has to be restarted with other flags while all else runs on.
 */
export class OwnStack implements Stack {
  readonly #directory: string;
  readonly #options: OwnStackOptions;
  readonly #processes: StackProcesses;
  readonly #stack: LocalStack;
  readonly #binaries: Binaries;
  readonly #metricsPort: number;
  #syncer: SyncerFlags = { fair: true };
  #superCluster: ConnectionOptions | undefined;

  private constructor(
    directory: string,
    ports: { metrics: number; kubelet: number },
    options: OwnStackOptions,
  ) {
    this.#directory = directory;
    this.#options = options;
    this.#metricsPort = ports.metrics;
    this.#processes = new StackProcesses(directory);
    const { env, onProgress } = options;
    this.#binaries = new Binaries({
      cacheDir: defaultCacheDirectory(env),
      env,
      onProgress: ({ name, stage, message }) => {
        if (stage !== 'ready') onProgress(`${name}: ${message}`);
      },
    });
    const advertiseAddress = machineAddress() ?? nobody;
    this.#stack = new LocalStack({
      stateDir: directory,
      binaries: this.#binaries,
      advertiseAddress,
      superCluster: { nodes: options.nodes },
      ...(options.withSkerry ? { prepare: grantOwnRights } : {}),
      components: (parts) => {
        if (!options.withSkerry) return [];
        const shared = { stateDir: directory, env, superCluster: 'local' as const, dns: 'none' as const };
        return this.#withFlags({ ...shared, ports, bindAddress: host, advertiseAddress }, parts);
      },
    });
  }

  static async start(options: OwnStackOptions): Promise<OwnStack> {
    const metrics = await freePort({ host, range: syncerPortRange });
    const kubelet = await freePort({ host, range: syncerPortRange, taken: [metrics] });
    const directory = await mkdtemp(join(tmpdir(), 'skerry-bench-'));
    const stack = new OwnStack(directory, { metrics, kubelet }, options);
    try {
      await stack.#start(options.signal);
    } catch (error) {
      if (!options.signal.aborted) options.onProgress(await stack.lastWords());
      await stack.close();
      throw error;
    }
    return stack;
  }

  get superCluster(): ConnectionOptions {
    if (this.#superCluster === undefined) throw new Error('the stack has not started');
    return this.#superCluster;
  }

  processes(): Promise<BenchProcess[]> {
    return this.#processes.list();
  }

  async setSyncer(flags: SyncerFlags, signal: AbortSignal): Promise<void> {
    if (flags.fair === this.#syncer.fair) return;
    this.#syncer = flags;
    // All other components are as they were, so that they run on.
    await this.#stack.start({ signal });
  }

  async syncerMetrics(): Promise<string> {
    const answer = await fetch(`http://${host}:${this.#metricsPort}/metrics`);
    return answer.text();
  }

  async restartSyncer(signal: AbortSignal): Promise<void> {
    await this.#stack.stop({ signal, components: [syncerComponent] });
    await this.#stack.start({ signal });
  }

  async syncerReady(): Promise<boolean> {
    const answer = await fetch(`http://${host}:${this.#metricsPort}/readyz`).catch(() => undefined);
    await answer?.body?.cancel();
    return answer?.ok === true;
  }

  datastoreMetrics(): Promise<string> {
    return datastoreMetrics(this.#directory);
  }

  async lastWords(): Promise<string> {
    const words: string[] = [];
    for (const component of [managerComponent, syncerComponent]) {
      const lines: string[] = [];
      try {
        const options = { tailLines: linesOfLogs, signal: AbortSignal.timeout(5_000) };
        for await (const line of this.#stack.logs(component, options)) lines.push(line);
      } catch {
        continue;
      }
      words.push(`--- ${component} ---`, ...lines);
    }
    return words.join('\n');
  }

  async close(): Promise<void> {
    const signal = AbortSignal.timeout(120_000);
    // First those two, or they would start again what is stopped after them.
    await this.#stack.stop({ signal, components: [managerComponent, syncerComponent] });
    const tenants = new ProcessDriver({
      root: join(this.#directory, 'control-planes'),
      binaries: this.#binaries,
      clock: systemClock,
    });
    const ids = await tenants.list();
    await Promise.all(ids.map((id) => tenants.remove(id, { signal })));
    await this.#stack.remove({ signal });
    await rm(this.#directory, { recursive: true, force: true });
  }

  async #start(signal: AbortSignal): Promise<void> {
    const { onProgress } = this.#options;
    const { superCluster } = await this.#stack.start({ signal, onProgress });
    this.#superCluster = await loadKubeconfig(superCluster?.kubeconfigFile);
    if (this.#options.withSkerry) await managerServes(this.#superCluster, signal);
  }

  #withFlags(options: Parameters<typeof ownComponents>[0], parts: LocalStackParts): ComponentPlan[] {
    const { cpuProfileDir } = this.#options;
    const profile =
      cpuProfileDir === undefined ? [] : ['--cpu-prof', `--cpu-prof-dir=${resolve(cpuProfileDir)}`];
    const flags = this.#syncer.fair ? [] : ['--no-fair'];
    return ownComponents(options, parts).map((component) =>
      component.name === syncerComponent
        ? { ...component, args: [...profile, ...component.args, ...flags] }
        : component,
    );
  }
}

/** Waits until tenants can be asked for. */
async function managerServes(superCluster: ConnectionOptions, signal: AbortSignal): Promise<void> {
  const connection = new Connection(superCluster);
  const client = new KubeClient(connection);
  const deadline = performance.now() + managerTimeoutMs;
  try {
    for (;;) {
      try {
        await client.list(resources.virtualClusters, { signal });
        return;
      } catch (error) {
        if (!isNotFound(error) || performance.now() > deadline) throw error;
      }
      await systemClock.sleep(100, signal);
    }
  } finally {
    await connection.close();
  }
}
