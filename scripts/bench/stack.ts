import { mkdtemp, readFile, rm } from 'node:fs/promises';
import { freemem, tmpdir } from 'node:os';
import { join, resolve } from 'node:path';
import { type ConnectionOptions, loadKubeconfig, systemClock } from '../../kube/index.ts';
import { Binaries, defaultCacheDirectory } from '../../vc-manager/binaries/index.ts';
import { defaultAdvertiseAddress } from '../../vc-manager/cli/arguments.ts';
import { inGigabytes, numberIn } from '../../vc-manager/cli/commands/doctor.ts';
import { controlPlanesDirectory, localKubeconfigFile } from '../../vc-manager/cli/state-directory.ts';
import { withConnection } from '../../vc-manager/cli/super-cluster.ts';
import {
  gatewayComponent,
  grantComponentRights,
  managerComponent,
  skerryComponents,
  syncerComponent,
} from '../../vc-manager/cli/up/components.ts';
import { waitForManager } from '../../vc-manager/cli/up/start.ts';
import type { ComponentPlan } from '../../vc-manager/control-plane/plan.ts';
import { ProcessDriver } from '../../vc-manager/drivers/process/process-driver.ts';
import { LocalStack, type LocalStackParts } from '../../vc-manager/local-stack/local-stack.ts';
import { freePort } from '../../vc-manager/os/network.ts';
import { type BenchProcess, listStackProcesses } from './measure.ts';

/** How the syncer is to run. */
interface SyncerFlags {
  fair: boolean;
  /** How long what it sends, and what comes back, is under way; default: not at all. */
  delayMs?: number;
}

/** A super cluster with manager and syncer, to be measured. */
export interface Stack {
  readonly superCluster: ConnectionOptions;
  /** Empty where processes cannot be seen: another machine, or no /proc. */
  processes(): Promise<BenchProcess[]>;
  /**
   * Restarts the syncer with other flags, unless it runs with these already; resolves when it is up
   * again, which is before it has caught up. Absent: this run has not started the syncer and must not restart it.
   */
  setSyncer?(flags: SyncerFlags, signal: AbortSignal): Promise<void>;
  /**
   * Stops manager, syncer and gateway, does the work, and starts them anew: nothing of it is noticed as it happens. Absent:
   * this run has not started them.
   */
  whileStopped?(work: () => Promise<void>, signal: AbortSignal): Promise<void>;
  /** Stops the syncer by SIGTERM and starts it again; resolves when the new process is there. */
  restartSyncer?(signal: AbortSignal): Promise<void>;
  /** Whether the syncer says that it is ready; false while nothing answers. */
  syncerReady?(): Promise<boolean>;
  /** Metrics of the tenants' datastore. */
  datastoreMetrics?(): Promise<string>;
  /** The syncer's metrics as Prometheus' text. Absent: their address is not known. */
  syncerMetrics?(): Promise<string>;
  /** The last lines of the components' logs, to explain a failure. */
  lastLogLines?(): Promise<string>;
  /** Ends what was started and removes its state. */
  close(): Promise<void>;
}

interface OwnStackOptions {
  nodes: number;
  env: NodeJS.ProcessEnv;
  /** False: a super cluster alone. */
  withSkerry: boolean;
  /** False: clients of the benchmark are the tenants' API servers' own. */
  withGateway: boolean;
  cpuProfileDir?: string;
  signal: AbortSignal;
  onProgress: (message: string) => void;
}

const host = '127.0.0.1';
const portRange: [number, number] = [23_000, 23_999];
const linesOfLogs = 15;
const programs = [managerComponent, syncerComponent, gatewayComponent];

/**
 * What `vc-manager up` starts, in a temporary directory: the same components with the same arguments.
 * Here, because the syncer has to be restarted with other flags while all else runs on.
 */
export class OwnStack implements Stack {
  readonly #directory: string;
  readonly #options: OwnStackOptions;
  readonly #stack: LocalStack;
  readonly #binaries: Binaries;
  readonly #metricsPort: number;
  #syncer: SyncerFlags = { fair: true };
  #superCluster: ConnectionOptions | undefined;

  private constructor(
    directory: string,
    ports: { metrics: number; kubelet: number; gateway: number; gatewayMetrics: number },
    options: OwnStackOptions,
  ) {
    this.#directory = directory;
    this.#options = options;
    this.#metricsPort = ports.metrics;
    const { env, onProgress } = options;
    this.#binaries = new Binaries({
      cacheDir: defaultCacheDirectory(env),
      env,
      onProgress: ({ name, stage, message }) => {
        if (stage !== 'ready') onProgress(`${name}: ${message}`);
      },
    });
    const advertiseAddress = defaultAdvertiseAddress();
    this.#stack = new LocalStack({
      stateDir: directory,
      binaries: this.#binaries,
      advertiseAddress,
      superCluster: { nodes: options.nodes },
      ...(options.withSkerry ? { prepare: grantComponentRights } : {}),
      components: (parts) => {
        if (!options.withSkerry) return [];
        const shared = {
          stateDir: directory,
          env,
          superCluster: 'local' as const,
          dns: 'none' as const,
          warm: 0,
          warmMemory: undefined,
          networkPolicies: 'auto',
          // Where floods have a webhook that hangs, and a server that answers without end.
          tenantEgress: [host, advertiseAddress].map((address) => `${address}:32768-65535`),
        };
        const gateway = { gateway: options.withGateway, ports };
        return this.#withFlags({ ...shared, ...gateway, bindAddress: host, advertiseAddress }, parts);
      },
    });
  }

  static async start(options: OwnStackOptions): Promise<OwnStack> {
    const taken: number[] = [];
    const port = async (): Promise<number> => {
      const free = await freePort({ host, range: portRange, taken });
      taken.push(free);
      return free;
    };
    const ports = {
      metrics: await port(),
      kubelet: await port(),
      gateway: await port(),
      gatewayMetrics: await port(),
    };
    const directory = await mkdtemp(join(tmpdir(), 'skerry-bench-'));
    const stack = new OwnStack(directory, ports, options);
    try {
      await stack.#start(options.signal);
    } catch (error) {
      if (!options.signal.aborted) options.onProgress(await stack.lastLogLines());
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
    return listStackProcesses(this.#directory);
  }

  async setSyncer(flags: SyncerFlags, signal: AbortSignal): Promise<void> {
    if (flags.fair === this.#syncer.fair && flags.delayMs === this.#syncer.delayMs) return;
    this.#syncer = flags;
    // All other components are as they were, so that they run on.
    await this.#stack.start({ signal });
  }

  async syncerMetrics(): Promise<string> {
    const answer = await fetch(`http://${host}:${this.#metricsPort}/metrics`);
    return answer.text();
  }

  async whileStopped(work: () => Promise<void>, signal: AbortSignal): Promise<void> {
    await this.#stack.stop({ signal, components: programs });
    await work();
    await this.#stack.start({ signal });
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

  async lastLogLines(): Promise<string> {
    const words: string[] = [];
    for (const component of programs) {
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
    // These first, so that they do not restart what is stopped after them.
    await this.#stack.stop({ signal, components: programs });
    const tenants = new ProcessDriver({
      root: controlPlanesDirectory(this.#directory),
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
    if (this.#options.withSkerry)
      await withConnection(this.#superCluster, (client) =>
        waitForManager(client, this.#stack, systemClock, signal),
      );
  }

  #withFlags(options: Parameters<typeof skerryComponents>[0], parts: LocalStackParts): ComponentPlan[] {
    const { cpuProfileDir } = this.#options;
    const profile =
      cpuProfileDir === undefined ? [] : ['--cpu-prof', `--cpu-prof-dir=${resolve(cpuProfileDir)}`];
    const { fair, delayMs } = this.#syncer;
    const distance =
      delayMs === undefined
        ? []
        : [`--import=${new URL(`./distant-network.ts?ms=${delayMs}`, import.meta.url).href}`];
    const flags = fair ? [] : ['--no-fair'];
    return skerryComponents(options, parts).map((component) =>
      component.name === syncerComponent
        ? { ...component, args: [...profile, ...distance, ...component.args, ...flags] }
        : component,
    );
  }
}

interface GivenStackOptions {
  stateDir?: string;
  kubeconfig?: string;
  context?: string;
}

/** A stack that was started before this run and is left running. */
export class GivenStack implements Stack {
  readonly superCluster: ConnectionOptions;
  readonly #stateDir: string | undefined;

  constructor(superCluster: ConnectionOptions, stateDir?: string) {
    this.superCluster = superCluster;
    this.#stateDir = stateDir;
  }

  static async open({ stateDir, kubeconfig, context }: GivenStackOptions): Promise<GivenStack> {
    const ofState = stateDir === undefined ? undefined : localKubeconfigFile(stateDir);
    const superCluster = await loadKubeconfig(kubeconfig ?? ofState, context);
    if (superCluster.authorization !== undefined) {
      throw new Error(
        'the load generator is a process of its own and cannot ask a plugin for credentials: give a kubeconfig with a client certificate or a token',
      );
    }
    return new GivenStack(superCluster, stateDir);
  }

  async processes(): Promise<BenchProcess[]> {
    return this.#stateDir === undefined ? [] : listStackProcesses(this.#stateDir);
  }

  async close(): Promise<void> {
    // The stack keeps running.
  }
}

/** Metrics of the tenants' datastore in a state directory, as Prometheus' text. */
async function datastoreMetrics(stateDir: string): Promise<string> {
  const ports = JSON.parse(await readFile(join(stateDir, 'datastore', 'ports.json'), 'utf8')) as {
    'datastore-metrics': number;
  };
  const answer = await fetch(`http://127.0.0.1:${ports['datastore-metrics']}/metrics`);
  return answer.text();
}

interface Limits {
  /** Undefined: this system has no such limit, or does not show it. */
  inotifyInstances?: number | undefined;
  availableBytes?: number;
}

const gigabyte = 1_000_000_000;
/** Super cluster, manager, syncer and load generator. */
const bytesAtLeast = 1.8 * gigabyte;
const bytesPerTenant = 0.2 * gigabyte;
/** What a kube-apiserver uses to watch its files, and some for everything else. */
const inotifyPerTenant = 7;
const inotifyAtLeast = 64;

/** Checks the limits of the machine: throws when a run with so many tenants must fail, returns warnings when it may. */
export function preflight(tenants: number, { inotifyInstances, availableBytes }: Limits): string[] {
  const instances = inotifyAtLeast + tenants * inotifyPerTenant;
  if (inotifyInstances !== undefined && inotifyInstances < instances) {
    throw new Error(
      `${tenants} tenants need about ${instances} inotify instances, ${inotifyInstances} are allowed: sudo sysctl fs.inotify.max_user_instances=8192, or fewer --tenants`,
    );
  }
  const bytes = bytesAtLeast + tenants * bytesPerTenant;
  if (availableBytes !== undefined && availableBytes < bytes)
    return [
      `${tenants} tenants need about ${inGigabytes(bytes)} of memory, ${inGigabytes(availableBytes)} are available: give fewer --tenants if it does not go well`,
    ];
  return [];
}

export async function limitsOfMachine(): Promise<Limits> {
  const inotifyInstances = await numberIn('/proc/sys/fs/inotify/max_user_instances');
  return { inotifyInstances, availableBytes: freemem() };
}
