import { isDeepStrictEqual } from 'node:util';
import type { ManagerConditionType } from '../../api/conditions.ts';
import type { VirtualCluster, VirtualClusterStatus } from '../../api/virtual-cluster.ts';
import { type Clock, type KubeClient, modifyStatus, resources, setCondition } from '../../kube/index.ts';
import { objectReplaced } from './errors.ts';

/**
 * Far below what the schema takes. Much of what is told comes from others, whom nobody keeps short; and a status that
 * is refused for one message is not written at all, the policy in it included.
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
  /** Writes come one after the other: `current` is what the last one has left. */
  #turn: Promise<unknown> = Promise.resolve();

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

  /** After a write of the object's metadata. */
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
      message: message.length <= longestMessage ? message : `${message.slice(0, longestMessage)}…`,
      ...(observedGeneration === undefined ? {} : { observedGeneration }),
    };
    const now = new Date(this.#clock.now());
    this.set((old) => ({ ...old, conditions: setCondition(old.conditions, wanted, now) }));
  }

  /** For one that has nothing to say any more. */
  dropCondition(type: ManagerConditionType): void {
    this.set((old) =>
      old.conditions?.some((each) => each.type === type)
        ? { ...old, conditions: old.conditions.filter((each) => each.type !== type) }
        : old,
    );
  }

  /** Writes what is pending; when this returns, it is stored. */
  flush(signal = this.#signal): Promise<void> {
    const written = this.#turn.then(() => this.#write(signal));
    this.#turn = written.catch(() => undefined);
    return written;
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
