import type { Quota } from '../../api/quota.ts';
import {
  applyMergePatch,
  formatQuantity,
  type KubeObject,
  nano,
  parseExactQuantity,
  type Store,
  type StoreEvent,
} from '../../kube/index.ts';
import type { KeyRef } from '../context.ts';
import type { DownKind, Notice, SyncedKind } from '../kinds/contract.ts';
import { tenantUidOf } from '../mapping/labels.ts';
import { byTenantIndex, type Caches } from '../reconcile/caches.ts';
import { type ActionGate, recordNotice, recordRefusal, type Work } from '../reconcile/execute.ts';
import { downKeyOf, keyId } from '../reconcile/keys.ts';
import { done, type Outcome } from '../reconcile/outcome.ts';
import type { TenantState } from '../reconcile/tenant-state.ts';
import { bytesOf, chargeOf } from './charges.ts';
import { type Excess, QuotaLedger } from './ledger.ts';
import { WriteBudget } from './write-budget.ts';

const writes = 'writes.bytes-per-minute';

/** What a tenant has of one limited resource; in units, not in nano-units. */
export interface ResourceUsage {
  readonly resource: string;
  readonly used: number;
  readonly limit: number;
}

/** The accounts of one tenant. */
class Book {
  readonly ledger = new QuotaLedger();
  readonly budget: WriteBudget;
  /** Of those who wait, by id. */
  readonly keys = new Map<string, KeyRef>();
  readonly running = new Set<string>();
  /** Who has asked in the run that is under way. */
  readonly asked = new Set<string>();
  readonly tenant: TenantState;
  isAdmitting = false;
  #quota: Quota | undefined;

  constructor(tenant: TenantState, monotonicMs: () => number) {
    this.tenant = tenant;
    this.budget = new WriteBudget(monotonicMs);
    this.readLimits();
  }

  /** Takes over what the manager has decided; whether that has changed. */
  readLimits(): boolean {
    const { quota } = this.tenant.info.policy;
    if (quota === this.#quota) return false;
    this.#quota = quota;
    const limits = new Map<string, bigint>();
    for (const [resource, text] of Object.entries(quota ?? {}))
      limits.set(resource, parseExactQuantity(text) ?? 0n);
    const perMinute = limits.get(writes);
    limits.delete(writes);
    this.budget.setLimit(perMinute === undefined ? undefined : Number(perMinute / nano));
    this.ledger.setLimits(limits);
    return true;
  }
}

interface QuotaAdmissionOptions {
  kinds: readonly SyncedKind[];
  superCaches: Caches;
  monotonicMs: () => number;
  /** Queues a key whose turn has come. */
  wake: (uid: string, key: KeyRef) => void;
}

/**
 * Keeps what a tenant has in the super cluster within its quota (sync rule `quota`): every create, and every patch that
 * makes an object take more, is reserved in the tenant's ledger before it is sent.
 */
export class QuotaAdmission {
  readonly #options: QuotaAdmissionOptions;
  readonly #books = new Map<string, Book>();
  readonly #followed = new WeakSet<Store>();

  constructor(options: QuotaAdmissionOptions) {
    this.#options = options;
    for (const kind of options.kinds) if (kind.direction === 'down') this.#follow(kind, false);
  }

  join(tenant: TenantState): void {
    const book = new Book(tenant, this.#options.monotonicMs);
    this.#books.set(tenant.info.uid, book);
    for (const kind of this.#options.kinds) if (kind.direction === 'down') this.#showAll(book, kind, false);
  }

  leave(uid: string): void {
    this.#books.delete(uid);
  }

  /** For a kind that comes and goes; its cache of the super cluster must be complete. */
  addKind(tenant: TenantState, kind: DownKind): void {
    const book = this.#books.get(tenant.info.uid);
    if (book === undefined) return;
    this.#follow(kind, true);
    for (const id of book.ledger.ids()) if (id.startsWith(`${kind.name}/`)) book.ledger.show(id, undefined);
    this.#showAll(book, kind, true);
  }

  /** Asked before each write, of whatever kind. */
  readonly gate: ActionGate = async (work, action) => {
    const { tenant, kind, situation } = work;
    const book = this.#books.get(tenant.info.uid);
    if (book === undefined || kind.direction === 'up') return action;
    if (action.do !== 'createSuper' && action.do !== 'patchSuper') return action;
    if (book.readLimits()) this.#admitSoon(book);
    const id = keyId(situation.key);
    const isCreated = action.do === 'createSuper';
    const waitMs = book.budget.waitMs();
    if (waitMs > 0) {
      await recordNotice(work, tooManyBytes(tenant.info.policy.quota?.[writes]));
      return isCreated ? { is: 'later', afterMs: waitMs } : { skip: true, afterMs: waitMs };
    }
    const { object, bytes } = isCreated ? written(kind, action.object) : patched(work, kind, action.patch);
    const isCustom = !this.#options.kinds.includes(kind);
    book.asked.add(id);
    const excess = book.ledger.reserve(id, chargeOf(kind, object, isCustom, bytes));
    if (excess.length === 0) {
      book.budget.take(bytes);
      return action;
    }
    book.keys.set(id, situation.key);
    await recordRefusal(work, { type: 'Warning', reason: 'QuotaExceeded', message: messageOf(excess) });
    return isCreated ? done : { skip: true };
  };

  began(uid: string, key: KeyRef): void {
    const book = this.#books.get(uid);
    const id = keyId(key);
    book?.running.add(id);
    book?.asked.delete(id);
  }

  /** `outcome`: undefined for a run that was cut short. */
  ended(tenant: TenantState, key: KeyRef, outcome: Outcome | undefined): void {
    const book = this.#books.get(tenant.info.uid);
    if (book === undefined) return;
    const id = keyId(key);
    book.running.delete(id);
    const hasAsked = book.asked.delete(id);
    // Whether the write was made is not known; the next run tells.
    if (outcome === undefined || outcome.is === 'retry' || outcome.is === 'conflict') return;
    if (!hasAsked && book.ledger.giveUp(id)) this.#admitSoon(book);
    this.#settle(book, id, this.#shown(book, key));
  }

  isWaiting(tenant: TenantState, key: KeyRef): boolean {
    return this.#books.get(tenant.info.uid)?.ledger.isWaiting(keyId(key)) === true;
  }

  /** Corrects by the caches what an event that never came has left behind. */
  recount(tenant: TenantState): void {
    const book = this.#books.get(tenant.info.uid);
    if (book === undefined) return;
    book.readLimits();
    for (const id of book.ledger.ids())
      if (book.ledger.isReserved(id)) this.#settle(book, id, this.#shown(book, keyOf(id)));
    // One whose tenant object is gone finds nothing to do, and gives up.
    for (const id of book.ledger.waiting()) {
      const key = keyOf(id);
      const kind = this.#kindOf(book, key.kind);
      if (kind === undefined || book.tenant.caches.of(kind).get(key) === undefined)
        this.#options.wake(tenant.info.uid, key);
    }
    this.#admitSoon(book);
  }

  /** The limited resources of one tenant. */
  *usageOf(uid: string): Generator<ResourceUsage & { readonly quantity: string }> {
    const book = this.#books.get(uid);
    if (book === undefined) return;
    if (book.readLimits()) this.#admitSoon(book);
    for (const [resource, limit] of book.ledger.limits) {
      const used = book.ledger.used(resource);
      yield { resource, used: unitsOf(used), limit: unitsOf(limit), quantity: formatQuantity(used) };
    }
    const perMinute = parseExactQuantity(book.tenant.info.policy.quota?.[writes]);
    if (perMinute === undefined) return;
    const used = book.budget.spent;
    yield { resource: writes, used, limit: unitsOf(perMinute), quantity: String(used) };
  }

  #follow(kind: DownKind, isCustom: boolean): void {
    const store = this.#options.superCaches.of(kind);
    if (this.#followed.has(store)) return;
    this.#followed.add(store);
    store.subscribe((event) => this.#superEvent(kind, event, isCustom));
  }

  #showAll(book: Book, kind: DownKind, isCustom: boolean): void {
    const { uid } = book.tenant.info;
    for (const object of this.#options.superCaches.of(kind).byIndex(byTenantIndex, uid))
      book.ledger.show(idOf(kind, object), chargeOf(kind, object, isCustom));
  }

  #superEvent(kind: DownKind, { type, object, previous }: StoreEvent<KubeObject>, isCustom: boolean): void {
    const book = this.#books.get(tenantUidOf(object) ?? '');
    if (book === undefined) return;
    const id = idOf(kind, object);
    if (previous !== undefined && tenantUidOf(previous) === tenantUidOf(object)) {
      const before = idOf(kind, previous);
      if (before !== id) book.ledger.show(before, undefined);
    }
    book.ledger.show(id, type === 'deleted' ? undefined : chargeOf(kind, object, isCustom));
    this.#settle(book, id, type === 'deleted' ? undefined : object);
    this.#admitSoon(book);
  }

  /** Lets go of what was reserved for a write that the cache shows, or that was not made. */
  #settle(book: Book, id: string, shown: KubeObject | undefined): void {
    const { ledger, running, tenant } = book;
    if (!ledger.isReserved(id) || running.has(id)) return;
    const { super: expected } = tenant.expectations;
    const isUnseen =
      shown === undefined ? expected.createdUid(id) !== undefined : expected.isBehind(id, shown);
    if (isUnseen) return;
    ledger.release(id);
    this.#admitSoon(book);
  }

  /** Together for all that happens at once. */
  #admitSoon(book: Book): void {
    if (book.isAdmitting || book.ledger.waiting().length === 0) return;
    book.isAdmitting = true;
    setImmediate(() => {
      book.isAdmitting = false;
      const { uid } = book.tenant.info;
      if (this.#books.get(uid) !== book) return;
      for (const id of book.ledger.admit()) this.#options.wake(uid, keyOf(id));
    });
  }

  #shown(book: Book, key: KeyRef): KubeObject | undefined {
    const kind = this.#kindOf(book, key.kind);
    const ref = kind && book.tenant.superRef(kind, key);
    return kind && ref && this.#options.superCaches.of(kind).get(ref);
  }

  #kindOf({ tenant }: Book, name: string): SyncedKind | undefined {
    return this.#options.kinds.find((kind) => kind.name === name) ?? tenant.customKinds.get(name)?.kind;
  }
}

function written(kind: DownKind, object: KubeObject): { object: KubeObject; bytes: number } {
  return { object, bytes: bytesOf(kind, object) };
}

function patched(
  work: Work,
  kind: DownKind,
  patch: Record<string, unknown>,
): { object: KubeObject; bytes: number } {
  const before = work.situation.superObject ?? { metadata: {} };
  const object = applyMergePatch(before, patch) as KubeObject;
  return { object, bytes: bytesOf(kind, object, before) };
}

function idOf(kind: DownKind, superObject: KubeObject): string {
  const key = downKeyOf(kind, superObject);
  const { namespace = '', name } = superObject.metadata;
  return key === undefined ? `${kind.name}/unmarked:${namespace}/${name}` : keyId(key);
}

/** Inverse of `keyId`. */
function keyOf(id: string): KeyRef {
  const [kind = '', namespace = '', ...name] = id.split('/');
  return namespace === '' ? { kind, name: name.join('/') } : { kind, namespace, name: name.join('/') };
}

function unitsOf(amount: bigint): number {
  return Number(amount) / Number(nano);
}

function tooManyBytes(allowed: string | undefined): Notice {
  const message = `exceeded quota, limited: ${writes}=${allowed}; it is written as soon as others are made up for`;
  return { type: 'Warning', reason: 'QuotaExceeded', message };
}

/** In the words of ResourceQuota. */
function messageOf(excess: readonly Excess[]): string {
  const unbounded = excess.filter(({ isUnbounded }) => isUnbounded === true).map(({ resource }) => resource);
  if (unbounded.length > 0) return `exceeded quota, every container must specify ${unbounded.join(', ')}`;
  const all = (of: (each: Excess) => bigint): string =>
    excess.map((each) => `${each.resource}=${formatQuantity(of(each))}`).join(',');
  return `exceeded quota, requested: ${all(({ asked }) => asked)}, used: ${all(({ used }) => used)}, limited: ${all(({ allowed }) => allowed)}`;
}
