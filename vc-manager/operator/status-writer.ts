import { isDeepStrictEqual } from 'node:util';
import PQueue from 'p-queue';
import type { ManagerConditionType } from '../../api/conditions.ts';
import type { VirtualCluster, VirtualClusterStatus } from '../../api/virtual-cluster.ts';
import { type Clock, type KubeClient, modifyStatus, resources, setCondition } from '../../kube/index.ts';
import { objectReplaced } from './errors.ts';

/**
 * Far below the limit of the schema. Many messages come from other programs, of any length; and if the API server refuses
 * a status for one message, nothing of it is written, not even the policy.
 */
const longestMessage = 4_000;

type Change = (status: VirtualClusterStatus) => VirtualClusterStatus;

/**
 * Writes one VirtualCluster's status. Changes are collected and written together; a change that changes
 * nothing costs no call. Only the fields that a change names are touched, on what the server has by then.
 */
export class StatusWriter {
  readonly #client: KubeClient;
  readonly #clock: Clock;
  readonly #signal: AbortSignal;
  #current: VirtualCluster;
  #pending: Change[] = [];
  /** One write at a time: `current` is the result of the last one. */
  readonly #writes = new PQueue({ concurrency: 1 });

  constructor(options: { client: KubeClient; clock: Clock; signal: AbortSignal; current: VirtualCluster }) {
    this.#client = options.client;
    this.#clock = options.clock;
    this.#signal = options.signal;
    this.#current = options.current;
  }

  /** As last read or written, without what is still pending. */
  get current(): VirtualCluster {
    return this.#current;
  }

  /** Call after a write of the object's metadata. */
  adopt(current: VirtualCluster): void {
    this.#current = current;
  }

  /** Notes a change; the next `flush` writes it. */
  set(change: Change | Partial<VirtualClusterStatus>): void {
    this.#pending.push(typeof change === 'function' ? change : (status) => ({ ...status, ...change }));
  }

  condition(
    type: ManagerConditionType,
    status: 'True' | 'False' | 'Unknown',
    reason: string,
    message: string,
  ): void {
    const observedGeneration = this.#current.metadata.generation;
    const wanted = {
      type,
      status,
      reason,
      // Half of a character would come back changed from the API server, and count as new each time.
      message: (message.length <= longestMessage
        ? message
        : `${message.slice(0, longestMessage)}…`
      ).toWellFormed(),
      ...(observedGeneration === undefined ? {} : { observedGeneration }),
    };
    const now = new Date(this.#clock.now());
    this.set((old) => ({ ...old, conditions: setCondition(old.conditions, wanted, now) }));
  }

  /** Removes a condition that does not apply any more. */
  dropCondition(type: ManagerConditionType): void {
    this.set((old) =>
      old.conditions?.some((each) => each.type === type)
        ? { ...old, conditions: old.conditions.filter((each) => each.type !== type) }
        : old,
    );
  }

  /** Writes what is pending; when this returns, it is stored. */
  flush(signal = this.#signal): Promise<void> {
    return this.#writes.add(() => this.#write(signal));
  }

  async #write(signal: AbortSignal): Promise<void> {
    const changes = this.#pending;
    this.#pending = [];
    const { name = '', namespace, uid } = this.#current.metadata;
    const change = (vc: VirtualCluster): VirtualCluster | undefined => {
      if (vc.metadata.uid !== uid) throw objectReplaced(`${namespace}/${name}`);
      const status = changes.reduce((before, each) => each(before), vc.status ?? {});
      return isDeepStrictEqual(status, vc.status ?? {}) ? undefined : { ...vc, status };
    };
    if (change(this.#current) === undefined) return;
    const ref = { name, namespace };
    try {
      this.#current = await modifyStatus(this.#client, resources.virtualClusters, ref, change, {
        signal,
        known: this.#current,
      });
    } catch (error) {
      this.#pending.unshift(...changes);
      throw error;
    }
  }
}
