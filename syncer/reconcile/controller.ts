import type { KeyRef } from '../context.ts';
import type { Drift } from './decide.ts';
import type { Finding } from './differences.ts';
import type { Outcome } from './outcome.ts';
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
