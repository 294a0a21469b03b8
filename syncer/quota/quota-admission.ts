import type { Quota } from '../../api/quota.ts';
import {
  applyMergePatch,
  formatQuantity,
  type KubeObject,
  type MergePatch,
  nano,
  parseExactQuantity,
  type Resource,
  type Store,
  type StoreEvent,
} from '../../kube/index.ts';
import type { KeyRef } from '../context.ts';
import type { DownKind, Notice, SuperObjects, SyncedKind } from '../kinds/contract.ts';
import { namespaceKind } from '../kinds/namespaces.ts';
import { tenantUidOf } from '../mapping/labels.ts';
import { byTenantIndex, type Caches } from '../reconcile/caches.ts';
import { done, type Outcome } from '../reconcile/controller.ts';
import { type ActionGate, recordNotice, recordOverQuota } from '../reconcile/execute.ts';
import { downKeyOf, keyId } from '../reconcile/keys.ts';
import type { ReadBudget } from '../reconcile/payloads.ts';
import type { TenantState } from '../reconcile/tenant-state.ts';
import { ByteBudget } from './byte-budget.ts';
import { bytesOf, type Charge, chargeOf } from './charges.ts';
import { type Excess, QuotaLedger } from './ledger.ts';

const writes = 'writes.bytes-per-minute';
/** What controllers of the super cluster make in a new namespace, and the work of it. Bytes. */
const costOfNamespace = 256 * 1024;
/** Of a deletion, which never waits: what is made or changed after many does. Bytes. */
const costOfDeletion = 4 * 1024;
/** A burst of two seconds' worth is over before others notice. */
const burstOfWritesMs = 2_000;
/** Nothing is stored of what is read, and after a start much is read to find that nothing has changed. */
const burstOfReadsMs = 5_000;
/** Whose copy is not equal is read and written; writing it costs servers about three times what reading it does. */
const passesOfUnequal = 4;

/** One that finds the line of its quota full looks again after this time, unless it is woken before. */
const beyondLineMs = 600_000;
/** Between two looks at all that wait there is a pause, as many times as long as the first one took, but no longer than a second. */
const restPerLook = 20;
const longestRestMs = 1_000;

/** What the manager adds up as usage, whether it is limited or not. */
const meteredResources = ['pods', 'requests.cpu', 'requests.memory', 'requests.storage'] as const;

/** The same of a tenant that no session serves, by what the super cluster has of it, as quantities. */
export function meteredUsage(
  superCaches: Caches,
  kinds: readonly ChargedObjects[],
  uid: string,
): Record<string, string> {
  const sums = new Map<string, bigint>(meteredResources.map((each) => [each, 0n]));
  for (const kind of kinds) {
    if (kind.name !== 'pods' && kind.name !== 'persistentvolumeclaims') continue;
    for (const object of superCaches.of(kind).byIndex(byTenantIndex, uid))
      for (const [resource, amount] of chargeOf(kind, object, false, 0).amounts)
        if (sums.has(resource)) sums.set(resource, (sums.get(resource) ?? 0n) + amount);
  }
  return Object.fromEntries([...sums].map(([resource, sum]) => [resource, formatQuantity(sum)]));
}

/** What a tenant has of one limited resource; in units, not in nano-units. */
export interface ResourceUsage {
  readonly resource: string;
  readonly used: number;
  readonly limit: number;
}

/** The accounts of one tenant. */
class Book {
  readonly ledger = new QuotaLedger();
  readonly budget: ByteBudget;
  /** As large; a budget of their own, so that many of them do not hold up pods. */
  readonly newNamespaces: ByteBudget;
  /** As large; of payloads that are read to be compared with their copies. */
  readonly reads: ByteBudget;
  /** As large; of payloads that are read to be copied for the first time, which after a start need not wait for all others. */
  readonly firstReads: ByteBudget;
  readonly running = new Set<string>();
  /** Who has asked in the run that is under way. */
  readonly asked = new Set<string>();
  /** What each has taken of `budget` in the run that is under way. */
  readonly taken = new Map<string, number>();
  /** Who waits for bytes since its last run, and of which budget. */
  readonly waiting = new Map<string, ByteBudget>();
  readonly tenant: TenantState;
  /** A look at those who wait is under way, or rests. */
  isAdmitting = false;
  /** There may be room that the last look has not seen. */
  mustAdmit = false;
  #quota: Quota | undefined;

  constructor(tenant: TenantState, { monotonicMs, wake }: QuotaAdmissionOptions) {
    this.tenant = tenant;
    const budget = (burstMs: number): ByteBudget =>
      new ByteBudget({
        monotonicMs,
        burstMs,
        wake: (id, afterMs) => wake(tenant.info.uid, keyOf(id), afterMs),
      });
    this.budget = budget(burstOfWritesMs);
    this.newNamespaces = budget(burstOfWritesMs);
    this.reads = budget(burstOfReadsMs);
    this.firstReads = budget(burstOfReadsMs);
    this.readLimits();
  }

  get budgets(): readonly ByteBudget[] {
    return [this.budget, this.newNamespaces, this.reads, this.firstReads];
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
    for (const budget of this.budgets)
      budget.setLimit(perMinute === undefined ? undefined : Number(perMinute / nano));
    this.ledger.setLimits(limits);
    return true;
  }
}

/** What is charged: super objects of a kind, or of a controller, and the tenant objects that they are made from. */
export interface ChargedObjects extends SuperObjects {
  /** Of the tenant objects; the same as the super objects' unless given. */
  readonly tenantResource?: Resource;
  /** Size as JSON of a super object, or of what the cache keeps of one; that of the object given unless set. */
  readonly bytesOf?: (superObject: KubeObject) => number;
}

/** A write that has no room now. */
export interface QuotaDenial {
  readonly notice: Notice;
  /** When to ask again; undefined: the key is queued when its turn has come. */
  readonly afterMs?: number;
  /** The quota is full; otherwise it is only a matter of time. */
  readonly isExceeded?: true;
}

interface QuotaAdmissionOptions {
  kinds: readonly SyncedKind[];
  /** What controllers of their own write. */
  others?: readonly ChargedObjects[];
  superCaches: Caches;
  monotonicMs: () => number;
  sleep: (ms: number) => Promise<void>;
  /** Queues a key whose turn has come, or comes this long from now. */
  wake: (uid: string, key: KeyRef, afterMs?: number) => void;
}

/**
 * Keeps what a tenant has in the super cluster within its quota (sync rule `quota`): every create, and every patch that
 * makes an object take more, is reserved in the tenant's ledger before it is sent.
 */
export class QuotaAdmission {
  readonly #options: QuotaAdmissionOptions;
  readonly #charged: readonly ChargedObjects[];
  readonly #books = new Map<string, Book>();
  readonly #followed = new WeakSet<Store>();

  constructor(options: QuotaAdmissionOptions) {
    this.#options = options;
    this.#charged = [...options.kinds.filter((kind) => kind.direction === 'down'), ...(options.others ?? [])];
    for (const charged of this.#charged) this.#follow(charged, false);
  }

  join(tenant: TenantState): void {
    const book = new Book(tenant, this.#options);
    this.#books.set(tenant.info.uid, book);
    for (const charged of this.#charged) this.#showAll(book, charged, false);
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
    if (kind.direction === 'up') return action;
    if (action.do === 'deleteSuper') this.chargeDeletion(tenant);
    if (action.do !== 'createSuper' && action.do !== 'patchSuper') return action;
    if (action.do === 'patchSuper' && action.isDemanded === true) return action;
    const isCreated = action.do === 'createSuper';
    const denial = isCreated
      ? this.reserve(tenant, situation.key, kind, action.object)
      : this.reserve(tenant, situation.key, kind, situation.superObject ?? { metadata: {} }, action.patch);
    if (denial === undefined) return action;
    const { notice, isExceeded = false } = denial;
    let { afterMs } = denial;
    if (isExceeded) {
      const untoldMs = await recordOverQuota(work, notice);
      if (untoldMs > 0) afterMs ??= untoldMs;
    } else await recordNotice(work, notice);
    if (afterMs === undefined) return isCreated ? done : { skip: true };
    return isCreated ? { is: 'later', afterMs } : { skip: true, afterMs };
  };

  readonly reads: ReadBudget = {
    denialOf: ({ info }, key, hasCopy) => {
      const book = this.#books.get(info.uid);
      if (book === undefined) return undefined;
      if (book.readLimits()) this.#admitSoon(book);
      const id = keyId(key);
      // One that was read and waits to be written has had its turn.
      if (book.budget.isWaiting(id)) return budgetDenial(book, book.budget, id);
      return budgetDenial(book, hasCopy ? book.reads : book.firstReads, id);
    },
    take: ({ info }, key, bytes, copy) => {
      const book = this.#books.get(info.uid);
      const budget = copy === 'missing' ? book?.firstReads : book?.reads;
      budget?.take(keyId(key), bytes * (copy === 'equal' ? 1 : passesOfUnequal));
    },
  };

  /** Reserves what a write will take: a create of this object, or this patch of it. `undefined`: it may be sent. */
  reserve(
    tenant: TenantState,
    key: KeyRef,
    kind: ChargedObjects,
    before: KubeObject,
    patch?: MergePatch,
  ): QuotaDenial | undefined {
    const book = this.#books.get(tenant.info.uid);
    if (book === undefined) return undefined;
    if (book.readLimits()) this.#admitSoon(book);
    const isNamespace = kind.name === namespaceKind.name && patch === undefined;
    const budget = isNamespace ? book.newNamespaces : book.budget;
    const id = keyId(key);
    const toWait = budgetDenial(book, budget, id);
    if (toWait !== undefined) return toWait;
    book.asked.add(id);
    const bytes = this.#claim(book, id, kind, before, patch);
    if (typeof bytes !== 'number') return bytes;
    budget.take(id, isNamespace ? Math.max(costOfNamespace, bytes) : bytes);
    if (!isNamespace) book.taken.set(id, bytes + (book.taken.get(id) ?? 0));
    return undefined;
  }

  /**
   * The same for a write that was reserved in this run and takes more than was known then. It has had its turn among those
   * that wait to write, and does not stand in their line again.
   */
  enlarge(
    tenant: TenantState,
    key: KeyRef,
    kind: ChargedObjects,
    before: KubeObject,
    patch?: MergePatch,
  ): QuotaDenial | undefined {
    const book = this.#books.get(tenant.info.uid);
    const id = keyId(key);
    const reserved = book?.taken.get(id);
    if (book === undefined || reserved === undefined) return this.reserve(tenant, key, kind, before, patch);
    const bytes = this.#claim(book, id, kind, before, patch);
    if (typeof bytes !== 'number') {
      this.giveBack(tenant, key);
      return bytes;
    }
    book.budget.take(id, bytes - reserved);
    book.taken.set(id, bytes);
    return undefined;
  }

  /** Room in the quota for what a write makes of an object, and its bytes; it stands in line where there is none. */
  #claim(
    book: Book,
    id: string,
    kind: ChargedObjects,
    before: KubeObject,
    patch: MergePatch | undefined,
  ): QuotaDenial | number {
    const object = patch === undefined ? before : (applyMergePatch(before, patch) as KubeObject);
    const bytes = sizeOf(kind, object, before);
    const excess = book.ledger.reserve(id, chargeOf(kind, object, !this.#charged.includes(kind), bytes));
    if (excess.length === 0) return bytes;
    return {
      notice: { type: 'Warning', reason: 'QuotaExceeded', message: messageOf(excess) },
      isExceeded: true,
      ...(book.ledger.isBeyond(id) && { afterMs: beyondLineMs }),
    };
  }

  /** A super object is about to be deleted. */
  chargeDeletion({ info }: TenantState): void {
    const book = this.#books.get(info.uid);
    if (book?.readLimits() === true) this.#admitSoon(book);
    book?.budget.charge(costOfDeletion);
  }

  /** The write that was to be made is not made in this run. */
  giveBack({ info }: TenantState, key: KeyRef): void {
    const book = this.#books.get(info.uid);
    const id = keyId(key);
    const bytes = book?.taken.get(id);
    if (book === undefined || bytes === undefined) return;
    book.budget.giveBack(bytes);
    book.taken.delete(id);
  }

  began(uid: string, key: KeyRef): void {
    const book = this.#books.get(uid);
    const id = keyId(key);
    book?.running.add(id);
    book?.asked.delete(id);
    book?.waiting.delete(id);
  }

  /** `outcome`: undefined for a run that was cut short. */
  ended(tenant: TenantState, key: KeyRef, outcome: Outcome | undefined): void {
    const book = this.#books.get(tenant.info.uid);
    if (book === undefined) return;
    const id = keyId(key);
    book.running.delete(id);
    const hasAsked = book.asked.delete(id);
    book.taken.delete(id);
    // One that fails otherwise comes again at a time of its own, and nobody is to wait for that.
    if (outcome?.is !== 'later') book.waiting.delete(id);
    const waitsOf = book.waiting.get(id);
    for (const budget of book.budgets) budget.ended(id, budget === waitsOf);
    // It keeps its place in the ledger as well.
    if (waitsOf !== undefined) return;
    // Whether the write was made is not known; the next run tells.
    if (outcome === undefined || outcome.is === 'retry' || outcome.is === 'conflict') return;
    if (!hasAsked && book.ledger.giveUp(id)) this.#admitSoon(book);
    const charged = this.#chargedOf(book, key.kind);
    const hasPayload = charged?.payload !== undefined;
    // Most runs find nothing to write.
    if (!hasPayload && !book.ledger.isReserved(id)) return;
    const shown = this.#shown(book, key);
    // Its size was not known before the server had answered, or before it was read.
    if (shown !== undefined && hasPayload) book.ledger.show(id, this.#chargeOf(book, charged, shown));
    this.#releaseReservation(book, id, shown);
  }

  /** Whether it waits in a line, whose order it would lose if its next run did not ask. */
  hasTurn({ info }: TenantState, key: KeyRef): boolean {
    const book = this.#books.get(info.uid);
    const id = keyId(key);
    return book !== undefined && (book.ledger.isWaiting(id) || book.budget.isWaiting(id));
  }

  isWaiting(tenant: TenantState, key: KeyRef): boolean {
    return this.whyWaiting(tenant, key) !== undefined;
  }

  /** As a sentence; undefined: it does not wait. */
  whyWaiting({ info }: TenantState, key: KeyRef): string | undefined {
    const book = this.#books.get(info.uid);
    if (book === undefined) return undefined;
    if (book.waiting.has(keyId(key)))
      return `waits its turn: as much as its quota of ${writes} allows was read and written just now`;
    return book.ledger.isWaiting(keyId(key)) || book.ledger.isBeyond(keyId(key))
      ? 'its quota is full: "vc-manager quota" shows of what, and it goes down when there is room'
      : undefined;
  }

  /** Corrects by the caches what an event that never came has left behind. */
  recount(tenant: TenantState): void {
    const book = this.#books.get(tenant.info.uid);
    if (book === undefined) return;
    book.readLimits();
    for (const id of book.ledger.ids())
      if (book.ledger.isReserved(id)) this.#releaseReservation(book, id, this.#shown(book, keyOf(id)));
    // One whose tenant object is gone finds nothing to do, and gives up.
    for (const id of book.ledger.waiting()) {
      const key = keyOf(id);
      const charged = this.#chargedOf(book, key.kind);
      const { caches } = book.tenant;
      if (charged === undefined || caches.get(charged.tenantResource ?? charged.resource, key) === undefined)
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

  /** What one tenant has of what is limited, and of what its usage is measured by (`status.usage.resources`). */
  usedBy(uid: string): Record<string, string> {
    const ledger = this.#books.get(uid)?.ledger;
    const metered = ledger === undefined ? [] : meteredResources;
    return {
      ...Object.fromEntries(metered.map((each) => [each, formatQuantity(ledger?.used(each) ?? 0n)])),
      ...Object.fromEntries([...this.usageOf(uid)].map(({ resource, quantity }) => [resource, quantity])),
    };
  }

  #follow(kind: ChargedObjects, isCustom: boolean): void {
    const store = this.#options.superCaches.of(kind);
    if (this.#followed.has(store)) return;
    this.#followed.add(store);
    store.subscribe((event) => this.#superEvent(kind, event, isCustom));
  }

  #showAll(book: Book, kind: ChargedObjects, isCustom: boolean): void {
    const { uid } = book.tenant.info;
    for (const object of this.#options.superCaches.of(kind).byIndex(byTenantIndex, uid))
      book.ledger.show(idOf(kind, object), this.#chargeOf(book, kind, object, isCustom));
  }

  #superEvent(
    kind: ChargedObjects,
    { type, object, previous }: StoreEvent<KubeObject>,
    isCustom: boolean,
  ): void {
    const book = this.#books.get(tenantUidOf(object) ?? '');
    if (book === undefined) return;
    const id = idOf(kind, object);
    if (previous !== undefined && tenantUidOf(previous) === tenantUidOf(object)) {
      const before = idOf(kind, previous);
      if (before !== id) book.ledger.show(before, undefined);
    }
    book.ledger.show(id, type === 'deleted' ? undefined : this.#chargeOf(book, kind, object, isCustom));
    this.#releaseReservation(book, id, type === 'deleted' ? undefined : object);
    this.#admitSoon(book);
  }

  /** Lets go of what was reserved for a write that the cache shows, or that was not made. */
  #releaseReservation(book: Book, id: string, shown: KubeObject | undefined): void {
    const { ledger, running, waiting, tenant } = book;
    if (!ledger.isReserved(id) || running.has(id) || waiting.has(id)) return;
    const { super: expected } = tenant.expectations;
    const isUnseen =
      shown === undefined ? expected.createdUid(id) !== undefined : expected.isBehind(id, shown);
    if (isUnseen) return;
    ledger.release(id);
    this.#admitSoon(book);
  }

  /** Together for all that happens at once, and until the look at a long line is made up for. */
  #admitSoon(book: Book): void {
    if (book.ledger.waitingSize === 0) return;
    book.mustAdmit = true;
    if (book.isAdmitting) return;
    book.isAdmitting = true;
    setImmediate(() => void this.#admit(book));
  }

  async #admit(book: Book): Promise<void> {
    const { monotonicMs, sleep, wake } = this.#options;
    const { ledger } = book;
    const { uid } = book.tenant.info;
    while (book.mustAdmit && this.#books.get(uid) === book) {
      book.mustAdmit = false;
      const startedMs = monotonicMs();
      for (const id of [...ledger.admit(), ...ledger.takeNext()]) wake(uid, keyOf(id));
      const restMs = Math.min((monotonicMs() - startedMs) * restPerLook, longestRestMs);
      if (restMs >= 1) await sleep(restMs);
    }
    book.isAdmitting = false;
  }

  /** What a super object takes that the cache shows. */
  #chargeOf({ tenant }: Book, kind: ChargedObjects, superObject: KubeObject, isCustom = false): Charge {
    if (kind.payload !== undefined) tenant.writtenPayloads.recognize(idOf(kind, superObject), superObject);
    return chargeOf(kind, superObject, isCustom, sizeOf(kind, superObject));
  }

  #shown(book: Book, key: KeyRef): KubeObject | undefined {
    const charged = this.#chargedOf(book, key.kind);
    const ref = charged && book.tenant.superRefOf(charged, key);
    return charged && ref && this.#options.superCaches.of(charged).get(ref);
  }

  #chargedOf({ tenant }: Book, name: string): ChargedObjects | undefined {
    return this.#charged.find((kind) => kind.name === name) ?? tenant.customKinds.get(name)?.kind;
  }
}

function sizeOf(kind: ChargedObjects, superObject: KubeObject, cached = superObject): number {
  return kind.bytesOf?.(superObject) ?? bytesOf(kind, superObject, cached);
}

function idOf(kind: SuperObjects, superObject: KubeObject): string {
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

/** Why and how long a write, or a read for one, has to wait; undefined: it need not. */
function budgetDenial(
  { tenant, waiting }: Book,
  budget: ByteBudget,
  id: string,
): (QuotaDenial & { afterMs: number }) | undefined {
  const afterMs = budget.waitMs(id);
  if (afterMs === 0) return undefined;
  waiting.set(id, budget);
  return { notice: tooManyBytes(tenant.info.policy.quota?.[writes]), afterMs };
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
