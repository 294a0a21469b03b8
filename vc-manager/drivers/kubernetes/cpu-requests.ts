import { type Clock, ignoreNotFound, parseQuantity, resources } from '../../../kube/index.ts';
import type { ComponentPlan } from '../../control-plane/plan.ts';
import type { OnProblem } from '../driver.ts';
import type { SuperObjects } from './super-objects.ts';
import { fieldManager, type Pod } from './types.ts';

/** What a weight brings a request to at most, in thousandths of a CPU: a node reserves it. As with the compose driver. */
const mostByWeight = 500;

/**
 * What a component requests, in thousandths of a CPU: as its template says, times the weight; never less than its template
 * says, nor more than its limit. Undefined: its template requests no CPU, and no weight applies.
 */
export function cpuRequestOf(
  { resources: { requests, limits } = {} }: Pick<ComponentPlan, 'resources'>,
  weight: number,
): number | undefined {
  const asked = parseQuantity(requests?.['cpu']);
  if (asked === undefined) return undefined;
  const most = Math.min(mostByWeight, (parseQuantity(limits?.['cpu']) ?? Number.POSITIVE_INFINITY) * 1_000);
  return Math.round(Math.max(asked * 1_000, Math.min(asked * 1_000 * weight, most)));
}

/** Longer than a reconcile of the same pod lets wait. */
const rememberedForMs = 60 * 60_000;

interface CpuRequestsOptions {
  objects: SuperObjects;
  clock: Clock;
  onProblem: OnProblem;
}

/**
 * Brings the CPU requests of running pods to the weight of their tenant, in place: the StatefulSet keeps what the template
 * says, so that a change of weight replaces no pod. On a node without room a pod keeps its earlier request until there is some.
 */
export class CpuRequests {
  readonly #o: CpuRequestsOptions;
  /** UIDs of pods, with what was refused them, and when last on a monotonic clock: told once. The latest stand last. */
  readonly #refused = new Map<string, { wanted: number; atMs: number }>();

  constructor(options: CpuRequestsOptions) {
    this.#o = options;
  }

  /** A pod runs no worse with an earlier request, so that a refusal is no failure. */
  async set(
    pods: readonly Pod[],
    component: ComponentPlan,
    { weight, signal, beforeWrite }: { weight: number; signal: AbortSignal; beforeWrite: () => void },
  ): Promise<void> {
    this.#forgetOld();
    const wanted = cpuRequestOf(component, weight);
    if (wanted === undefined) return;
    for (const pod of pods) {
      if (pod.metadata.deletionTimestamp !== undefined) continue;
      // What others have lowered stays, where no weight says more.
      if (weight === 1 && !isResized(pod)) continue;
      beforeWrite();
      await this.#resize(pod, component.name, wanted, signal);
    }
  }

  async #resize(pod: Pod, container: string, wanted: number, signal: AbortSignal): Promise<void> {
    const { namespace, name = '', uid = '' } = pod.metadata;
    const containers = pod.spec?.containers ?? [];
    const index = containers.findIndex((each) => each.name === container);
    const current = parseQuantity(containers[index]?.resources?.requests?.['cpu']);
    if (current === undefined || Math.round(current * 1_000) === wanted) return;
    // What others have raised stays, where the weight says no more.
    if (!isResized(pod) && current * 1_000 > wanted) return;
    const at = `/spec/containers/${index}`;
    const patch = [
      { op: 'test', path: '/metadata/uid', value: uid },
      { op: 'test', path: `${at}/name`, value: container },
      { op: 'replace', path: `${at}/resources/requests/cpu`, value: `${wanted}m` },
    ];
    try {
      // Not found: it is gone, or the super cluster is older than Kubernetes 1.33.
      await ignoreNotFound(
        this.#o.objects.client.patch(resources.pods, { namespace, name }, patch, {
          type: 'json',
          subresource: 'resize',
          fieldManager,
          signal,
        }),
      );
      this.#refused.delete(uid);
    } catch (error) {
      signal.throwIfAborted();
      const isTold = this.#refused.get(uid)?.wanted === wanted;
      this.#refused.delete(uid);
      this.#refused.set(uid, { wanted, atMs: this.#o.clock.monotonic() });
      if (isTold) return;
      this.#o.onProblem(error, `cannot set the CPU request of ${namespace}/${name} by weight`);
    }
  }

  /** Of pods that are gone: another manager may have removed them. */
  #forgetOld(): void {
    const sinceMs = this.#o.clock.monotonic() - rememberedForMs;
    for (const [uid, { atMs }] of this.#refused) {
      if (atMs > sinceMs) return;
      this.#refused.delete(uid);
    }
  }
}

/** Whether its requests are ours, by an earlier weight. */
function isResized({ metadata }: Pod): boolean {
  const fields = metadata['managedFields'] as { manager?: string; subresource?: string }[] | undefined;
  return fields?.some((each) => each.manager === fieldManager && each.subresource === 'resize') ?? false;
}
