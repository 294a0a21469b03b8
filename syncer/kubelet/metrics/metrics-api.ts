import type { ServerResponse } from 'node:http';
import type { Clock, KubeObject } from '../../../kube/index.ts';
import { containersOf, type KubeletTenant, type Pod, superPodOf } from '../find-pod.ts';
import type { Client } from '../kubelet-tenants.ts';
import { discoveryDocument, metricsVersion, statusOf } from './documents.ts';
import { listOf, type MetricsObject, nodeMetrics, podMetrics, tableOf } from './metrics-objects.ts';
import { fieldSelector, labelSelector, type Selector, SelectorError } from './selectors.ts';
import type { PodUsage } from './usage.ts';
import type { UsageReader } from './usage-reader.ts';

export interface MetricsRequest {
  readonly path: string;
  readonly query: URLSearchParams;
  readonly method: string;
  readonly accept: string;
}

/** A refusal of this API, which is a Status where a kubelet's is plain text. */
class MetricsRefusal extends Error {
  readonly code: number;

  constructor(code: number, message: string) {
    super(message);
    this.code = code;
  }
}

interface Asked {
  readonly kind: 'PodMetrics' | 'NodeMetrics';
  readonly namespace?: string;
  readonly name?: string;
}

/** `metrics.k8s.io` as a tenant's API server passes requests for it on: the usage of the tenant's own pods. */
export class MetricsApi {
  readonly #reader: Pick<UsageReader, 'read'>;
  readonly #clock: Clock;
  readonly #onFault: (error: unknown) => void;

  /** `onFault`: figures could not be read, and a tenant was told so. */
  constructor(
    reader: Pick<UsageReader, 'read'>,
    clock: Clock,
    onFault: (error: unknown) => void = () => undefined,
  ) {
    this.#reader = reader;
    this.#clock = clock;
    this.#onFault = onFault;
  }

  /** Answers whatever is asked, with a Status where it is refused. */
  async answer({ tenant }: Client, request: MetricsRequest, response: ServerResponse): Promise<void> {
    const ending = new AbortController();
    response.once('close', () => ending.abort(new Error('the client is gone')));
    let code = 200;
    let body: object;
    try {
      body = await this.#body(tenant, request, ending.signal);
    } catch (error) {
      if (ending.signal.aborted) throw error;
      ({ code, body } = refused(error));
    }
    response.writeHead(code, { 'content-type': 'application/json' });
    response.end(JSON.stringify(body));
  }

  async #body(tenant: KubeletTenant, request: MetricsRequest, signal: AbortSignal): Promise<object> {
    if (request.method !== 'GET')
      throw new MetricsRefusal(405, `${request.method} is not supported on ${request.path}`);
    const document = discoveryDocument(request.path);
    if (document !== undefined) return document;
    const asked = parse(request.path);
    if (asked === undefined) throw new MetricsRefusal(404, `there is nothing at ${request.path}`);
    if (['true', '1'].includes(request.query.get('watch') ?? ''))
      throw new MetricsRefusal(405, 'metrics cannot be watched');
    const items = await this.#items(tenant, asked, request.query, signal);
    const isTable = request.accept.includes('as=Table');
    if (asked.name === undefined) return isTable ? tableOf(items) : listOf(asked.kind, items);
    const [item] = items;
    if (item === undefined) throw notFound(asked);
    return isTable ? tableOf(items) : item;
  }

  async #items(
    tenant: KubeletTenant,
    asked: Asked,
    query: URLSearchParams,
    signal: AbortSignal,
  ): Promise<MetricsObject[]> {
    if (!tenant.isComplete)
      throw new MetricsRefusal(503, 'the pods of this cluster are not known yet; try again in a moment');
    const isWanted = selectorOf(asked, query);
    if (asked.kind === 'PodMetrics') {
      const pods = [...tenant.pods()].filter(isWanted);
      const usage = await this.#read(tenant, pods, signal);
      return pods.flatMap((pod) => {
        const used = usage.get(pod);
        return used === undefined ? [] : [podMetrics(pod, used, containersOf(pod))];
      });
    }
    const nodes = [...tenant.nodes()].filter(isWanted);
    const names = new Set(nodes.map(({ metadata }) => metadata.name));
    const pods = [...(tenant.pods() as Iterable<Pod>)].filter(({ spec }) => names.has(spec?.nodeName));
    const usage = await this.#read(tenant, pods, signal);
    return nodes.map((node) => {
      const there = pods.filter(({ spec }) => spec?.nodeName === node.metadata.name);
      const used = there.flatMap((pod) => ownPart(pod, usage.get(pod)));
      return nodeMetrics(node, used, this.#clock.now());
    });
  }

  /** By the tenant's pods. */
  async #read(
    tenant: KubeletTenant,
    pods: readonly KubeObject[],
    signal: AbortSignal,
  ): Promise<Map<KubeObject, PodUsage>> {
    const pairs = pods.flatMap((pod) => {
      const superPod = superPodOf(tenant, pod);
      return superPod === undefined ? [] : [{ pod, superPod }];
    });
    let usage: Map<string, PodUsage> | undefined;
    try {
      const { uid } = tenant.context().tenant;
      usage = await this.#reader.read(
        pairs.map(({ superPod }) => superPod),
        uid,
        signal,
      );
    } catch (error) {
      if (signal.aborted) throw error;
      this.#onFault(error);
      throw new MetricsRefusal(503, 'the nodes do not tell what pods use at the moment; try again');
    }
    if (usage === undefined) {
      throw new MetricsRefusal(
        503,
        'there are no metrics: the nodes of this cluster do not tell what pods use',
      );
    }
    return new Map(
      pairs.flatMap(({ pod, superPod }) => {
        const used = usage.get(superPod.metadata.uid ?? '');
        return used === undefined ? [] : [[pod, used] as const];
      }),
    );
  }
}

/** Without what the super cluster has put into the pod. */
function ownPart(pod: Pod, usage: PodUsage | undefined): PodUsage[] {
  if (usage === undefined) return [];
  const names = containersOf(pod);
  return [{ ...usage, containers: usage.containers.filter(({ name }) => names.includes(name)) }];
}

const base = `/apis/${metricsVersion}/`;

function parse(path: string): Asked | undefined {
  if (!path.startsWith(base)) return undefined;
  let parts: string[];
  try {
    parts = path.slice(base.length).replace(/\/$/, '').split('/').map(decodeURIComponent);
  } catch {
    return undefined;
  }
  const isNamespaced = parts[0] === 'namespaces';
  const [resource, name, ...more] = isNamespaced ? parts.slice(2) : parts;
  const namespace = isNamespaced ? parts[1] : undefined;
  const named = { ...(namespace && { namespace }), ...(name && { name }) };
  if (more.length > 0 || parts.some((part) => part === '')) return undefined;
  if (resource === 'pods' && (isNamespaced || name === undefined)) return { kind: 'PodMetrics', ...named };
  if (resource === 'nodes' && !isNamespaced) return { kind: 'NodeMetrics', ...named };
  return undefined;
}

function selectorOf({ namespace, name }: Asked, query: URLSearchParams): Selector {
  const labels = labelSelector(query.get('labelSelector') ?? '');
  const fields = fieldSelector(query.get('fieldSelector') ?? '');
  return (object) =>
    (namespace === undefined || object.metadata.namespace === namespace) &&
    (name === undefined || object.metadata.name === name) &&
    labels(object) &&
    fields(object);
}

function notFound({ kind, namespace, name }: Asked): MetricsRefusal {
  const what = kind === 'PodMetrics' ? `podmetrics.${resourceGroup}` : `nodemetrics.${resourceGroup}`;
  return new MetricsRefusal(
    404,
    `${what} "${namespace === undefined ? '' : `${namespace}/`}${name}" not found`,
  );
}

const resourceGroup = metricsVersion.split('/')[0];

function refused(error: unknown): { code: number; body: object } {
  if (error instanceof MetricsRefusal) return { code: error.code, body: statusOf(error.code, error.message) };
  if (error instanceof SelectorError) return { code: 400, body: statusOf(400, error.message) };
  throw error;
}
