import type { KubeObject } from '../../../kube/index.ts';
import { metricsVersion } from './documents.ts';
import { cpuQuantity, memoryQuantity } from './quantity.ts';
import type { ContainerUsage, PodUsage } from './usage.ts';

interface Usage {
  cpu: string;
  memory: string;
}

/** `PodMetrics` and `NodeMetrics` of metrics.k8s.io/v1beta1. */
export interface MetricsObject extends KubeObject {
  timestamp: string;
  window: string;
  usage?: Usage;
  containers?: { name: string; usage: Usage }[];
}

/** `names`: containers that the pod's owner knows of. */
export function podMetrics(
  tenantPod: KubeObject,
  { takenAtMs, windowMs, containers }: PodUsage,
  names: readonly string[],
): MetricsObject {
  const own = containers.filter(({ name }) => names.includes(name));
  return {
    ...common('PodMetrics', tenantPod, takenAtMs, windowMs),
    containers: own.map(({ name, ...used }) => ({ name, usage: quantities([used]) })),
  };
}

/** What the tenant's own pods use there: the rest of a node is nobody's business but the operator's. */
export function nodeMetrics(tenantNode: KubeObject, pods: readonly PodUsage[], nowMs: number): MetricsObject {
  const takenAtMs = Math.max(0, ...pods.map((pod) => pod.takenAtMs)) || nowMs;
  const windowMs = Math.max(0, ...pods.map((pod) => pod.windowMs));
  return {
    ...common('NodeMetrics', tenantNode, takenAtMs, windowMs),
    usage: quantities(pods.flatMap(({ containers }) => containers)),
  };
}

export function listOf(kind: string, items: readonly MetricsObject[]): object {
  return { kind: `${kind}List`, apiVersion: metricsVersion, metadata: {}, items };
}

/** For `kubectl get`. */
export function tableOf(items: readonly MetricsObject[]): object {
  const column = (name: string, format = ''): object => ({
    name,
    type: 'string',
    format,
    description: name,
    priority: 0,
  });
  return {
    kind: 'Table',
    apiVersion: 'meta.k8s.io/v1',
    metadata: {},
    columnDefinitions: [column('Name', 'name'), column('cpu'), column('memory'), column('Window')],
    rows: items.map((item) => {
      const { kind: _kind, apiVersion: _apiVersion, metadata } = item;
      const used = item.usage ?? sum(item.containers ?? []);
      return {
        cells: [metadata.name, used.cpu, used.memory, item.window],
        object: { kind: 'PartialObjectMetadata', apiVersion: 'meta.k8s.io/v1', metadata },
      };
    }),
  };
}

function common(kind: string, { metadata }: KubeObject, takenAtMs: number, windowMs: number): MetricsObject {
  const { name, namespace, labels } = metadata;
  const timestamp = `${new Date(takenAtMs).toISOString().slice(0, 19)}Z`;
  return {
    kind,
    apiVersion: metricsVersion,
    metadata: {
      ...(name === undefined ? {} : { name }),
      ...(namespace === undefined ? {} : { namespace }),
      ...(labels === undefined ? {} : { labels }),
      creationTimestamp: timestamp,
    },
    timestamp,
    window: `${windowMs / 1000}s`,
  };
}

function quantities(used: readonly Omit<ContainerUsage, 'name'>[]): Usage {
  return {
    cpu: cpuQuantity(used.reduce((total, { nanoCores }) => total + nanoCores, 0)),
    memory: memoryQuantity(used.reduce((total, { workingSetBytes }) => total + workingSetBytes, 0)),
  };
}

function sum(containers: readonly { usage: Usage }[]): Usage {
  const number = (text: string): number => Number.parseInt(text, 10) || 0;
  const total = (field: keyof Usage): number =>
    containers.reduce((all, { usage }) => all + number(usage[field]), 0);
  return { cpu: cpuQuantity(total('cpu')), memory: memoryQuantity(total('memory') * 1024) };
}
