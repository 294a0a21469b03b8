import { IndexedHeap } from './heap.ts';
import {
  type AddOptions,
  Backoff,
  type FairQueueOptions,
  type MonotonicClock,
  type Outcome,
  type Priority,
  QueueError,
  type QueueObserver,
  requireCount,
  requirePositive,
  type TenantDepth,
} from './options.ts';
import {
  type AddRequest,
  Entry,
  type EntryRun,
  earlierDue,
  mergeRequests,
  nextRun,
  type Tenant,
  TenantScheduler,
  TenantTable,
} from './tenant-scheduler.ts';

/** When items run: those that may run now, by tenant and priority, and those that wait for a point in time. */
export class DelayingQueue<Item> {
  readonly #turns: TenantScheduler<Item>;
  readonly #delayed = new IndexedHeap<Entry<Item>>((a, b) => a.dueAt < b.dueAt);

  constructor(turns: TenantScheduler<Item>) {
    this.#turns = turns;
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

  /** Moves a ready item from background to live, or to its place if that is now the first; it keeps the time since when it waits. */
  promote(entry: Entry<Item>, now: number): void {
    const readyAt = entry.readyAt;
    this.unschedule(entry);
    entry.priority = 'live';
    this.#makeReady(entry, now);
    entry.readyAt = readyAt;
    this.#turns.refresh(entry.tenant, now);
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
    this.#turns.activate(tenant, priority, now);
  }
}

/**
 * Which item goes next, for many tenants that share a number of workers. Synchronous and without I/O: whoever runs
 * the items calls `take`, then `done` (see `QueueRunner`).
 *
 * - An item is known by tenant and key. However often it is added, it waits once, in its newest form; added while
 *   in process it runs once more afterwards. No two workers ever hold the same item.
 * - Tenants take turns by measured service time over weight, live items before background ones.
 * - A tenant holds at most its share of the workers.
 */
export class FairQueue<Item> {
  readonly #keyOf: (item: Item) => string;
  readonly #tenantOf: (item: Item) => string;
  readonly #clock: MonotonicClock;
  readonly #backoff: Backoff;
  readonly #releaseEveryMs: number;
  readonly #observer: QueueObserver<Item>;
  readonly #tenants = new TenantTable<Item>();
  readonly #turns: TenantScheduler<Item>;
  readonly #agenda: DelayingQueue<Item>;
  #size = 0;
  #listener: (() => void) | undefined;

  constructor(options: FairQueueOptions<Item>) {
    this.#keyOf = options.keyOf;
    this.#tenantOf = options.tenantOf;
    this.#clock = options.clock;
    this.#turns = new TenantScheduler(options, this.#tenants);
    this.#agenda = new DelayingQueue(this.#turns);
    this.#backoff = new Backoff(
      options.backoff ?? { baseMs: 100, maxMs: 60_000 },
      options.random ?? Math.random,
    );
    this.#releaseEveryMs = requirePositive('releaseEveryMs', options.releaseEveryMs ?? 1_000);
    this.#observer = options.observer ?? {};
  }

  /** Tells one listener that `take` or `nextDueAt` may answer differently. Calls come from within the queue's methods. */
  onChange(listener: (() => void) | undefined): void {
    this.#listener = listener;
  }

  add(item: Item, options: AddOptions = {}): void {
    const now = this.#clock.monotonic();
    this.#agenda.makeDueReady(now);
    const tenant = this.#tenants.ensure(this.#tenantOf(item));
    const wish: AddRequest = {
      at: now + Math.max(0, options.afterMs ?? 0),
      priority: options.priority ?? 'live',
      version: options.version,
    };
    const key = this.#keyOf(item);
    const entry = tenant.entries.get(key) ?? this.#newEntry(tenant, key, item, wish.priority);
    entry.item = item;
    if (options.first === true) entry.first = true;
    switch (entry.state) {
      case 'new':
        entry.delay = 'wish';
        this.#schedule(entry, wish.at, now);
        break;
      case 'ready':
        if (options.first === true || (wish.priority === 'live' && entry.priority === 'background')) {
          this.#agenda.promote(entry, now);
          this.#listener?.();
        }
        break;
      case 'delayed':
        if (wish.priority === 'live') entry.priority = 'live';
        this.#reschedule(entry, earlierDue(entry, wish, this.#releaseEveryMs), now);
        break;
      case 'processing': {
        const run = entry.run as EntryRun;
        run.again = mergeRequests(run.again, wish);
        break;
      }
    }
  }

  /** The item to be processed now, or undefined if none may. Each one taken must be given back with `done`. */
  take(): Item | undefined {
    const now = this.#clock.monotonic();
    this.#agenda.makeDueReady(now);
    const turn = this.#turns.next(now);
    if (turn === undefined) return undefined;
    const list = turn.tenant.ready[turn.priority];
    const entry = list.first() as Entry<Item>;
    list.remove(entry);
    entry.state = 'processing';
    entry.first = false;
    entry.run = {
      startedAt: now,
      expectedMs: this.#turns.begin(turn, now),
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
    const measuredMs = serviceMs ?? now - run.startedAt;
    this.#turns.finish(entry, run.startedAt, run.expectedMs, measuredMs, now);
    const dueAt = nextRun(entry, run, outcome, now, this.#backoff, this.#releaseEveryMs);
    entry.run = undefined;
    entry.state = 'new';
    if (dueAt === undefined) this.#discard(entry);
    else this.#schedule(entry, dueAt, now);
    this.#turns.refresh(tenant, now);
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

  /** A tenant has weight 1 until told otherwise. Also makes the tenant known, so that shares count it from now on. */
  setWeight(tenantName: string, weight: number): void {
    requirePositive('weight', weight);
    const now = this.#clock.monotonic();
    const tenant = this.#tenants.ensure(tenantName);
    this.#tenants.setWeight(tenant, weight);
    this.#turns.applyWeight(tenant, now);
    this.#limitsChanged(now);
  }

  /** Workers that a tenant may hold at once instead of its share; undefined: its share again. */
  setLimit(tenantName: string, limit: number | undefined): void {
    if (limit !== undefined) requireCount('limit', limit);
    const tenant = this.#tenants.ensure(tenantName);
    tenant.limit = limit;
    this.#limitsChanged(this.#clock.monotonic());
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
        this.#agenda.unschedule(entry);
        this.#discard(entry);
      }
    }
    this.#tenants.remove(tenant);
    this.#turns.applyWeight(tenant, now);
    this.#turns.refresh(tenant, now);
    this.#limitsChanged(now);
  }

  /** Whether the item is ready, in process, or delayed for no longer than this. */
  has(item: Item, withinMs = Number.POSITIVE_INFINITY): boolean {
    const entries = this.#tenants.get(this.#tenantOf(item))?.entries;
    // To make a key costs more than to look it up, and a patrol asks for every object that there is.
    const entry = entries === undefined || entries.size === 0 ? undefined : entries.get(this.#keyOf(item));
    if (entry === undefined) return false;
    return entry.state !== 'delayed' || entry.dueAt - this.#clock.monotonic() <= withinMs;
  }

  /** When the first delayed item is due, on the queue's clock. */
  nextDueAt(): number | undefined {
    return this.#agenda.nextDueAt();
  }

  /** Items that are ready, delayed or in process. */
  depth(tenantName?: string): number {
    return tenantName === undefined ? this.#size : (this.#tenants.get(tenantName)?.entries.size ?? 0);
  }

  depths(): TenantDepth[] {
    return Array.from(this.#tenants.values(), (tenant) => ({
      tenant: tenant.name,
      weight: tenant.weight,
      limit: this.#turns.limit(tenant),
      live: tenant.ready.live.size,
      background: tenant.ready.background.size,
      delayed: tenant.delayed,
      processing: tenant.processing,
    }));
  }

  #newEntry(tenant: Tenant<Item>, key: string, item: Item, priority: Priority): Entry<Item> {
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
    this.#agenda.schedule(entry, dueAt, now);
    this.#listener?.();
  }

  #reschedule(entry: Entry<Item>, dueAt: number, now: number): void {
    if (dueAt === entry.dueAt) return;
    this.#agenda.unschedule(entry);
    this.#schedule(entry, dueAt, now);
  }

  #limitsChanged(now: number): void {
    this.#turns.refreshAll(now);
    this.#listener?.();
  }
}
