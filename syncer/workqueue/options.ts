import { CodedError } from '../../kube/index.ts';

type QueueErrorCode = 'InvalidOption' | 'NotProcessing' | 'AlreadyRunning';

/** A mistake in how the queue is used; trying again cannot help. */
export class QueueError extends CodedError<QueueErrorCode> {
  override readonly name = 'QueueError';

  constructor(code: QueueErrorCode, message: string) {
    super(code, message, false);
  }
}

export function requirePositive(name: string, value: number): number {
  if (!(Number.isFinite(value) && value > 0)) {
    throw new QueueError('InvalidOption', `${name} is ${value}; give a number above 0`);
  }
  return value;
}

export function requireCount(name: string, value: number): number {
  if (!(Number.isInteger(value) && value >= 1)) {
    throw new QueueError('InvalidOption', `${name} is ${value}; give a whole number, 1 or more`);
  }
  return value;
}

/** Time that never runs backwards, in milliseconds from an arbitrary start. */
export interface MonotonicClock {
  monotonic(): number;
}

/** What the runner needs to wait for delayed items. */
export interface WaitingClock extends MonotonicClock {
  /** Rejects with the signal's reason when it is aborted first. */
  sleep(ms: number, signal?: AbortSignal): Promise<void>;
}

export interface BackoffOptions {
  baseMs: number;
  maxMs: number;
}

/** `live`: something changed just now. `background`: re-lists and resyncs, which may wait. */
export type Priority = 'live' | 'background';

/** Called about queue traffic, for metrics. Must not throw and must not call the queue. */
export interface QueueObserver<Item> {
  /** `waitMs`: from being ready to run until taken; delays and back-off do not count. */
  taken?(item: Item, waitMs: number): void;
  done?(item: Item, serviceMs: number, outcome: Outcome): void;
}

/**
 * What becomes of an item after a run.
 * - `done`: nothing more to do; failures are forgotten.
 * - `later`: run again after a while; failures are forgotten.
 * - `backoff`: it failed; run again after an exponential delay. A live add ends the delay at once. With
 *   `refusedVersion` only an add that carries another version or goes first does, and at most once per
 *   `releaseEveryMs`: for what a server refused for good, where trying the same thing again cannot help.
 */
export type Outcome =
  | { action: 'done' }
  | { action: 'later'; afterMs: number }
  | { action: 'backoff'; refusedVersion?: string };

export interface AddOptions {
  /** Default `live`. */
  priority?: Priority;
  /**
   * Not before this long from now. An item has one due time: the earlier request wins, and a run that still needs a
   * later one asks again.
   */
  afterMs?: number;
  /**
   * Ahead of what its tenant has waiting with this priority, and of a back-off after a refusal: it has waited its turn
   * somewhere else, or is the operator's wish.
   */
  first?: boolean;
  /** The version of the object whose change is the reason, e.g. its resourceVersion. Compared for equality only. */
  version?: string;
}

/** The workers that a tenant may hold at once. `totalWeight` is that of all known tenants, this one included. */
type ShareOf = (weight: number, totalWeight: number, maxConcurrent: number) => number;

export interface FairQueueOptions<Item> {
  /** Unique within a tenant. */
  keyOf(item: Item): string;
  tenantOf(item: Item): string;
  clock: MonotonicClock;
  /** Items in process at once, over all tenants. */
  maxConcurrent: number;
  /** Of these, background items at most. Default: three quarters, so that a live item soon finds a worker. */
  maxBackground?: number;
  /** While both wait, one in this many is a background item. Default 8. */
  backgroundEvery?: number;
  /** Default `weightedShare`. */
  shareOf?: ShareOf;
  /** Default 100 ms to 60 s. */
  backoff?: BackoffOptions;
  /** Default 1,000: see `Outcome`. */
  releaseEveryMs?: number;
  /** How much past use, in milliseconds of service at weight 1, can count against a tenant. Default 5,000. */
  memoryMs?: number;
  /** In [0, 1). Default `Math.random`. */
  random?: () => number;
  observer?: QueueObserver<Item>;
}

/** One tenant's items, by state. */
export interface TenantDepth {
  tenant: string;
  weight: number;
  /** Workers it may hold at once. */
  limit: number;
  live: number;
  background: number;
  /** Waiting for a point in time, back-off included. */
  delayed: number;
  processing: number;
}

/**
 * Workers in proportion to weight, rounded down so that the shares of all never exceed what there is; at least one.
 * No tenant gets the last quarter, however alone it is: one that joins later must find a free worker even if
 * all calls of the others hang.
 */
export const weightedShare: ShareOf = (weight, totalWeight, maxConcurrent) => {
  const spare = Math.max(1, Math.floor(maxConcurrent / 4));
  const share = Math.floor((maxConcurrent * weight) / totalWeight);
  return Math.max(1, Math.min(share, maxConcurrent - spare));
};
