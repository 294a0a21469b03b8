import type { Clock, KubeClient } from '../../../kube/index.ts';
import type { Pod } from '../find-pod.ts';
import type { ContainerUsage, PodUsage, UsageSource } from './usage.ts';

/** Kubelets take new figures every ten seconds or so; asking more often shows nothing new. */
const freshMs = 5_000;
const timeoutMs = 10_000;
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
  readonly takenAtMs: number;
  readonly usage: Promise<Map<string, PodUsage>>;
}

/**
 * The kubelets themselves, through the super cluster's API server. A node is asked when somebody asks, and
 * its answer serves all tenants for a moment: each finds its own pods in it by their UIDs.
 */
export class KubeletSource implements UsageSource {
  readonly #client: KubeClient;
  readonly #clock: Clock;
  readonly #readings = new Map<string, Reading>();

  constructor(client: KubeClient, clock: Clock) {
    this.#client = client;
    this.#clock = clock;
  }

  async read(pods: readonly Pod[], _tenantUid: string, signal: AbortSignal): Promise<Map<string, PodUsage>> {
    const nodes = new Set(pods.map(({ spec }) => spec?.nodeName ?? '').filter((node) => node !== ''));
    const answers = await Promise.allSettled([...nodes].map((node) => this.#node(node)));
    signal.throwIfAborted();
    const read = answers.filter((answer) => answer.status === 'fulfilled');
    const [failed] = answers.filter((answer) => answer.status === 'rejected');
    // Of several nodes one may be down: the others' pods are shown.
    if (read.length === 0 && failed !== undefined) throw failed.reason;
    const found = new Map<string, PodUsage>();
    for (const { metadata } of pods) {
      const uid = metadata.uid ?? '';
      const usage = read.map(({ value }) => value.get(uid)).find((each) => each !== undefined);
      if (usage !== undefined) found.set(uid, usage);
    }
    return found;
  }

  #node(node: string): Promise<Map<string, PodUsage>> {
    const now = this.#clock.monotonic();
    for (const [name, { takenAtMs }] of this.#readings)
      if (now - takenAtMs >= freshMs) this.#readings.delete(name);
    const known = this.#readings.get(node);
    if (known !== undefined) return known.usage;
    const usage = this.#ask(node);
    const reading = { takenAtMs: now, usage };
    this.#readings.set(node, reading);
    // A failure is not kept: the next who asks tries again.
    usage.catch(() => {
      if (this.#readings.get(node) === reading) this.#readings.delete(node);
    });
    return usage;
  }

  /** Shared by all who ask meanwhile, so that none of them can end it. */
  async #ask(node: string): Promise<Map<string, PodUsage>> {
    // Rates come from the kubelet: with its plain counters two readings would be needed, ten seconds apart.
    const path = `/api/v1/nodes/${encodeURIComponent(node)}/proxy/stats/summary?only_cpu_and_memory=true`;
    const summary = (await this.#client.raw('GET', path, { timeoutMs })) as Summary;
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
