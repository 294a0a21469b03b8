import { type HeapNode, IndexedHeap } from './heap.ts';
import {
  type AddOptions,
  type BackoffOptions,
  type FairQueueOptions,
  type MonotonicClock,
  type Outcome,
  type Priority,
  QueueError,
  type QueueObserver,
  requirePositive,
  type TenantDepth,
} from './options.ts';
import { type ScheduledRun, type Tenant, TenantScheduler, TenantTable } from './tenant-scheduler.ts';

/**
 * Where an item is. It is in exactly one place: a ready list, the delay heap, or a worker's hands.
 * An item that is in none has no entry.
 */
type EntryState = 'new' | 'ready' | 'delayed' | 'processing';

/**
 * Why an item is delayed, which decides what may end the delay:
 * `requested` any add; `backoff` a live add; `refused` an add with another version, or one that goes
 * first; `released` any add, but not before the pause since the last release is over.
 */
type DelayReason = 'requested' | 'backoff' | 'refused' | 'released';

/** One stay of an item with a worker. */
interface EntryRun<Item> {
  readonly scheduled: ScheduledRun<Entry<Item>>;
  /** What adds during the run ask for, all taken together. */
  again: AddRequest | undefined;
  /** The tenant was removed during the run: its outcome does not count, only what is added after that. */
  dropped: boolean;
}

class Entry<Item> implements HeapNode {
  readonly key: string;
  readonly tenant: Tenant<Entry<Item>>;
  /** The newest that was added. */
  item: Item;
  /** Written in this file only. */
  state: EntryState = 'new';
  /** The ready list it is in or will go to. */
  priority: Priority = 'live';
  /** Goes ahead of what its tenant has waiting, the next time that it is ready. */
  first = false;
  /** Failed runs in a row. */
  failures = 0;

  // In the ready list.
  readyAt = 0;
  previous: Entry<Item> | undefined = undefined;
  next: Entry<Item> | undefined = undefined;

  // In the delay heap, by dueAt.
  heapIndex = -1;
  dueAt = 0;
  delay: DelayReason = 'requested';
  refusedVersion: string | undefined = undefined;
  /** When a release from `refused` last led to a run. */
  releasedAt: number | undefined = undefined;

  /** While in process. */
  run: EntryRun<Item> | undefined = undefined;

  constructor(key: string, tenant: Tenant<Entry<Item>>, item: Item) {
    this.key = key;
    this.tenant = tenant;
    this.item = item;
  }
}

/** What an add asks for. */
interface AddRequest {
  at: number;
  priority: Priority;
  version: string | undefined;
  /** Ahead of what the tenant has waiting, and of the back-off after a refusal. */
  first: boolean;
}

/** When a delayed item is due after one more add. May turn `refused` into `released`. */
function earlierDue<Item>(entry: Entry<Item>, request: AddRequest, releaseEveryMs: number): number {
  switch (entry.delay) {
    case 'requested':
      return Math.min(entry.dueAt, request.at);
    case 'backoff':
      return request.priority === 'live' ? Math.min(entry.dueAt, request.at) : entry.dueAt;
    case 'refused':
      if (!request.first && (request.version ?? entry.refusedVersion) === entry.refusedVersion)
        return entry.dueAt;
      entry.delay = 'released';
      return Math.min(entry.dueAt, Math.max(request.at, earliestRelease(entry, releaseEveryMs)));
    case 'released':
      return Math.min(entry.dueAt, Math.max(request.at, earliestRelease(entry, releaseEveryMs)));
  }
}

/**
 * When an item whose run has ended is due again, from its outcome and from what was added meanwhile; undefined:
 * never.
 */
function nextRun<Item>(
  entry: Entry<Item>,
  run: EntryRun<Item>,
  outcome: Outcome,
  now: number,
  backoff: ExponentialFailureRateLimiter,
  releaseEveryMs: number,
): number | undefined {
  const dueAt = dueAfter(entry, run.dropped ? { action: 'done' } : outcome, now, backoff);
  if (run.again === undefined) return dueAt;
  if (dueAt === undefined) {
    entry.priority = run.again.priority;
    return run.again.at;
  }
  if (run.again.priority === 'live') entry.priority = 'live';
  entry.dueAt = dueAt;
  return earlierDue(entry, run.again, releaseEveryMs);
}

/** Several adds as one: the earliest time, the higher priority, the newest version. */
function mergeRequests(request: AddRequest | undefined, newer: AddRequest): AddRequest {
  if (request === undefined) return newer;
  return {
    at: Math.min(request.at, newer.at),
    priority: request.priority === 'live' ? 'live' : newer.priority,
    version: newer.version ?? request.version,
    first: request.first || newer.first,
  };
}

function earliestRelease<Item>(entry: Entry<Item>, releaseEveryMs: number): number {
  return entry.releasedAt === undefined ? 0 : entry.releasedAt + releaseEveryMs;
}

function dueAfter<Item>(
  entry: Entry<Item>,
  outcome: Outcome,
  now: number,
  backoff: ExponentialFailureRateLimiter,
): number | undefined {
  entry.refusedVersion = undefined;
  entry.delay = 'requested';
  switch (outcome.action) {
    case 'done':
      entry.failures = 0;
      return undefined;
    case 'later':
      entry.failures = 0;
      return now + Math.max(0, outcome.afterMs);
    case 'backoff':
      entry.failures += 1;
      entry.delay = outcome.refusedVersion === undefined ? 'backoff' : 'refused';
      entry.refusedVersion = outcome.refusedVersion;
      return now + backoff.delayMs(entry.failures);
  }
}

/**
 * Exponential back-off with jitter: the n-th failure waits between half and all of `baseMs * 2^(n-1)`, at most
 * `maxMs`.
 */
class ExponentialFailureRateLimiter {
  readonly #baseMs: number;
  readonly #maxMs: number;
  readonly #random: () => number;

  constructor(options: BackoffOptions, random: () => number) {
    this.#baseMs = requirePositive('backoff.baseMs', options.baseMs);
    this.#maxMs = requirePositive('backoff.maxMs', options.maxMs);
    if (this.#maxMs < this.#baseMs) {
      throw new QueueError(
        'InvalidOption',
        `backoff.maxMs ${options.maxMs} is below backoff.baseMs ${options.baseMs}`,
      );
    }
    this.#random = random;
  }

  delayMs(failures: number): number {
    const full = Math.min(this.#maxMs, this.#baseMs * 2 ** (failures - 1));
    return full * (1 - this.#random() / 2);
  }
}

/** When items run: those that may run now, by tenant and priority, and those that wait for a point in time. */
class DelayingQueue<Item> {
  readonly #scheduler: TenantScheduler<Entry<Item>>;
  readonly #delayed = new IndexedHeap<Entry<Item>>((a, b) => a.dueAt < b.dueAt);

  constructor(scheduler: TenantScheduler<Entry<Item>>) {
    this.#scheduler = scheduler;
  }

  /** When the first delayed item is due. */
  nextDueAt(): number | undefined {
    return this.#delayed.first()?.dueAt;
  }

  schedule(entry: Entry<Item>, dueAt: number, now: number): void {
    if (dueAt <= now) {
      this.#makeReady(entry, now);
      return;
    }
    entry.state = 'delayed';
    entry.dueAt = dueAt;
    entry.tenant.delayed += 1;
    this.#delayed.push(entry);
  }

  unschedule(entry: Entry<Item>): void {
    if (entry.state === 'delayed') {
      this.#delayed.remove(entry);
      entry.tenant.delayed -= 1;
    } else if (entry.state === 'ready') {
      entry.tenant.ready[entry.priority].remove(entry);
    }
    entry.state = 'new';
  }

  /**
   * Moves a ready item from background to live, or to its place if that is now the first; it keeps the time since
   * when it waits.
   */
  promote(entry: Entry<Item>, now: number): void {
    const readyAt = entry.readyAt;
    this.unschedule(entry);
    entry.priority = 'live';
    this.#makeReady(entry, now);
    entry.readyAt = readyAt;
    this.#scheduler.refresh(entry.tenant, now);
  }

  /** Makes ready what is due. */
  makeDueReady(now: number): void {
    for (;;) {
      const entry = this.#delayed.first();
      if (entry === undefined || entry.dueAt > now) return;
      this.unschedule(entry);
      this.#makeReady(entry, now);
      entry.readyAt = entry.dueAt;
    }
  }

  #makeReady(entry: Entry<Item>, now: number): void {
    const { tenant, priority } = entry;
    entry.state = 'ready';
    entry.readyAt = now;
    if (entry.first) tenant.ready[priority].prepend(entry);
    else tenant.ready[priority].append(entry);
    if (tenant.ready[priority].size > 1) return;
    this.#scheduler.activate(tenant, priority, now);
  }
}

/**
 * Which item goes next, for many tenants that share a number of workers. Synchronous and without I/O: `QueueRunner`
 * calls `take`, then `done`.
 *
 * - An item is known by tenant and key. However often it is added, it waits once, in its newest form; added while
 *   in process it runs once more afterwards. No two workers ever hold the same item (sync rule `one-worker-per-item`).
 * - Tenants take turns by measured service time over weight, live items before background ones.
 * - A tenant holds at most its share of the workers, and none with an item that takes long.
 */
export class FairQueue<Item> {
  readonly #keyOf: (item: Item) => string;
  readonly #tenantOf: (item: Item) => string;
  readonly #clock: MonotonicClock;
  readonly #backoff: ExponentialFailureRateLimiter;
  readonly #releaseEveryMs: number;
  readonly #observer: QueueObserver<Item>;
  readonly #tenants = new TenantTable<Entry<Item>>();
  readonly #scheduler: TenantScheduler<Entry<Item>>;
  readonly #delaying: DelayingQueue<Item>;
  #size = 0;
  #listener: (() => void) | undefined;

  constructor(options: FairQueueOptions<Item>) {
    this.#keyOf = options.keyOf;
    this.#tenantOf = options.tenantOf;
    this.#clock = options.clock;
    this.#scheduler = new TenantScheduler(options, this.#tenants);
    this.#delaying = new DelayingQueue(this.#scheduler);
    this.#backoff = new ExponentialFailureRateLimiter(
      options.backoff ?? { baseMs: 100, maxMs: 60_000 },
      options.random ?? Math.random,
    );
    this.#releaseEveryMs = requirePositive('releaseEveryMs', options.releaseEveryMs ?? 1_000);
    this.#observer = options.observer ?? {};
  }

  /**
   * Tells one listener that `take` or `nextDueAt` may answer differently. Calls come from within the queue's
   * methods.
   */
  onChange(listener: (() => void) | undefined): void {
    this.#listener = listener;
  }

  add(item: Item, options: AddOptions = {}): void {
    const now = this.#clock.monotonic();
    this.#delaying.makeDueReady(now);
    const tenant = this.#tenants.ensure(this.#tenantOf(item));
    const request: AddRequest = {
      at: now + Math.max(0, options.afterMs ?? 0),
      priority: options.priority ?? 'live',
      version: options.version,
      first: options.first === true,
    };
    const key = this.#keyOf(item);
    const entry = tenant.entries.get(key) ?? this.#newEntry(tenant, key, item, request.priority);
    entry.item = item;
    if (options.first === true) entry.first = true;
    switch (entry.state) {
      case 'new':
        entry.delay = 'requested';
        this.#schedule(entry, request.at, now);
        break;
      case 'ready':
        if (options.first === true || (request.priority === 'live' && entry.priority === 'background')) {
          this.#delaying.promote(entry, now);
          this.#listener?.();
        }
        break;
      case 'delayed':
        if (request.priority === 'live') entry.priority = 'live';
        this.#reschedule(entry, earlierDue(entry, request, this.#releaseEveryMs), now);
        break;
      case 'processing': {
        const run = entry.run as EntryRun<Item>;
        run.again = mergeRequests(run.again, request);
        break;
      }
    }
  }

  /** The item to be processed now, or undefined if none may. Each one taken must be given back with `done`. */
  take(): Item | undefined {
    const now = this.#clock.monotonic();
    this.#delaying.makeDueReady(now);
    const turn = this.#scheduler.next(now);
    if (turn === undefined) return undefined;
    const list = turn.tenant.ready[turn.priority];
    const entry = list.first() as Entry<Item>;
    list.remove(entry);
    entry.state = 'processing';
    entry.first = false;
    entry.run = {
      scheduled: this.#scheduler.begin(turn, now),
      again: undefined,
      dropped: false,
    };
    if (entry.delay === 'released') entry.releasedAt = now;
    const item = entry.item;
    this.#observer.taken?.(item, now - entry.readyAt);
    return item;
  }

  /**
   * Ends the run of an item that was taken, and charges it to its tenant.
   * @param serviceMs default: the time since it was taken
   * @throws QueueError NotProcessing
   */
  done(item: Item, outcome: Outcome = { action: 'done' }, serviceMs?: number): void {
    const now = this.#clock.monotonic();
    const tenant = this.#tenants.get(this.#tenantOf(item));
    const entry = tenant?.entries.get(this.#keyOf(item));
    const run = entry?.run;
    if (tenant === undefined || entry === undefined || run === undefined) {
      throw new QueueError(
        'NotProcessing',
        `${this.#tenantOf(item)} ${this.#keyOf(item)} is not in process; call done once for each item taken`,
      );
    }
    const measuredMs = serviceMs ?? now - run.scheduled.startedAt;
    this.#scheduler.finish(run.scheduled, measuredMs, now);
    const dueAt = nextRun(entry, run, outcome, now, this.#backoff, this.#releaseEveryMs);
    entry.run = undefined;
    entry.state = 'new';
    if (dueAt === undefined) this.#discard(entry);
    else this.#schedule(entry, dueAt, now);
    this.#scheduler.refresh(tenant, now);
    this.#tenants.forgetIfRemoved(tenant);
    this.#observer.done?.(item, measuredMs, outcome);
    this.#listener?.();
  }

  /** Ends the back-off of a tenant's items, e.g. because its API server is back. What was refused stays refused. */
  retryNow(tenantName: string): void {
    const now = this.#clock.monotonic();
    const tenant = this.#tenants.get(tenantName);
    if (tenant === undefined) return;
    for (const entry of tenant.entries.values()) {
      if (entry.state === 'delayed' && entry.delay === 'backoff') this.#reschedule(entry, now, now);
    }
  }

  /** A tenant has weight 1 until this is called. Also makes the tenant known, so that shares count it from now on. */
  setWeight(tenantName: string, weight: number): void {
    requirePositive('weight', weight);
    const now = this.#clock.monotonic();
    const tenant = this.#tenants.ensure(tenantName);
    this.#tenants.setWeight(tenant, weight);
    this.#scheduler.applyWeight(tenant, now);
    this.#limitsChanged(now);
  }

  /** Forgets a tenant and all its items. Those in process finish, and do not come back unless they are added again. */
  removeTenant(tenantName: string): void {
    const now = this.#clock.monotonic();
    const tenant = this.#tenants.get(tenantName);
    if (tenant === undefined || tenant.removed) return;
    for (const entry of tenant.entries.values()) {
      entry.first = false;
      if (entry.run !== undefined) {
        entry.run.dropped = true;
        entry.run.again = undefined;
        entry.releasedAt = undefined;
      } else {
        this.#delaying.unschedule(entry);
        this.#discard(entry);
      }
    }
    this.#tenants.remove(tenant);
    this.#scheduler.applyWeight(tenant, now);
    this.#scheduler.refresh(tenant, now);
    this.#limitsChanged(now);
  }

  /** Whether the item is ready, in process, or delayed for no longer than this. */
  has(item: Item, withinMs = Number.POSITIVE_INFINITY): boolean {
    const entries = this.#tenants.get(this.#tenantOf(item))?.entries;
    // Making a key costs more than looking it up, and a resync asks for every object.
    const entry = entries === undefined || entries.size === 0 ? undefined : entries.get(this.#keyOf(item));
    if (entry === undefined) return false;
    return entry.state !== 'delayed' || entry.dueAt - this.#clock.monotonic() <= withinMs;
  }

  /** Whether a live item waits for nothing but a free worker, its own tenant's among all that are held. */
  hasLiveWaiting(): boolean {
    return this.#scheduler.hasLiveWaiting();
  }

  /** Live items of a tenant that wait for a worker. */
  liveWaiting(tenantName: string): number {
    return this.#tenants.get(tenantName)?.ready.live.size ?? 0;
  }

  /** When `take` may have more to give, on the queue's clock: an item is due, or one that takes long gives its worker back. */
  nextDueAt(): number | undefined {
    const dueAt = this.#delaying.nextDueAt();
    const overdueAt = this.#scheduler.nextOverdueAt();
    return dueAt === undefined || overdueAt === undefined ? (dueAt ?? overdueAt) : Math.min(dueAt, overdueAt);
  }

  /** Items that are ready, delayed or in process. */
  depth(tenantName?: string): number {
    return tenantName === undefined ? this.#size : (this.#tenants.get(tenantName)?.entries.size ?? 0);
  }

  depths(): TenantDepth[] {
    return Array.from(this.#tenants.values(), (tenant) => ({
      tenant: tenant.name,
      weight: tenant.weight,
      limit: this.#scheduler.limit(tenant),
      live: tenant.ready.live.size,
      background: tenant.ready.background.size,
      delayed: tenant.delayed,
      processing: tenant.processing,
    }));
  }

  #newEntry(tenant: Tenant<Entry<Item>>, key: string, item: Item, priority: Priority): Entry<Item> {
    const entry = new Entry(key, tenant, item);
    entry.priority = priority;
    tenant.entries.set(key, entry);
    this.#size += 1;
    return entry;
  }

  #discard(entry: Entry<Item>): void {
    entry.tenant.entries.delete(entry.key);
    this.#size -= 1;
  }

  #schedule(entry: Entry<Item>, dueAt: number, now: number): void {
    this.#delaying.schedule(entry, dueAt, now);
    this.#listener?.();
  }

  #reschedule(entry: Entry<Item>, dueAt: number, now: number): void {
    if (dueAt === entry.dueAt) return;
    this.#delaying.unschedule(entry);
    this.#schedule(entry, dueAt, now);
  }

  #limitsChanged(now: number): void {
    this.#scheduler.refreshAll(now);
    this.#listener?.();
  }
}
