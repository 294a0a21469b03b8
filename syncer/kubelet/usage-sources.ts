import PQueue from 'p-queue';
import { labelKeys } from '../../api/labels.ts';
import {
  type Clock,
  isTooLarge,
  type KubeClient,
  type KubeObject,
  namespacedName,
  onAbort,
  parseQuantity,
  resources,
} from '../../kube/index.ts';
import type { Lookup } from '../context.ts';
import type { Container, Pod } from '../kinds/pods/types.ts';
import { isSimulated } from './find-pod.ts';

/** What one container has used. */
export interface ContainerUsage {
  readonly name: string;
  /** Billionths of a core, on average over the window. */
  readonly nanoCores: number;
  readonly workingSetBytes: number;
}

/** What one pod has used in the time before `takenAtMs`. */
export interface PodUsage {
  readonly takenAtMs: number;
  readonly windowMs: number;
  readonly containers: readonly ContainerUsage[];
}

/** Where figures come from. */
export interface UsageSource {
  /**
   * The usage of these pods of the super cluster, all of one tenant; by UID. Pods of which nothing is known
   * are left out. Throws when nothing can be read at all.
   */
  read(pods: readonly Pod[], tenantUid: string, signal: AbortSignal): Promise<Map<string, PodUsage>>;
}

/** Kubelets take new figures every ten seconds or so; asking more often shows nothing new. */
const freshMs = 5_000;
const kubeletTimeoutMs = 10_000;
/** A node that did not answer is not asked for so long: figures of other nodes wait for it. */
const failedMs = 60_000;
/** Nodes that are asked at once: a tenant may have pods on all of them. */
const maxAsked = 16;
/** What kubelets average over. They do not say. */
const windowMs = 10_000;

interface Summary {
  pods?: {
    podRef?: { uid?: string };
    containers?: {
      name?: string;
      cpu?: { time?: string; usageNanoCores?: number };
      memory?: { workingSetBytes?: number };
    }[];
  }[];
}

interface Reading {
  /** When it is too old; undefined: it is awaited. */
  staleAtMs: number | undefined;
  readonly usage: Promise<Map<string, PodUsage>>;
}

/**
 * The kubelets themselves, through the super cluster's API server. A node is asked on demand, and
 * its answer serves all tenants for a moment: each finds its own pods in it by their UIDs.
 */
class KubeletSource implements UsageSource {
  readonly #client: KubeClient;
  readonly #clock: Clock;
  readonly #readings = new Map<string, Reading>();
  readonly #asking = new PQueue({ concurrency: maxAsked });

  constructor(client: KubeClient, clock: Clock) {
    this.#client = client;
    this.#clock = clock;
  }

  async read(pods: readonly Pod[], _tenantUid: string, signal: AbortSignal): Promise<Map<string, PodUsage>> {
    const byNode = Map.groupBy(pods, ({ spec }) => spec?.nodeName ?? '');
    byNode.delete('');
    this.#forgetStale();
    const all = Promise.allSettled([...byNode.keys()].map((node) => this.#node(node)));
    const ended = Promise.withResolvers<void>();
    const release = onAbort(signal, ended.resolve);
    await Promise.race([all, ended.promise]).finally(release);
    signal.throwIfAborted();
    const answers = await all;
    const [failed] = answers.filter((answer) => answer.status === 'rejected');
    // Of several nodes one may be down: the others' pods are shown.
    if (failed !== undefined && answers.every(({ status }) => status === 'rejected')) throw failed.reason;
    const found = new Map<string, PodUsage>();
    for (const [index, there] of [...byNode.values()].entries()) {
      const answer = answers[index];
      if (answer?.status !== 'fulfilled') continue;
      for (const { metadata } of there) {
        const usage = answer.value.get(metadata.uid ?? '');
        if (usage !== undefined) found.set(metadata.uid ?? '', usage);
      }
    }
    return found;
  }

  /** Once for each read, not for each node of it: there are as many readings as nodes. */
  #forgetStale(): void {
    const now = this.#clock.monotonic();
    for (const [node, { staleAtMs = Number.POSITIVE_INFINITY }] of this.#readings)
      if (now >= staleAtMs) this.#readings.delete(node);
  }

  #node(node: string): Promise<Map<string, PodUsage>> {
    const known = this.#readings.get(node);
    if (known !== undefined) return known.usage;
    let askedAtMs = 0;
    const usage = this.#asking.add(() => {
      askedAtMs = this.#clock.monotonic();
      return this.#ask(node);
    });
    const reading: Reading = { staleAtMs: undefined, usage };
    this.#readings.set(node, reading);
    const keep = (ms: number): void => {
      reading.staleAtMs = this.#clock.monotonic() + ms;
    };
    usage.then(
      () => keep(freshMs),
      // A refusal has kept nobody waiting: of a node that is new, or by an API server that is being started.
      () => keep(this.#clock.monotonic() - askedAtMs >= kubeletTimeoutMs / 2 ? failedMs : freshMs),
    );
    return usage;
  }

  /** Shared by all requests meanwhile, so that none of them can end it. */
  async #ask(node: string): Promise<Map<string, PodUsage>> {
    // Rates come from the kubelet: with its plain counters two readings would be needed, ten seconds apart.
    const path = `/api/v1/nodes/${encodeURIComponent(node)}/proxy/stats/summary?only_cpu_and_memory=true`;
    // What is synced never waits for a node that does not answer.
    const summary = (await this.#client.raw('GET', path, {
      aside: true,
      timeoutMs: kubeletTimeoutMs,
    })) as Summary;
    const found = new Map<string, PodUsage>();
    for (const { podRef, containers = [] } of summary.pods ?? []) {
      const used: ContainerUsage[] = [];
      let takenAtMs = 0;
      for (const { name, cpu, memory } of containers) {
        // One that has just started has no rate yet.
        if (name === undefined || cpu?.usageNanoCores === undefined || memory?.workingSetBytes === undefined)
          continue;
        used.push({ name, nanoCores: cpu.usageNanoCores, workingSetBytes: memory.workingSetBytes });
        takenAtMs = Math.max(takenAtMs, Date.parse(cpu.time ?? '') || 0);
      }
      if (podRef?.uid !== undefined && used.length > 0)
        found.set(podRef.uid, { takenAtMs: takenAtMs || this.#clock.now(), windowMs, containers: used });
    }
    return found;
  }
}

const api = '/apis/metrics.k8s.io/v1beta1';
const metricsApiTimeoutMs = 10_000;
/** Of the figures of one pod, and of those of others in its namespace: a tenant may give its pods labels of megabytes, which come along. */
const bytesPerPod = 4 * 1024;
const bytesOfOthers = 2 * 1024 * 1024;
/** Of all of them, however many: they are parsed in one turn. */
const longestBytes = 12 * 1024 * 1024;

interface PodMetrics {
  metadata?: { namespace?: string; name?: string };
  timestamp?: string;
  window?: string;
  containers?: { name?: string; usage?: { cpu?: string; memory?: string } }[];
}

/** The metrics API of the super cluster, asked for what bears the tenant's label. */
class MetricsApiSource implements UsageSource {
  readonly #client: KubeClient;

  constructor(client: KubeClient) {
    this.#client = client;
  }

  /** Whether the super cluster has that API now. */
  async isThere(signal: AbortSignal): Promise<boolean> {
    try {
      await this.#client.raw('GET', api, { signal, aside: true, timeoutMs: metricsApiTimeoutMs });
      return true;
    } catch (error) {
      if (signal.aborted) throw error;
      return false;
    }
  }

  async read(pods: readonly Pod[], tenantUid: string, signal: AbortSignal): Promise<Map<string, PodUsage>> {
    const byName = new Map(pods.map((pod) => [namespacedName(pod.metadata), pod.metadata.uid ?? '']));
    const namespaces = new Set(pods.map(({ metadata }) => metadata.namespace ?? ''));
    const [only = ''] = namespaces;
    const where = namespaces.size === 1 ? `namespaces/${encodeURIComponent(only)}/` : '';
    const selector = encodeURIComponent(`${labelKeys.tenant}=${tenantUid}`);
    const path = `${api}/${where}pods?labelSelector=${selector}`;
    const list = (await this.#client.raw('GET', path, {
      signal,
      aside: true,
      timeoutMs: metricsApiTimeoutMs,
      maxBytes: Math.min(longestBytes, bytesOfOthers + pods.length * bytesPerPod),
    })) as { items?: PodMetrics[] };
    const found = new Map<string, PodUsage>();
    for (const item of list.items ?? []) {
      const uid = byName.get(namespacedName(item.metadata ?? {}));
      if (uid !== undefined) found.set(uid, usageOf(item));
    }
    return found;
  }
}

function usageOf({ timestamp = '', window = '', containers = [] }: PodMetrics): PodUsage {
  return {
    takenAtMs: Date.parse(timestamp) || 0,
    windowMs: milliseconds(window),
    containers: containers.flatMap(({ name, usage }) => {
      const cores = parseQuantity(usage?.cpu);
      const workingSetBytes = parseQuantity(usage?.memory);
      if (name === undefined || cores === undefined || workingSetBytes === undefined) return [];
      return [{ name, nanoCores: cores * 1e9, workingSetBytes }];
    }),
  };
}

/** A duration as Go writes them: 1m0.5s. */
function milliseconds(text: string): number {
  const unit: Record<string, number> = {
    h: 3_600_000,
    m: 60_000,
    s: 1_000,
    ms: 1,
    µs: 1e-3,
    us: 1e-3,
    ns: 1e-6,
  };
  let total = 0;
  for (const [, count, name = ''] of text.matchAll(/([0-9.]+)(h|ms|µs|us|ns|m|s)/g))
    total += Number(count) * (unit[name] ?? 0);
  return Math.round(total);
}

/** Annotations of a pod on a simulated node: what it is to use, as quantities. */
const simulatedUse = { cpu: 'simulation.skerry.dev/cpu', memory: 'simulation.skerry.dev/memory' } as const;

/** Where neither annotation nor request says it. */
const simulatedDefault = { cpu: 0.01, memory: 32 * 2 ** 20 } as const;

/**
 * What a running pod on a simulated node is said to use, as no container runs there: what its annotations say, spread
 * evenly over its containers, else half of what each requests.
 */
function simulatedUsage({ metadata, spec, status }: Pod, nowMs: number): PodUsage | undefined {
  if (status?.phase !== 'Running') return undefined;
  const containers = spec?.containers ?? [];
  const amount = (resource: 'cpu' | 'memory', { resources: own }: Container): number => {
    const said = parseQuantity(metadata.annotations?.[simulatedUse[resource]]);
    if (said !== undefined && said >= 0) return said / containers.length;
    const request = own?.requests?.[resource];
    const half = parseQuantity(typeof request === 'string' ? request : undefined);
    return half === undefined ? simulatedDefault[resource] : half / 2;
  };
  return {
    takenAtMs: nowMs,
    windowMs,
    containers: containers.map((container) => ({
      name: container.name,
      nanoCores: amount('cpu', container) * 1e9,
      workingSetBytes: amount('memory', container),
    })),
  };
}

interface UsageReaderOptions {
  superClient: KubeClient;
  /** The nodes of the super cluster. */
  nodes: () => Iterable<KubeObject>;
  superObjects: Lookup;
  clock: Clock;
}

/** How long it counts whether the super cluster has a metrics API. */
const knownForMs = 30_000;

/**
 * The best source of figures that the super cluster has now: its metrics API, else its kubelets. Pods on simulated nodes
 * have simulated figures.
 */
export class UsageReader {
  readonly #options: UsageReaderOptions;
  readonly #metricsApi: MetricsApiSource;
  readonly #kubelets: KubeletSource;
  #known: { atMs: number; isThere: Promise<boolean> } | undefined;

  constructor(options: UsageReaderOptions) {
    this.#options = options;
    this.#metricsApi = new MetricsApiSource(options.superClient);
    this.#kubelets = new KubeletSource(options.superClient, options.clock);
  }

  /** Whether figures are to be had at all. */
  async hasSource(signal: AbortSignal): Promise<boolean> {
    for (const _node of this.#options.nodes()) return true;
    return await this.#hasMetricsApi(signal);
  }

  /** By UID of the super pod; undefined when there is no source. Throws when the source fails. */
  async read(
    pods: readonly Pod[],
    tenantUid: string,
    signal: AbortSignal,
  ): Promise<Map<string, PodUsage> | undefined> {
    if (!(await this.hasSource(signal))) return undefined;
    const { superObjects, clock } = this.#options;
    const found = new Map<string, PodUsage>();
    const real: Pod[] = [];
    for (const pod of pods) {
      const node = superObjects.get(resources.nodes, { name: pod.spec?.nodeName ?? '' });
      if (node === undefined || !isSimulated(node)) {
        real.push(pod);
        continue;
      }
      const usage = simulatedUsage(pod, clock.now());
      if (usage !== undefined) found.set(pod.metadata.uid ?? '', usage);
    }
    if (real.length === 0) return found;
    const hasApi = await this.#hasMetricsApi(signal);
    const fromKubelets = (): ReturnType<UsageSource['read']> => this.#kubelets.read(real, tenantUid, signal);
    const read = await (hasApi
      ? this.#metricsApi.read(real, tenantUid, signal).catch((error: unknown) => {
          if (isTooLarge(error)) return fromKubelets();
          throw error;
        })
      : fromKubelets());
    for (const [uid, usage] of read) found.set(uid, usage);
    return found;
  }

  #hasMetricsApi(signal: AbortSignal): Promise<boolean> {
    const now = this.#options.clock.monotonic();
    if (this.#known === undefined || now - this.#known.atMs >= knownForMs) {
      // Not with the first caller's signal: other callers wait for the same answer.
      const isThere = this.#metricsApi.isThere(new AbortController().signal);
      this.#known = { atMs: now, isThere };
    }
    const { isThere } = this.#known;
    return signal.aborted ? Promise.reject(signal.reason) : isThere;
  }
}
