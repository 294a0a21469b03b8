import type { ServerResponse } from 'node:http';
import { type Clock, type KubeObject, resources, withoutUndefined } from '../../kube/index.ts';
import type { Pod } from '../kinds/pods/types.ts';
import { shownNodeName } from '../mapping/node-names.ts';
import {
  containersOf,
  type KubeletTenant,
  type PodPair,
  pairOf,
  superPodOf,
  superPodsOf,
} from './find-pod.ts';
import type { Client } from './kubelet-tenants.ts';
import { type ListDocument, type ListResponses, listChunks } from './list-responses.ts';
import { Refusal } from './refusal.ts';
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

function badSelector(message: string): Refusal {
  return new Refusal(400, message);
}

/** A refusal as Kubernetes' clients understand it, which is plain text of a kubelet. */
function statusOf({ status: code, message }: Refusal): object {
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
  429: 'TooManyRequests',
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

function podMetrics(tenantPod: KubeObject, { takenAtMs, windowMs, containers }: PodUsage): MetricsObject {
  return {
    ...common('PodMetrics', tenantPod, takenAtMs, windowMs),
    containers: containers.map(({ name, ...used }) => ({ name, usage: quantities([used]) })),
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

function listOf(kind: string): ListDocument<MetricsObject> {
  return {
    beginning: { kind: `${kind}List`, apiVersion: metricsVersion, metadata: {} },
    list: 'items',
    itemOf: (item) => item,
  };
}

/** For `kubectl get`. */
function table(): ListDocument<MetricsObject> {
  const column = (name: string, format = ''): object => ({
    name,
    type: 'string',
    format,
    description: name,
    priority: 0,
  });
  return {
    beginning: {
      kind: 'Table',
      apiVersion: 'meta.k8s.io/v1',
      metadata: {},
      columnDefinitions: [column('Name', 'name'), column('cpu'), column('memory'), column('Window')],
    },
    list: 'rows',
    itemOf: ({ kind: _kind, apiVersion: _apiVersion, ...item }) => {
      const { metadata } = item;
      const used = item.usage ?? sum(item.containers ?? []);
      return {
        cells: [metadata.name, used.cpu, used.memory, item.window],
        object: { kind: 'PartialObjectMetadata', apiVersion: 'meta.k8s.io/v1', metadata },
      };
    },
  };
}

function common(kind: string, { metadata }: KubeObject, takenAtMs: number, windowMs: number): MetricsObject {
  const { name, namespace, labels } = metadata;
  const timestamp = `${new Date(takenAtMs).toISOString().slice(0, 19)}Z`;
  return {
    kind,
    apiVersion: metricsVersion,
    metadata: withoutUndefined({ name, namespace, labels, creationTimestamp: timestamp }),
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

/** A label selector as it stands in a query, as a predicate. Throws Refusal. */
export function labelSelector(text: string): Selector {
  const terms = requirements(text).map(labelTerm);
  return (object) => terms.every((term) => term(object.metadata.labels ?? {}));
}

/** A field selector; of fields only the name and the namespace can be had. Throws Refusal. */
function fieldSelector(text: string): Selector {
  const terms = requirements(text).map((term) => {
    const match = /^metadata\.(name|namespace)\s*(!=|==|=)\s*(\S*)$/.exec(term);
    if (match === null) throw badSelector(`field selector "${term}" is not supported`);
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
  if (presence === null) throw badSelector(`unable to parse requirement: "${term}"`);
  const [, not, name = ''] = presence;
  return (labels) => (own(labels, name) !== undefined) === (not === '');
}

function own(labels: Record<string, string>, name: string): string | undefined {
  return Object.hasOwn(labels, name) ? labels[name] : undefined;
}

/**
 * The requirements of a selector: its text cut at commas outside of parentheses, in linear time, since a tenant may write
 * whatever it likes. Throws Refusal for a text or a number of requirements beyond the limits.
 */
function requirements(text: string): string[] {
  if (text.length > maxSelectorLength)
    throw badSelector(`the selector has ${text.length} characters; at most ${maxSelectorLength} are allowed`);
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
    throw badSelector(
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

/** What is asked for, or the discovery document that answers it. Throws Refusal. */
function askedBy({ path, method, query }: MetricsRequest): Asked | { document: object } {
  if (method !== 'GET') throw new Refusal(405, `${method} is not supported on ${path}`);
  const document = discoveryDocument(path);
  if (document !== undefined) return { document };
  const asked = parse(path);
  if (asked === undefined) throw new Refusal(404, `there is nothing at ${path}`);
  if (['true', '1'].includes(query.get('watch') ?? '')) throw new Refusal(405, 'metrics cannot be watched');
  return asked;
}

interface Asked {
  readonly kind: 'PodMetrics' | 'NodeMetrics';
  readonly namespace?: string;
  readonly name?: string;
}

export interface MetricsApiOptions {
  answers: ListResponses;
  reader: Pick<UsageReader, 'read'>;
  /** Of the super cluster. */
  nodes: () => Iterable<KubeObject>;
  clock: Clock;
  /** Figures could not be read, and a tenant was told so. */
  onFault?: (error: unknown) => void;
}

/**
 * `metrics.k8s.io` as a tenant's API server passes requests for it on: the usage of the tenant's own pods. It looks
 * at what really runs, however many objects the tenant's API server says that there are.
 */
export class MetricsApi {
  readonly #options: MetricsApiOptions;

  constructor(options: MetricsApiOptions) {
    this.#options = options;
  }

  /** Answers whatever is asked, with a Status where it is refused. */
  async answer({ tenant }: Client, request: MetricsRequest, response: ServerResponse): Promise<void> {
    try {
      const asked = askedBy(request);
      if ('document' in asked) return writeOne(response, 200, asked.document);
      const { answers } = this.#options;
      await answers.answer(tenant, response, (signal) => this.#pieces(tenant, asked, request, signal));
    } catch (error) {
      if (response.headersSent || !(error instanceof Refusal)) throw error;
      writeOne(response, error.status, statusOf(error));
    }
  }

  async #pieces(
    tenant: KubeletTenant,
    asked: Asked,
    { query, accept }: MetricsRequest,
    signal: AbortSignal,
  ): Promise<AsyncIterable<string> | Iterable<string>> {
    const items = await this.#items(tenant, asked, query, signal);
    const isTable = accept.includes('as=Table');
    if (asked.name === undefined) return listChunks(isTable ? table() : listOf(asked.kind), items);
    const { value: item } = await items.next();
    if (item === undefined) throw notFound(asked);
    return isTable ? listChunks(table(), [item]) : [JSON.stringify(item)];
  }

  async #items(
    tenant: KubeletTenant,
    asked: Asked,
    query: URLSearchParams,
    signal: AbortSignal,
  ): Promise<AsyncGenerator<MetricsObject, undefined>> {
    if (!tenant.isComplete)
      throw new Refusal(503, 'the pods of this cluster are not known yet; try again in a moment');
    const isWanted = selectorOf(asked, query);
    if (asked.kind === 'PodMetrics') {
      const pairs: PodPair[] = [];
      for await (const pair of this.#pairs(tenant, asked, signal)) if (isWanted(pair.pod)) pairs.push(pair);
      const usage = await this.#read(tenant, pairs, signal);
      return this.#options.answers.inSlices(podItems(pairs, usage), signal);
    }
    const nodes: KubeObject[] = [];
    for await (const node of this.#nodes(tenant, asked, signal)) if (isWanted(node)) nodes.push(node);
    const names = new Set(nodes.map(({ metadata }) => metadata.name));
    const pairs: PodPair[] = [];
    for await (const pair of this.#pairs(tenant, {}, signal))
      if (names.has(pair.pod.spec?.nodeName)) pairs.push(pair);
    const usage = await this.#read(tenant, pairs, signal);
    return this.#options.answers.inSlices(nodeItems(nodes, pairs, usage, this.#options.clock.now()), signal);
  }

  async *#pairs(
    tenant: KubeletTenant,
    { namespace = '', name }: Pick<Asked, 'namespace' | 'name'>,
    signal: AbortSignal,
  ): AsyncGenerator<PodPair> {
    if (name !== undefined) {
      const pod = tenant.context().tenantObjects.get<Pod>(resources.pods, { namespace, name });
      const superPod = pod && superPodOf(tenant, pod);
      if (pod !== undefined && superPod !== undefined) yield { pod, superPod };
      return;
    }
    for await (const superPod of this.#options.answers.inSlices(superPodsOf(tenant), signal)) {
      const pair = pairOf(tenant, superPod);
      if (pair !== undefined) yield pair;
    }
  }

  /** As the tenant sees them: those of the super cluster that its API server has, or the one that is asked for. */
  async *#nodes(tenant: KubeletTenant, { name }: Asked, signal: AbortSignal): AsyncGenerator<KubeObject> {
    const { tenantObjects, tenant: info } = tenant.context();
    const shown = (shownName: string): KubeObject | undefined =>
      tenantObjects.get(resources.nodes, { name: shownName });
    const superNodes = name === undefined ? this.#options.nodes() : [];
    const only = name === undefined ? undefined : shown(name);
    if (only !== undefined) yield only;
    for await (const { metadata } of this.#options.answers.inSlices(superNodes, signal)) {
      const node = shown(shownNodeName(info, metadata.name ?? ''));
      if (node !== undefined) yield node;
    }
  }

  /** By UID of the super pod. */
  async #read(
    tenant: KubeletTenant,
    pairs: readonly PodPair[],
    signal: AbortSignal,
  ): Promise<Map<string, PodUsage>> {
    let usage: Map<string, PodUsage> | undefined;
    try {
      const { uid } = tenant.context().tenant;
      usage = await this.#options.reader.read(
        pairs.map(({ superPod }) => superPod),
        uid,
        signal,
      );
    } catch (error) {
      if (signal.aborted) throw error;
      this.#options.onFault?.(error);
      throw new Refusal(503, 'the nodes do not tell what pods use at the moment; try again');
    }
    if (usage === undefined) {
      throw new Refusal(503, 'there are no metrics: the nodes of this cluster do not tell what pods use');
    }
    return usage;
  }
}

type UsageByUid = ReadonlyMap<string, PodUsage>;

function* podItems(pairs: readonly PodPair[], usage: UsageByUid): Generator<MetricsObject> {
  for (const { pod, superPod } of pairs) {
    for (const used of ownPart(pod, usage.get(superPod.metadata.uid ?? ''))) yield podMetrics(pod, used);
  }
}

function* nodeItems(
  nodes: readonly KubeObject[],
  pairs: readonly PodPair[],
  usage: UsageByUid,
  nowMs: number,
): Generator<MetricsObject> {
  const byNode = Map.groupBy(pairs, ({ pod }) => pod.spec?.nodeName);
  for (const node of nodes) {
    const used = (byNode.get(node.metadata.name) ?? []).flatMap(({ pod, superPod }) =>
      ownPart(pod, usage.get(superPod.metadata.uid ?? '')),
    );
    yield nodeMetrics(node, used, nowMs);
  }
}

function writeOne(response: ServerResponse, code: number, body: object): void {
  response.writeHead(code, { 'content-type': 'application/json' });
  response.end(JSON.stringify(body));
}

/** Without what the super cluster has put into the pod. */
function ownPart(pod: Pod, usage: PodUsage | undefined): PodUsage[] {
  if (usage === undefined) return [];
  const names = containersOf(pod);
  return [{ ...usage, containers: usage.containers.filter(({ name }) => names.has(name)) }];
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

function notFound({ kind, namespace, name }: Asked): Refusal {
  const ref = namespace === undefined ? name : `${namespace}/${name}`;
  return new Refusal(404, `${kind.toLowerCase()}.${metricsGroup} "${ref}" not found`);
}
