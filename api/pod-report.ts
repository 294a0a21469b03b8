/** Who a pod waits for. */
export type StageOwner = 'skerry' | 'scheduler' | 'kubelet';

/** What happens in the stages of a pod's way, by the names that reports have for them. */
export const podStages: Readonly<Record<string, string>> = {
  queue: 'waits for a worker of the syncer',
  window: 'kept back: its tenant has its share of the scheduler',
  prepare: 'what it needs goes first: namespace, volumes, settings',
  create: 'created in the super cluster',
  schedule: 'the scheduler finds a node',
  bind: 'the tenant learns the node',
  tokens: 'its tokens are issued and brought down',
  start: 'the node starts it',
  status: 'the tenant learns that it is ready',
};

/** A stage of a pod, in milliseconds since `seenAt`. */
export interface SpanReport {
  readonly name: string;
  readonly whose: StageOwner;
  readonly atMs: number;
  readonly tookMs: number;
}

/**
 * The stages of one pod until it is ready: measured by a syncer (`/debug/pods`), or read from objects. Times are
 * milliseconds since `seenAt`.
 */
export interface PodReport {
  /** `namespace/name` of the VirtualCluster. */
  readonly tenant: string;
  readonly namespace: string;
  readonly name: string;
  readonly uid: string;
  /** As the super cluster calls it. */
  readonly node?: string;
  /** By the clock of the tenant's API server, in whole seconds. */
  readonly createdAt?: string;
  /** When the syncer saw it, by the syncer's clock; read from objects: when it was created. */
  readonly seenAt: string;
  readonly state: 'ready' | 'pending' | 'deleted';
  /** Until the tenant could see that it is ready, or until now, or until it was deleted. */
  readonly totalMs: number;
  readonly shares: Readonly<Record<StageOwner, number>>;
  readonly steps: readonly { readonly name: string; readonly atMs: number }[];
  readonly spans: readonly SpanReport[];
  /** Why it does not go down to the super cluster, as the tenant's pod says. */
  readonly refusal?: string;
  /** What it waits for, if it still does. */
  readonly waitsFor?: { readonly name: string; readonly whose: StageOwner; readonly sinceMs: number };
}

export interface Quantiles {
  readonly p50Ms: number;
  readonly p99Ms: number;
}

/** The slowest pods that a syncer remembers, and what is usual. */
export interface PodList {
  readonly tenant?: string;
  /** Pods that are remembered, and how many of them are ready. */
  readonly known: number;
  readonly ready: number;
  /** Of those that are ready; missing if none is. */
  readonly total?: Quantiles;
  readonly spans: readonly ({
    readonly name: string;
    readonly whose: StageOwner;
    readonly pods: number;
  } & Quantiles)[];
  readonly pods: readonly PodReport[];
}
