import { once } from 'node:events';
import type { ServerResponse } from 'node:http';
import { type Clock, type KubeObject, resources } from '../../kube/index.ts';
import type { Pod } from '../kinds/pods/types.ts';
import { realNodeName } from '../mapping/node-names.ts';
import { containersOf, type KubeletTenant, type PodPair, pairOf } from './find-pod.ts';
import type { Client } from './kubelet-tenants.ts';
import { notReady, Refusal } from './refusal.ts';
import type { ContainerUsage, PodUsage, UsageReader } from './usage-sources.ts';

/** What a kubelet tells of its whole node, and a tenant learns of its own pods there. */
export interface NodeRequest {
  readonly what: 'pods' | 'summary';
  /** As the tenant sees it; undefined when the request does not say. */
  readonly node: string | undefined;
}

/** `/pods` and `/stats/summary` of a node: the tenant's own pods there, and nothing else of the node. */
export class NodeApi {
  readonly #reader: Pick<UsageReader, 'read'>;
  readonly #clock: Clock;
  readonly #onFault: (error: unknown) => void;

  /** `onFault`: figures could not be read; the summary goes without them. */
  constructor(reader: Pick<UsageReader, 'read'>, clock: Clock, onFault: (error: unknown) => void) {
    this.#reader = reader;
    this.#clock = clock;
    this.#onFault = onFault;
  }

  /** Throws Refusal. */
  async answer(
    { uid, tenant }: Client,
    { what, node }: NodeRequest,
    response: ServerResponse,
  ): Promise<void> {
    const pairs = podsOn(tenant, node);
    const ending = new AbortController();
    response.once('close', () => ending.abort(new Error('the client is gone')));
    if (what === 'pods') return writePodList(pairs, response, ending.signal);
    const usage = await this.#usage(uid, pairs, ending.signal);
    response.writeHead(200, json);
    response.end(JSON.stringify(summaryOf(node ?? '', pairs, usage, this.#clock.now())));
  }

  async #usage(uid: string, pairs: readonly PodPair[], signal: AbortSignal): Promise<Map<string, PodUsage>> {
    const superPods = pairs.map(({ superPod }) => superPod);
    try {
      return (await this.#reader.read(superPods, uid, signal)) ?? new Map();
    } catch (error) {
      if (signal.aborted) throw error;
      this.#onFault(error);
      return new Map();
    }
  }
}

const json = { 'content-type': 'application/json' };

/** By way of the super cluster's pods, of which a node has only so many, whatever the tenant's API server says. */
function podsOn(tenant: KubeletTenant, shownName: string | undefined): PodPair[] {
  if (!tenant.isComplete) throw notReady();
  const context = tenant.context();
  const { superObjects, tenantObjects, tenant: info } = context;
  if (shownName === undefined)
    throw new Refusal(400, 'the request does not say of which node: ask for /api/v1/nodes/NAME/proxy/...');
  const superName = realNodeName(context, shownName);
  if (superName === undefined || tenantObjects.get(resources.nodes, { name: shownName }) === undefined)
    throw new Refusal(404, `node "${shownName}" does not exist`);
  return superObjects
    .byIndex<Pod>(resources.pods, 'byTenantNode', `${info.uid}/${superName}`)
    .flatMap((superPod) => pairOf(tenant, superPod) ?? []);
}

/** A PodList as kubelets write it, pod by pod, so that a long one does not hold up the thread. */
async function writePodList(
  pairs: readonly PodPair[],
  response: ServerResponse,
  signal: AbortSignal,
): Promise<void> {
  response.writeHead(200, json);
  response.write('{"kind":"PodList","apiVersion":"v1","metadata":{},"items":[');
  for (const [index, { pod }] of pairs.entries()) {
    const { apiVersion: _apiVersion, kind: _kind, ...item } = pod;
    const text = `${index === 0 ? '' : ','}${JSON.stringify(item)}`;
    if (!response.write(text)) await once(response, 'drain', { signal });
  }
  response.end(']}');
}

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

/**
 * A Summary of `stats/v1alpha1`. Of the node it says what the tenant's own pods use there; a pod without figures is
 * listed without them, as kubelets do with one that has just started.
 */
function summaryOf(
  nodeName: string,
  pairs: readonly PodPair[],
  usage: ReadonlyMap<string, PodUsage>,
  nowMs: number,
): object {
  const all: ContainerUsage[] = [];
  const pods = pairs.map(({ pod, superPod }) => {
    const { name, namespace, uid } = pod.metadata;
    const common = { podRef: { name, namespace, uid }, startTime: startTime(pod) };
    const used = usage.get(superPod.metadata.uid ?? '');
    if (used === undefined) return { ...common, containers: [] };
    const names = containersOf(pod);
    const own = used.containers.filter((container) => names.includes(container.name));
    all.push(...own);
    const time = timestamp(used.takenAtMs);
    const containers = own.map((container) => ({ name: container.name, ...statsOf(time, [container]) }));
    return { ...common, containers, ...statsOf(time, own) };
  });
  return { node: { nodeName, ...statsOf(timestamp(nowMs), all) }, pods };
}

function startTime(pod: KubeObject): string | undefined {
  const time = (pod['status'] as { startTime?: unknown } | undefined)?.startTime;
  return typeof time === 'string' ? time : undefined;
}

function timestamp(ms: number): string {
  return `${new Date(ms).toISOString().slice(0, 19)}Z`;
}
