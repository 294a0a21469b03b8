import type { Clock, KubeObject } from '../../kube/index.ts';
import type { KeyRef } from '../context.ts';
import type { SyncedKind } from '../kinds/contract.ts';
import type { Priority } from '../workqueue/options.ts';
import type { TenantState } from './tenant-state.ts';

/** A change of an object after which many others have to be reconciled. */
export interface Change {
  readonly kind: SyncedKind;
  readonly side: 'tenant' | 'super';
  /** As it is now. */
  readonly object: KubeObject;
  /** Its earlier and present states, where others depend on them; `unknown`: it changed more often than is remembered. */
  readonly states: readonly KubeObject[] | 'unknown';
  readonly priority: Priority;
}

interface BulkEnqueuerOptions {
  clock: Pick<Clock, 'monotonic' | 'sleep'>;
  /** Keys of the objects that have to be reconciled. */
  keysOf: (tenant: TenantState, change: Change) => Iterable<KeyRef>;
  enqueue: (tenant: TenantState, key: KeyRef, change: Change) => void;
  isServed: (tenant: TenantState) => boolean;
  /** The keys of a change could not all be queued; later changes are not affected. Must not throw. */
  onError: (tenant: TenantState, change: Change, error: unknown) => void;
}

/** Keys are queued for this long without a pause. */
const sliceMs = 5;
/** The pause is this many times as long: events that arrive meanwhile, and other tenants, go first. */
const pausePerSlice = 3;
const maxStates = 4;

/** The changes of one tenant, which are worked off one after the other. */
class PendingChanges {
  readonly waiting = new Map<string, Change>();
  current: string | undefined;
}

/**
 * Queues the keys that depend on a widely referenced object, in slices of time. If the object changes meanwhile, however
 * often, its keys are queued once more: none is lost, and no event costs much.
 */
export class BulkEnqueuer {
  readonly #options: BulkEnqueuerOptions;
  readonly #pending = new Map<TenantState, PendingChanges>();

  constructor(options: BulkEnqueuerOptions) {
    this.#options = options;
  }

  /** Whether the keys of this object, known by an id of its own, are being queued, so that a change is to be added. */
  isPending(tenant: TenantState, id: string): boolean {
    const pending = this.#pending.get(tenant);
    return pending !== undefined && (pending.current === id || pending.waiting.has(id));
  }

  add(tenant: TenantState, id: string, change: Change): void {
    const pending = this.#pending.get(tenant);
    if (pending !== undefined) {
      pending.waiting.set(id, merged(pending.waiting.get(id), change));
      return;
    }
    const started = new PendingChanges();
    started.waiting.set(id, change);
    this.#pending.set(tenant, started);
    void this.#run(tenant, started);
  }

  async #run(tenant: TenantState, pending: PendingChanges): Promise<void> {
    const { clock, keysOf, enqueue, isServed, onError } = this.#options;
    let startedMs = clock.monotonic();
    const pause = async (): Promise<void> => {
      const busyMs = clock.monotonic() - startedMs;
      // Short runs add up.
      if (busyMs < 1) return;
      await clock.sleep(busyMs * pausePerSlice);
      startedMs = clock.monotonic();
    };
    try {
      for (const [id, change] of pending.waiting) {
        pending.waiting.delete(id);
        pending.current = id;
        try {
          for (const key of keysOf(tenant, change)) {
            enqueue(tenant, key, change);
            if (clock.monotonic() - startedMs >= sliceMs) await pause();
            if (!isServed(tenant)) return;
          }
        } catch (error) {
          onError(tenant, change, error);
        }
        await pause();
      }
    } finally {
      this.#pending.delete(tenant);
    }
  }
}

function merged(earlier: Change | undefined, later: Change): Change {
  if (earlier === undefined) return later;
  const priority = earlier.priority === 'live' ? 'live' : later.priority;
  if (earlier.states === 'unknown' || later.states === 'unknown')
    return { ...later, states: 'unknown', priority };
  const states = [...new Set([...earlier.states, ...later.states])];
  return { ...later, states: states.length > maxStates ? 'unknown' : states, priority };
}
