import { type Clock, type KubeClient, type KubeObject, resources } from '../../../kube/index.ts';
import type { Lookup } from '../../kinds/contract.ts';
import { isSimulated, type Pod } from '../find-pod.ts';
import { KubeletSource } from './kubelet-source.ts';
import { MetricsApiSource } from './metrics-api-source.ts';
import type { PodUsage } from './usage.ts';

export interface UsageReaderOptions {
  superClient: KubeClient;
  /** The nodes of the super cluster. */
  nodes: () => Iterable<KubeObject>;
  superObjects: Lookup;
  clock: Clock;
}

/** How long it counts whether the super cluster has a metrics API. */
const knownForMs = 30_000;

/** The best source of figures that the super cluster has now: its metrics API, else its kubelets. */
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
    return this.#hasKubelets() || (await this.#hasMetricsApi(signal));
  }

  /** By UID of the super pod; undefined when there is no source. Throws when the source fails. */
  async read(
    pods: readonly Pod[],
    tenantUid: string,
    signal: AbortSignal,
  ): Promise<Map<string, PodUsage> | undefined> {
    if (await this.#hasMetricsApi(signal)) {
      return pods.length === 0 ? new Map() : await this.#metricsApi.read(pods, tenantUid, signal);
    }
    if (!this.#hasKubelets()) return undefined;
    const { superObjects } = this.#options;
    const real = pods.filter(({ spec }) => {
      const node = superObjects.get(resources.nodes, { name: spec?.nodeName ?? '' });
      return node !== undefined && !isSimulated(node);
    });
    return this.#kubelets.read(real, tenantUid, signal);
  }

  #hasKubelets(): boolean {
    for (const node of this.#options.nodes()) if (!isSimulated(node)) return true;
    return false;
  }

  #hasMetricsApi(signal: AbortSignal): Promise<boolean> {
    const now = this.#options.clock.monotonic();
    if (this.#known === undefined || now - this.#known.atMs >= knownForMs) {
      // Not with the signal of whoever happens to ask first: others wait for the same answer.
      const isThere = this.#metricsApi.isThere(new AbortController().signal);
      this.#known = { atMs: now, isThere };
    }
    const { isThere } = this.#known;
    return signal.aborted ? Promise.reject(signal.reason) : isThere;
  }
}
