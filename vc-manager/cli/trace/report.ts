/** Who a pod waits for. */
export type Whose = 'skerry' | 'scheduler' | 'kubelet';

/** A part of a pod's way, in milliseconds since its beginning. */
export interface SpanReport {
  name: string;
  whose: Whose;
  atMs: number;
  tookMs: number;
}

/** The way of one pod, as a syncer tells it on `/debug/pods`, or as far as it can be read from objects. */
export interface PodReport {
  tenant: string;
  namespace: string;
  name: string;
  uid: string;
  node?: string;
  createdAt?: string;
  /** The beginning: when the syncer saw it, else when it was created. */
  seenAt: string;
  state: 'ready' | 'pending' | 'deleted';
  totalMs: number;
  shares: Record<Whose, number>;
  steps: { name: string; atMs: number }[];
  spans: SpanReport[];
  waitsFor?: { name: string; whose: Whose; sinceMs: number };
}

interface Quantiles {
  p50Ms: number;
  p99Ms: number;
}

/** The slowest pods that a syncer remembers, and what is usual. */
export interface PodList {
  tenant?: string;
  known: number;
  ready: number;
  total?: Quantiles;
  spans: ({ name: string; whose: Whose; pods: number } & Quantiles)[];
  pods: PodReport[];
}

export const whoseNames: Readonly<Record<Whose, string>> = {
  skerry: 'Skerry',
  scheduler: 'scheduler',
  kubelet: 'kubelet',
};

const about: Readonly<Record<string, string>> = {
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

/** What happens in a span, in a few words. */
export function aboutSpan(name: string): string {
  return about[name] ?? '';
}
