import {
  type Condition,
  isNotFound,
  type KubeClient,
  modifyStatus,
  type ObjectRef,
  resources,
  setCondition,
} from '../../kube/index.ts';
import type { VirtualCluster } from './virtual-cluster.ts';

export interface SyncerCondition {
  type: 'Synced' | 'IdentityMismatch' | 'DeletionHeld';
  status: Condition['status'];
  reason: string;
  message: string;
}

/** Writes the syncer's own part of a VirtualCluster's status, and only when it says something new. */
export class StatusWriter {
  readonly #client: KubeClient;
  readonly #nowMs: () => number;
  /** What was last written, by VirtualCluster and condition type. */
  readonly #last = new Map<string, string>();

  constructor(client: KubeClient, nowMs: () => number) {
    this.#client = client;
    this.#nowMs = nowMs;
  }

  async condition(ref: ObjectRef, uid: string, wanted: SyncerCondition, signal?: AbortSignal): Promise<void> {
    const key = `${uid}/${wanted.type}`;
    const said = `${wanted.status}/${wanted.reason}/${wanted.message}`;
    if (this.#last.get(key) === said) return;
    await this.#modify(ref, uid, signal, (status) => {
      const conditions = setCondition(status.conditions, wanted, new Date(this.#nowMs()));
      return { ...status, conditions };
    });
    this.#last.set(key, said);
  }

  async usage(
    ref: ObjectRef,
    uid: string,
    usage: { pods: number; services: number; nodes: number },
    signal?: AbortSignal,
  ): Promise<void> {
    const key = `${uid}/usage`;
    const said = `${usage.pods}/${usage.services}/${usage.nodes}`;
    if (this.#last.get(key) === said) return;
    await this.#modify(ref, uid, signal, (status) => ({ ...status, usage }));
    this.#last.set(key, said);
  }

  async identity(ref: ObjectRef, uid: string, tenant: string, signal?: AbortSignal): Promise<void> {
    await this.#modify(ref, uid, signal, (status) => ({
      ...status,
      identities: { ...status.identities, tenant },
    }));
  }

  forget(uid: string): void {
    for (const key of this.#last.keys()) {
      if (key.startsWith(`${uid}/`)) this.#last.delete(key);
    }
  }

  async #modify(
    ref: ObjectRef,
    uid: string,
    signal: AbortSignal | undefined,
    change: (status: NonNullable<VirtualCluster['status']>) => NonNullable<VirtualCluster['status']>,
  ): Promise<void> {
    try {
      await modifyStatus<VirtualCluster>(
        this.#client,
        resources.virtualClusters,
        ref,
        (vc) => (vc.metadata.uid === uid ? { ...vc, status: change(vc.status ?? {}) } : undefined),
        signal === undefined ? {} : { signal },
      );
    } catch (error) {
      if (!isNotFound(error)) throw error;
    }
  }
}
