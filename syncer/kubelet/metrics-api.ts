import type { ServerResponse } from 'node:http';
import type { Clock, KubeObject } from '../../kube/index.ts';
import { containersOf, type KubeletTenant, type Pod, superPodOf } from './find-pod.ts';
import type { Client } from './kubelet-tenants.ts';
import type { ContainerUsage, PodUsage, UsageReader } from './usage-sources.ts';

/** What the metrics API says of itself. */
export const metricsGroup = 'metrics.k8s.io';
const metricsVersion = `${metricsGroup}/v1beta1`;

const version = { groupVersion: metricsVersion, version: 'v1beta1' };
const group = { name: metricsGroup, versions: [version], preferredVersion: version };
const verbs = ['get', 'list'];

const documents: Readonly<Record<string, object>> = {
  '/apis': { kind: 'APIGroupList', apiVersion: 'v1', groups: [group] },
  [`/apis/${metricsGroup}`]: { kind: 'APIGroup', apiVersion: 'v1', ...group },
  [`/apis/${metricsVersion}`]: {
    kind: 'APIResourceList',
    apiVersion: 'v1',
    groupVersion: metricsVersion,
    resources: [
      { name: 'nodes', singularName: '', namespaced: false, kind: 'NodeMetrics', verbs },
      { name: 'pods', singularName: '', namespaced: true, kind: 'PodMetrics', verbs },
    ],
  },
};

/** The discovery document at a path, if there is one. */
function discoveryDocument(path: string): object | undefined {
  let end = path.length;
  while (path[end - 1] === '/') end -= 1;
  const name = path.slice(0, end);
  return Object.hasOwn(documents, name) ? documents[name] : undefined;
}

/** A refusal as Kubernetes' clients understand it. */
function statusOf(code: number, message: string): object {
  return {
    kind: 'Status',
    apiVersion: 'v1',
    metadata: {},
    status: 'Failure',
    message,
    reason: reasons[code],
    code,
  };
}

const reasons: Readonly<Record<number, string>> = {
  400: 'BadRequest',
  404: 'NotFound',
  405: 'MethodNotAllowed',
  500: 'InternalError',
  503: 'ServiceUnavailable',
};

function cpuQuantity(nanoCores: number): string {
  return nanoCores <= 0 ? '0' : `${Math.round(nanoCores)}n`;
}

function memoryQuantity(bytes: number): string {
  return bytes <= 0 ? '0' : `${Math.round(bytes / 1024)}Ki`;
}

interface Usage {
  cpu: string;
  memory: string;
}

/** `PodMetrics` and `NodeMetrics` of metrics.k8s.io/v1beta1. */
interface MetricsObject extends KubeObject {
  timestamp: string;
  window: string;
  usage?: Usage;
  containers?: { name: string; usage: Usage }[];
}

/** `names`: containers that the pod's owner knows of. */
function podMetrics(
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

/** What the tenant's own pods use there: the rest of a node concerns the operator only. */
function nodeMetrics(tenantNode: KubeObject, pods: readonly PodUsage[], nowMs: number): MetricsObject {
  const takenAtMs = Math.max(0, ...pods.map((pod) => pod.takenAtMs)) || nowMs;
  const windowMs = Math.max(0, ...pods.map((pod) => pod.windowMs));
  return {
    ...common('NodeMetrics', tenantNode, takenAtMs, windowMs),
    usage: quantities(pods.flatMap(({ containers }) => containers)),
  };
}

function listOf(kind: string, items: readonly MetricsObject[]): object {
  return { kind: `${kind}List`, apiVersion: metricsVersion, metadata: {}, items };
}

/** For `kubectl get`. */
function tableOf(items: readonly MetricsObject[]): object {
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

/** Characters of a selector. A request line may have a mebibyte, and each requirement is asked of every pod. */
const maxSelectorLength = 8_192;
const maxRequirements = 100;

type Selector = (object: KubeObject) => boolean;

/** What is wrong with a selector, for a 400. */
export class SelectorError extends Error {}

/** A label selector as it stands in a query, as a predicate. Throws SelectorError. */
export function labelSelector(text: string): Selector {
  const terms = requirements(text).map(labelTerm);
  return (object) => terms.every((term) => term(object.metadata.labels ?? {}));
}

/** A field selector; of fields only the name and the namespace can be had. Throws SelectorError. */
function fieldSelector(text: string): Selector {
  const terms = requirements(text).map((term) => {
    const match = /^metadata\.(name|namespace)\s*(!=|==|=)\s*(\S*)$/.exec(term);
    if (match === null) throw new SelectorError(`field selector "${term}" is not supported`);
    const [, field, operator, value] = match;
    return ({ metadata }: KubeObject) =>
      ((field === 'name' ? metadata.name : metadata.namespace) === value) !== (operator === '!=');
  });
  return (object) => terms.every((term) => term(object));
}

type LabelTerm = (labels: Record<string, string>) => boolean;

const key = '[A-Za-z0-9][-A-Za-z0-9_./]*';
const setTerm = new RegExp(`^(${key})\\s+(in|notin)\\s*\\(([^()]*)\\)$`);
const equalTerm = new RegExp(`^(${key})\\s*(!=|==|=)\\s*([-A-Za-z0-9_.]*)$`);
const orderTerm = new RegExp(`^(${key})\\s*([<>])\\s*(-?[0-9]+)$`);
const presenceTerm = new RegExp(`^(!?)\\s*(${key})$`);

function labelTerm(term: string): LabelTerm {
  const set = setTerm.exec(term);
  if (set !== null) {
    const [, name = '', operator, list = ''] = set;
    const values = new Set(list.split(',').map((value) => value.trim()));
    return (labels) => {
      const value = own(labels, name);
      return (value !== undefined && values.has(value)) === (operator === 'in');
    };
  }
  const equal = equalTerm.exec(term);
  if (equal !== null) {
    const [, name = '', operator, value] = equal;
    return (labels) => (own(labels, name) === value) !== (operator === '!=');
  }
  const order = orderTerm.exec(term);
  if (order !== null) {
    const [, name = '', operator, bound] = order;
    return (labels) => {
      const value = own(labels, name);
      if (value === undefined || !/^-?[0-9]+$/.test(value)) return false;
      return operator === '>' ? Number(value) > Number(bound) : Number(value) < Number(bound);
    };
  }
  const presence = presenceTerm.exec(term);
  if (presence === null) throw new SelectorError(`unable to parse requirement: "${term}"`);
  const [, not, name = ''] = presence;
  return (labels) => (own(labels, name) !== undefined) === (not === '');
}

function own(labels: Record<string, string>, name: string): string | undefined {
  return Object.hasOwn(labels, name) ? labels[name] : undefined;
}

/**
 * The requirements of a selector: its text cut at commas outside of parentheses, in linear time, since a tenant may write
 * whatever it likes. Throws SelectorError for a text or a number of requirements beyond the limits.
 */
function requirements(text: string): string[] {
  if (text.length > maxSelectorLength)
    throw new SelectorError(
      `the selector has ${text.length} characters; at most ${maxSelectorLength} are allowed`,
    );
  const terms: string[] = [];
  let start = 0;
  let depth = 0;
  for (let at = 0; at <= text.length; at++) {
    const character = text[at];
    if (character === '(') depth += 1;
    else if (character === ')') depth = Math.max(0, depth - 1);
    else if (at === text.length || (character === ',' && depth === 0)) {
      const term = text.slice(start, at).trim();
      if (term !== '') terms.push(term);
      start = at + 1;
    }
  }
  if (terms.length > maxRequirements)
    throw new SelectorError(
      `the selector has ${terms.length} requirements; at most ${maxRequirements} are allowed`,
    );
  return terms;
}

interface MetricsRequest {
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
    const byNode = Map.groupBy(pods, ({ spec }) => spec?.nodeName);
    return nodes.map((node) => {
      const used = (byNode.get(node.metadata.name) ?? []).flatMap((pod) => ownPart(pod, usage.get(pod)));
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
