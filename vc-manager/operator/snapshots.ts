import { randomUUID } from 'node:crypto';
import { annotationKeys } from '../../api/labels.ts';
import { isPaused, newRequest, snapshotEveryMs } from '../../api/tenant-state.ts';
import type { VirtualCluster } from '../../api/virtual-cluster.ts';
import type { Clock } from '../../kube/index.ts';
import { type SnapshotStore, snapshotSuffix } from '../snapshot/store.ts';

/** How this manager keeps snapshots. */
export interface SnapshotServices {
  readonly store: SnapshotStore;
  /** Of age: recipients that snapshots are encrypted for; none: they are not encrypted. */
  readonly recipients: readonly string[];
  /** Of age: what encrypted ones are read with. */
  readonly identities: readonly string[];
  /** One at a time: many that are due together would keep all workers busy. */
  readonly turns: SnapshotTurns;
  readonly pauses: RestorePauses;
  /**
   * Since the store has failed, until it is written to again. Before `untilMs`, monotonic, no snapshot on schedule is
   * tried, whichever tenant it is of: each would wait until it is given up.
   */
  away?: { readonly reason: string; readonly message: string; readonly untilMs: number } | undefined;
}

/** A tenant. */
interface Asking {
  readonly uid: string;
  readonly ref: { readonly namespace: string };
}

interface Waiting {
  readonly namespace: string;
  /** Monotonic. */
  readonly sinceMs: number;
  readonly seenMs: number;
}

/** Whoever waits asks again more often, unless it or its request is gone, or the store is away. */
const forgetWaitingMs = 30_000;

/**
 * The manager's one turn to take a snapshot or to read one that is put back. Whoever waits asks again after a pause, and an
 * owner can ask for another snapshot the moment that one is taken: a namespace that has had a turn since one of another
 * namespace began to wait gives way to it.
 */
export class SnapshotTurns {
  readonly #clock: Pick<Clock, 'monotonic'>;
  #isTaken = false;
  /** By UID of the VirtualCluster. */
  readonly #waiting = new Map<string, Waiting>();
  /** When the last turn of each namespace ended, as long as anybody waits. */
  readonly #endedMs = new Map<string, number>();

  constructor(clock: Pick<Clock, 'monotonic'>) {
    this.#clock = clock;
  }

  /** Whether this tenant may `take` the turn now; if not, it waits from now on. */
  mayTake({ uid, ref: { namespace } }: Asking): boolean {
    const nowMs = this.#clock.monotonic();
    for (const [each, { seenMs }] of this.#waiting)
      if (nowMs - seenMs > forgetWaitingMs) this.#waiting.delete(each);
    const ended = (of: string): number => this.#endedMs.get(of) ?? Number.NEGATIVE_INFINITY;
    const ownMs = ended(namespace);
    // Of several namespaces that wait, the one whose last turn is the oldest gives way to none.
    const givesWay = [...this.#waiting.values()].some(
      (other) => other.sinceMs <= ownMs && ended(other.namespace) < ownMs,
    );
    if (!this.#isTaken && !givesWay) return true;
    const sinceMs = this.#waiting.get(uid)?.sinceMs ?? nowMs;
    this.#waiting.set(uid, { namespace, sinceMs, seenMs: nowMs });
    return false;
  }

  /** For a caller that has just been told that it may. Throws when the turn is taken. */
  async take<T>({ uid, ref }: Asking, work: () => Promise<T>): Promise<T> {
    if (this.#isTaken) throw new RangeError('another snapshot is being taken or read');
    // Before anything is waited for.
    this.#isTaken = true;
    this.#waiting.delete(uid);
    try {
      return await work();
    } finally {
      this.#isTaken = false;
      if (this.#waiting.size === 0) this.#endedMs.clear();
      else this.#endedMs.set(ref.namespace, this.#clock.monotonic());
    }
  }
}

/** Value of the annotation that asks for a snapshot, if it has not been followed yet. */
export function snapshotRequest(vc: VirtualCluster): string | undefined {
  return newRequest(vc, annotationKeys.snapshot, vc.status?.snapshots?.taken);
}

/**
 * What is to be put back, if that has not been done yet. A time from before the VirtualCluster was made is of an earlier
 * one: made again from a backup, with annotations and without status, it must not lose what it has.
 */
export function restoreRequest(vc: VirtualCluster): { request: string; from: string } | undefined {
  const request = newRequest(vc, annotationKeys.restore, vc.status?.restored?.request);
  if (request === undefined) return undefined;
  const askedMs = /^[0-9]{4}-[0-9]{2}-[0-9]{2}T/.test(request)
    ? Date.parse(request.split(' ', 1)[0] ?? '')
    : Number.NaN;
  if (askedMs < Date.parse(vc.metadata.creationTimestamp ?? '') - clockSkewMs) return undefined;
  return { request, from: vc.metadata.annotations?.[annotationKeys.restoreFrom]?.slice(0, 253) ?? '' };
}

/** Between the clocks of the machine that asks and of the super cluster. */
const clockSkewMs = 5 * 60_000;

/** Whether a snapshot is to be put back, or is being put back. */
export function isRestoreWanted(vc: VirtualCluster): boolean {
  // A new tenant that is filled from one is not: that is part of its provisioning.
  // One thing at a time.
  if (vc.status?.move !== undefined) return false;
  return isMade(vc) && (vc.status?.restore !== undefined || restoreRequest(vc) !== undefined);
}

/** After one that failed. */
const retryMs = 10 * 60_000;

/** When the next one on schedule is due, as wall-clock time; undefined: never. */
export function snapshotDueMs(vc: VirtualCluster): number | undefined {
  const everyMs = snapshotEveryMs(vc);
  if (everyMs === undefined || !isMade(vc)) return undefined;
  const { kept = [], tried } = vc.status?.snapshots ?? {};
  const last = kept.find(({ reason }) => reason === 'Scheduled');
  const dueMs = last === undefined ? 0 : Date.parse(last.at) + everyMs;
  return tried === undefined ? dueMs : Math.max(dueMs, Date.parse(tried) + retryMs);
}

/** Whether one is asked for, or due, and what the tenant has is whole. */
export function isSnapshotWanted(vc: VirtualCluster, nowMs: number): boolean {
  return (
    isMade(vc) &&
    !isPaused(vc) &&
    vc.status?.restore === undefined &&
    (snapshotRequest(vc) !== undefined || (snapshotDueMs(vc) ?? Number.POSITIVE_INFINITY) <= nowMs)
  );
}

/** It was ready once: before that there is nothing to keep. */
export function isMade({ status }: VirtualCluster): boolean {
  return status?.identities?.tenant !== undefined;
}

/** A new name, of a time in ISO format. */
export function newSnapshotName(
  { namespace, name }: { namespace: string; name: string },
  at: string,
): string {
  const time = at.replaceAll(':', '-').replace(/\.[0-9]+Z$/, 'Z');
  return `${namespace}/${name}/${time}-${randomUUID().slice(0, 4)}${snapshotSuffix}`;
}

/** When a snapshot of a name as above was begun, as wall-clock time; NaN for another name. */
export function snapshotBegunMs(name: string): number {
  const [, date = '', time = ''] = /\/([-0-9]{10}T)([-0-9]{8}Z)-[^/]*$/.exec(name) ?? [];
  return Date.parse(date + time.replaceAll('-', ':'));
}

/** After an attempt that failed, until the next one. */
interface Pause {
  readonly attempt: string;
  /** Why, and when it is tried again. */
  readonly message: string;
  /** Monotonic. */
  readonly untilMs: number;
  readonly pauseMs: number;
}

const firstPauseMs = 10_000;
const longestPauseMs = 30 * 60_000;

/**
 * Pauses between attempts at restores that cannot be begun: each attempt reads a whole file. `attempt` is the same for
 * those of one request; another one begins at once, with a short pause after it.
 */
export class RestorePauses {
  /** By UID of the VirtualCluster. */
  readonly #pauses = new Map<string, Pause>();
  readonly #clock: Clock;

  constructor(clock: Clock) {
    this.#clock = clock;
  }

  /** Undefined when it may be tried now. */
  find(uid: string, attempt: string): { message: string; againAfterMs: number } | undefined {
    const pause = this.#pauses.get(uid);
    const againAfterMs = (pause?.untilMs ?? 0) - this.#clock.monotonic();
    if (pause?.attempt !== attempt || againAfterMs <= 0) return undefined;
    return { message: pause.message, againAfterMs };
  }

  /**
   * Begins a pause twice as long as the one before. `there`: the UIDs of all VirtualClusters; what is remembered of
   * others is forgotten.
   */
  begin(
    uid: string,
    { attempt, why, there }: { attempt: string; why: string; there: Iterable<string> },
  ): { message: string; againAfterMs: number } {
    const known = new Set(there);
    for (const each of this.#pauses.keys()) if (!known.has(each)) this.#pauses.delete(each);
    const before = this.#pauses.get(uid);
    const pauseMs = before?.attempt === attempt ? Math.min(2 * before.pauseMs, longestPauseMs) : firstPauseMs;
    const again = new Date(this.#clock.now() + pauseMs).toISOString().replace(/\.\d+Z$/, 'Z');
    const message = `${why} The whole file is read at each attempt: the next one is at ${again}; "vc-manager jobs retry" tries it at once.`;
    this.#pauses.set(uid, { attempt, message, pauseMs, untilMs: this.#clock.monotonic() + pauseMs });
    return { message, againAfterMs: pauseMs };
  }

  end(uid: string): void {
    this.#pauses.delete(uid);
  }
}
