import type { Clock, KubeObject } from '../../kube/index.ts';
import type { KeyRef } from '../context.ts';
import type { SyncedKind } from '../kinds/contract.ts';
import type { Priority } from '../workqueue/options.ts';
import type { TenantState } from './tenant-state.ts';

/** A change of an object on which the agreement of many others depends. */
export interface Change {
  readonly kind: SyncedKind;
  readonly side: 'tenant' | 'super';
  /** As it is now. */
  readonly object: KubeObject;
  /** What it was and is, where others depend on that; `unknown`: it has changed more often than is remembered. */
  readonly states: readonly KubeObject[] | 'unknown';
  readonly priority: Priority;
}

interface FollowerWalksOptions {
  clock: Pick<Clock, 'monotonic' | 'sleep'>;
  /** Keys of all that have to be looked at again. */
  keysOf: (tenant: TenantState, change: Change) => Iterable<KeyRef>;
  feed: (tenant: TenantState, key: KeyRef, change: Change) => void;
  isServed: (tenant: TenantState) => boolean;
  /** A walk has failed and is given up; those after it go on. Must not throw. */
  onError: (tenant: TenantState, change: Change, error: unknown) => void;
}

/** It works this long at a stretch. */
const sliceMs = 5;
/** Then it rests this many times as long: events that come meanwhile, and other tenants, go before. */
const restPerSlice = 3;
const maxStates = 4;

/** The walks of one tenant, which go on one after the other. */
class Walks {
  readonly waiting = new Map<string, Change>();
  current: string | undefined;
}

/**
 * Queues what follows an object that very many follow, in slices of time. An object that changes while its walk waits
 * or is under way is walked for once more, however often it changes: no follower is lost, and no event costs much.
 */
export class FollowerWalks {
  readonly #options: FollowerWalksOptions;
  readonly #walks = new Map<TenantState, Walks>();

  constructor(options: FollowerWalksOptions) {
    this.#options = options;
  }

  /** Whether the followers of this object, known by an id of its own, are being queued, so that a change is to be added. */
  isUnderWay(tenant: TenantState, id: string): boolean {
    const walks = this.#walks.get(tenant);
    return walks !== undefined && (walks.current === id || walks.waiting.has(id));
  }

  add(tenant: TenantState, id: string, change: Change): void {
    const walks = this.#walks.get(tenant);
    if (walks !== undefined) {
      walks.waiting.set(id, merged(walks.waiting.get(id), change));
      return;
    }
    const started = new Walks();
    started.waiting.set(id, change);
    this.#walks.set(tenant, started);
    void this.#run(tenant, started);
  }

  async #run(tenant: TenantState, walks: Walks): Promise<void> {
    const { clock, keysOf, feed, isServed, onError } = this.#options;
    let startedMs = clock.monotonic();
    const rest = async (): Promise<void> => {
      const busyMs = clock.monotonic() - startedMs;
      // Short walks add up.
      if (busyMs < 1) return;
      await clock.sleep(busyMs * restPerSlice);
      startedMs = clock.monotonic();
    };
    try {
      for (const [id, change] of walks.waiting) {
        walks.waiting.delete(id);
        walks.current = id;
        try {
          for (const key of keysOf(tenant, change)) {
            feed(tenant, key, change);
            if (clock.monotonic() - startedMs >= sliceMs) await rest();
            if (!isServed(tenant)) return;
          }
        } catch (error) {
          onError(tenant, change, error);
        }
        await rest();
      }
    } finally {
      this.#walks.delete(tenant);
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
