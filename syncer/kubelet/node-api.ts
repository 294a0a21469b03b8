import type { ServerResponse } from 'node:http';
import { type Clock, type KubeObject, resources } from '../../kube/index.ts';
import type { Pod } from '../kinds/pods/types.ts';
import { realNodeName } from '../mapping/node-names.ts';
import { containersOf, type KubeletTenant, type PodPair, pairOf } from './find-pod.ts';
import type { Client } from './kubelet-tenants.ts';
import { type ListDocument, type ListResponses, listChunks } from './list-responses.ts';
import { notReady, Refusal } from './refusal.ts';
import type { ContainerUsage, PodUsage, UsageReader } from './usage-sources.ts';

/** What a kubelet tells of its whole node, and a tenant learns of its own pods there. */
export interface NodeRequest {
  readonly what: 'pods' | 'summary';
  /** As the tenant sees it; undefined when the request does not say. */
  readonly node: string | undefined;
}

interface NodeApiOptions {
  answers: ListResponses;
  reader: Pick<UsageReader, 'read'>;
  clock: Clock;
  /** Figures could not be read; the summary goes without them. */
  onFault: (error: unknown) => void;
}

/** `/pods` and `/stats/summary` of a node: the tenant's own pods there, and nothing else of the node. */
export class NodeApi {
  readonly #options: NodeApiOptions;

  constructor(options: NodeApiOptions) {
    this.#options = options;
  }

  /** Throws Refusal. */
  async answer(client: Client, asked: NodeRequest, response: ServerResponse): Promise<void> {
    const { answers } = this.#options;
    await answers.answer(client.tenant, response, (signal) => this.#pieces(client, asked, signal));
  }

  async #pieces(
    { uid, tenant }: Client,
    { what, node }: NodeRequest,
    signal: AbortSignal,
  ): Promise<AsyncGenerator<string>> {
    const { answers, clock } = this.#options;
    const pairs: PodPair[] = [];
    for await (const superPod of answers.inSlices(podsOn(tenant, node), signal)) {
      const pair = pairOf(tenant, superPod);
      if (pair !== undefined) pairs.push(pair);
    }
    if (what === 'pods') return listChunks(podList, answers.inSlices(pairs, signal));
    const usage = await this.#usage(uid, pairs, signal);
    const pods: PodStats[] = [];
    for await (const pair of answers.inSlices(pairs, signal)) pods.push(podStats(pair, usage));
    const time = timestamp(clock.now());
    const all = pods.flatMap(({ own }) => own);
    const beginning = { node: { nodeName: node ?? '', ...statsOf(time, all) } };
    return listChunks(
      { beginning, list: 'pods', itemOf: ({ stats }) => stats },
      answers.inSlices(pods, signal),
    );
  }

  async #usage(uid: string, pairs: readonly PodPair[], signal: AbortSignal): Promise<Map<string, PodUsage>> {
    const { reader, onFault } = this.#options;
    const superPods = pairs.map(({ superPod }) => superPod);
    try {
      return (await reader.read(superPods, uid, signal)) ?? new Map();
    } catch (error) {
      if (signal.aborted) throw error;
      onFault(error);
      return new Map();
    }
  }
}

/** By way of the super cluster's pods, of which a node has only so many, whatever the tenant's API server says. */
function podsOn(tenant: KubeletTenant, shownName: string | undefined): readonly Pod[] {
  if (!tenant.isComplete) throw notReady();
  const context = tenant.context();
  const { superObjects, tenantObjects, tenant: info } = context;
  if (shownName === undefined)
    throw new Refusal(400, 'the request does not say of which node: ask for /api/v1/nodes/NAME/proxy/...');
  const superName = realNodeName(context, shownName);
  if (superName === undefined || tenantObjects.get(resources.nodes, { name: shownName }) === undefined)
    throw new Refusal(404, `node "${shownName}" does not exist`);
  return superObjects.byIndex<Pod>(resources.pods, 'byTenantNode', `${info.uid}/${superName}`);
}

/** A PodList as kubelets write it. */
const podList: ListDocument<PodPair> = {
  beginning: { kind: 'PodList', apiVersion: 'v1', metadata: {} },
  list: 'items',
  itemOf: ({ pod: { apiVersion: _apiVersion, kind: _kind, ...item } }) => item,
};

interface Stats {
  readonly cpu: { readonly time: string; readonly usageNanoCores: number };
  readonly memory: { readonly time: string; readonly workingSetBytes: number };
}

function statsOf(time: string, used: readonly Omit<ContainerUsage, 'name'>[]): Stats {
  const total = (field: 'nanoCores' | 'workingSetBytes'): number =>
    Math.round(used.reduce((sum, each) => sum + each[field], 0));
  return {
    cpu: { time, usageNanoCores: total('nanoCores') },
    memory: { time, workingSetBytes: total('workingSetBytes') },
  };
}

interface PodStats {
  readonly stats: object;
  /** What is counted of the pod for its node. */
  readonly own: readonly ContainerUsage[];
}

/**
 * A pod in a Summary of `stats/v1alpha1`, which says of the node what the tenant's own pods use there. One without figures
 * is listed without them, as kubelets do with one that has just started.
 */
function podStats({ pod, superPod }: PodPair, usage: ReadonlyMap<string, PodUsage>): PodStats {
  const { name, namespace, uid } = pod.metadata;
  const common = { podRef: { name, namespace, uid }, startTime: startTime(pod) };
  const used = usage.get(superPod.metadata.uid ?? '');
  if (used === undefined) return { stats: { ...common, containers: [] }, own: [] };
  const names = containersOf(pod);
  const own = used.containers.filter((container) => names.has(container.name));
  const time = timestamp(used.takenAtMs);
  const containers = own.map((container) => ({ name: container.name, ...statsOf(time, [container]) }));
  return { stats: { ...common, containers, ...statsOf(time, own) }, own };
}

function startTime(pod: KubeObject): string | undefined {
  const time = (pod['status'] as { startTime?: unknown } | undefined)?.startTime;
  return typeof time === 'string' ? time : undefined;
}

function timestamp(ms: number): string {
  return `${new Date(ms).toISOString().slice(0, 19)}Z`;
}
