import { ApiError, ConnectionError, isConflict } from '../../kube/index.ts';
import type { KeyRef } from '../context.ts';
import type { Outcome as QueueOutcome } from '../workqueue/options.ts';
import type { Drift } from './decide.ts';
import type { Finding } from './differences.ts';
import type { TenantState } from './tenant-state.ts';

/** Reconciles the keys of one kind. Safe to call for different keys at once, never for one key twice. */
export interface Controller {
  /** Rejects only when aborted, with the signal's reason. */
  reconcile(tenant: TenantState, key: KeyRef, signal: AbortSignal): Promise<Outcome>;
  /** How the two sides of a key differ, by the caches alone; `undefined`: not at all, as far as can be told. */
  driftOf(tenant: TenantState, key: KeyRef): Drift | undefined;
  /** The same with what is to be said of it, of objects that are not carried over as well. */
  findingOf?(tenant: TenantState, key: KeyRef): Finding | undefined;
  /** Whether policy demands something of the super object of a key, be its deletion held back or not. */
  isDemanded?(tenant: TenantState, key: KeyRef): boolean;
}

/** A controller of objects that are not mirrored one by one. It subscribes to the caches that it needs itself. */
export interface SpecialController extends Controller {
  /** `kind` of its keys. */
  readonly name: string;
  /** Called when the tenant is served from now on, to subscribe to its caches. */
  join?(tenant: TenantState): void;
  /** Every key of a tenant that there may be something to do for, once. */
  keysOf(tenant: TenantState): Iterable<KeyRef>;
}

/**
 * What becomes of a key after one reconcile. This is the one place where an error turns into a retry.
 *
 * - `done`: both sides agree, or wait for something that will bring an event.
 * - `retry`: silently, with back-off, or after `afterMs` where that is a second or more.
 * - `conflict`: the cache was behind; again as soon as it has caught up.
 * - `refused`: the server said no to what the tenant wants; back-off that a new version of the tenant object ends.
 * - `later`: nothing is wrong, but there is something to do after a time.
 * - `held`: deletes are stopped; the key is kept until they may go on.
 */
export type Outcome =
  | { readonly is: 'done' }
  | { readonly is: 'retry'; readonly code: string; readonly afterMs?: number; readonly error?: unknown }
  | { readonly is: 'conflict' }
  | { readonly is: 'refused'; readonly code: string; readonly message: string }
  | { readonly is: 'later'; readonly afterMs: number }
  | { readonly is: 'held' };

export const done: Outcome = { is: 'done' };
/** The cache does not show our own write yet. The event that is on its way queues the key; if it does not, the delay does. */
export const staleCache: Outcome = { is: 'later', afterMs: 1_000 };

/** Refusals that pass by themselves: the tenant needs no event about them (sync rule `refused-writes`). */
export function isTransientRefusal(error: ApiError): boolean {
  if (error.code !== 403) return false;
  if (error.hasCause('NamespaceTerminating') || isDenied(error)) return true;
  return passing.some((pattern) => pattern.test(error.message));
}

/** Admission hears of these by watches: what is there has not been heard of yet, or what has gone is not here yet. */
const passing = [
  /error looking up service account|serviceaccount .*not found/i,
  /no PriorityClass with name \S+ was found/,
  /pod rejected: RuntimeClass \S+ not found/,
];

/**
 * Whether it is the syncer that may not, rather than what it writes. An API server that has just started knows no
 * roles for some seconds and refuses everything. Where a right is missing for good, that is no concern of the tenant's.
 */
function isDenied(error: ApiError): boolean {
  return /is forbidden: User "[^"]*" cannot /.test(error.message);
}

/** Whether the server understood and said no, and would say it again. */
export function isRefusal(error: unknown): error is ApiError {
  if (!(error instanceof ApiError)) return false;
  if (error.code === 403) return !isTransientRefusal(error);
  return error.code === 400 || error.code === 413 || error.code === 422;
}

/** Refusals that a kind may know a way round; a taken health check port is answered with a 500. */
export function isRecoverable(error: unknown): error is ApiError {
  return (
    isRefusal(error) || (error instanceof ApiError && /requested HealthCheck NodePort/.test(error.message))
  );
}

export function outcomeOf(error: unknown): Outcome {
  if (isConflict(error)) return { is: 'conflict' };
  if (isRefusal(error))
    return { is: 'refused', code: String(error.code), message: error.status?.message ?? error.message };
  if (error instanceof ApiError) {
    const code = error.code === 403 ? 'transient403' : String(error.code);
    return error.retryAfterMs === undefined
      ? { is: 'retry', code, error }
      : { is: 'retry', code, afterMs: error.retryAfterMs, error };
  }
  if (error instanceof ConnectionError) return { is: 'retry', code: error.code, error };
  return { is: 'retry', code: 'internal', error };
}

const shortestPauseMs = 1_000;

/** What the queue makes of it. `version`: resourceVersion of the tenant object when the run began. */
export function queueOutcome(outcome: Outcome, version: string | undefined): QueueOutcome {
  switch (outcome.is) {
    case 'done':
    case 'held':
      return { action: 'done' };
    case 'later':
      return { action: 'later', afterMs: outcome.afterMs };
    case 'conflict':
      // The cache was behind. The event that is on its way ends the back-off; without one there is no hurry.
      return { action: 'backoff' };
    case 'retry':
      // A server may be a tenant's, and ask for no time at all.
      return (outcome.afterMs ?? 0) < shortestPauseMs
        ? { action: 'backoff' }
        : { action: 'later', afterMs: outcome.afterMs ?? 0 };
    case 'refused':
      return version === undefined ? { action: 'backoff' } : { action: 'backoff', refusedVersion: version };
  }
}
