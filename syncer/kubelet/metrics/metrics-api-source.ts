import { labelKeys } from '../../../api/labels.ts';
import { type KubeClient, parseQuantity } from '../../../kube/index.ts';
import type { Pod } from '../find-pod.ts';
import type { PodUsage, UsageSource } from './usage.ts';

const api = '/apis/metrics.k8s.io/v1beta1';
const timeoutMs = 10_000;

interface PodMetrics {
  metadata?: { namespace?: string; name?: string };
  timestamp?: string;
  window?: string;
  containers?: { name?: string; usage?: { cpu?: string; memory?: string } }[];
}

/** The metrics API of the super cluster, asked for what bears the tenant's label. */
export class MetricsApiSource implements UsageSource {
  readonly #client: KubeClient;

  constructor(client: KubeClient) {
    this.#client = client;
  }

  /** Whether the super cluster has that API now. */
  async isThere(signal: AbortSignal): Promise<boolean> {
    try {
      await this.#client.raw('GET', api, { signal, timeoutMs });
      return true;
    } catch (error) {
      if (signal.aborted) throw error;
      return false;
    }
  }

  async read(pods: readonly Pod[], tenantUid: string, signal: AbortSignal): Promise<Map<string, PodUsage>> {
    const byName = new Map(pods.map((pod) => [nameOf(pod.metadata), pod.metadata.uid ?? '']));
    const namespaces = new Set(pods.map(({ metadata }) => metadata.namespace ?? ''));
    const [only = ''] = namespaces;
    const where = namespaces.size === 1 ? `namespaces/${encodeURIComponent(only)}/` : '';
    const selector = encodeURIComponent(`${labelKeys.tenant}=${tenantUid}`);
    const path = `${api}/${where}pods?labelSelector=${selector}`;
    const list = (await this.#client.raw('GET', path, { signal, timeoutMs })) as { items?: PodMetrics[] };
    const found = new Map<string, PodUsage>();
    for (const item of list.items ?? []) {
      const uid = byName.get(nameOf(item.metadata ?? {}));
      if (uid !== undefined) found.set(uid, usageOf(item));
    }
    return found;
  }
}

function nameOf({ namespace = '', name = '' }: { namespace?: string; name?: string }): string {
  return `${namespace}/${name}`;
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
