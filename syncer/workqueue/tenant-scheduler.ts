import { type HeapNode, TenantUsage, VirtualTimeHeap } from './heap.ts';
import {
  type Backoff,
  type FairQueueOptions,
  type Outcome,
  type Priority,
  requireCount,
  requirePositive,
  weightedShare,
} from './options.ts';

/**
 * Where an item is. It is in exactly one place: a ready list, the delay heap, or a worker's hands.
 * An item that is in none has no entry.
 */
export type EntryState = 'new' | 'ready' | 'delayed' | 'processing';

/**
 * Why an item is delayed, which decides what may end the delay:
 * `wish` any add; `backoff` a live add; `refused` an add with another version; `released` any add, but not
 * before the pause since the last release is over.
 */
export type DelayReason = 'wish' | 'backoff' | 'refused' | 'released';

/** One stay of an item with a worker. */
export interface EntryRun {
  startedAt: number;
  expectedMs: number;
  /** What adds during the run ask for, all taken together. */
  again: AddRequest | undefined;
  /** The tenant was removed during the run: its outcome does not count, only what is added after that. */
  dropped: boolean;
}

export class Entry<Item> implements HeapNode {
  readonly key: string;
  readonly tenant: Tenant<Item>;
  /** The newest that was added. */
  item: Item;
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
  delay: DelayReason = 'wish';
  refusedVersion: string | undefined = undefined;
  /** When a release from `refused` last led to a run. */
  releasedAt: number | undefined = undefined;

  /** While in process. */
  run: EntryRun | undefined = undefined;

  constructor(key: string, tenant: Tenant<Item>, item: Item) {
    this.key = key;
    this.tenant = tenant;
    this.item = item;
  }
}

/** First in, first out, with removal from the middle in O(1). */
export class EntryList<Item> {
  #head: Entry<Item> | undefined;
  #tail: Entry<Item> | undefined;
  #size = 0;

  get size(): number {
    return this.#size;
  }

  append(entry: Entry<Item>): void {
    entry.previous = this.#tail;
    if (this.#tail === undefined) this.#head = entry;
    else this.#tail.next = entry;
    this.#tail = entry;
    this.#size += 1;
  }

  prepend(entry: Entry<Item>): void {
    entry.next = this.#head;
    if (this.#head === undefined) this.#tail = entry;
    else this.#head.previous = entry;
    this.#head = entry;
    this.#size += 1;
  }

  first(): Entry<Item> | undefined {
    return this.#head;
  }

  remove(entry: Entry<Item>): void {
    if (entry.previous === undefined) this.#head = entry.next;
    else entry.previous.next = entry.next;
    if (entry.next === undefined) this.#tail = entry.previous;
    else entry.next.previous = entry.previous;
    entry.previous = undefined;
    entry.next = undefined;
    this.#size -= 1;
  }
}

/** What an add asks for. */
export interface AddRequest {
  at: number;
  priority: Priority;
  version: string | undefined;
}

/** When a delayed item is due after one more add. May turn `refused` into `released`. */
export function earlierDue<Item>(entry: Entry<Item>, wish: AddRequest, releaseEveryMs: number): number {
  switch (entry.delay) {
    case 'wish':
      return Math.min(entry.dueAt, wish.at);
    case 'backoff':
      return wish.priority === 'live' ? Math.min(entry.dueAt, wish.at) : entry.dueAt;
    case 'refused':
      if (wish.version === undefined || wish.version === entry.refusedVersion) return entry.dueAt;
      entry.delay = 'released';
      return Math.min(entry.dueAt, Math.max(wish.at, earliestRelease(entry, releaseEveryMs)));
    case 'released':
      return Math.min(entry.dueAt, Math.max(wish.at, earliestRelease(entry, releaseEveryMs)));
  }
}

/** When an item whose run has ended is due again, from its outcome and from what was added meanwhile; undefined: never. */
export function nextRun<Item>(
  entry: Entry<Item>,
  run: EntryRun,
  outcome: Outcome,
  now: number,
  backoff: Backoff,
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
export function mergeRequests(wish: AddRequest | undefined, newer: AddRequest): AddRequest {
  if (wish === undefined) return newer;
  return {
    at: Math.min(wish.at, newer.at),
    priority: wish.priority === 'live' ? 'live' : newer.priority,
    version: newer.version ?? wish.version,
  };
}

function earliestRelease<Item>(entry: Entry<Item>, releaseEveryMs: number): number {
  return entry.releasedAt === undefined ? 0 : entry.releasedAt + releaseEveryMs;
}

function dueAfter<Item>(
  entry: Entry<Item>,
  outcome: Outcome,
  now: number,
  backoff: Backoff,
): number | undefined {
  entry.refusedVersion = undefined;
  entry.delay = 'wish';
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

/** What the queue keeps of one tenant, from its first item or weight until it is removed. */
export class Tenant<Item> {
  readonly name: string;
  weight = 1;
  /** Set by hand; otherwise the tenant's share applies. */
  limit: number | undefined = undefined;
  /** Every item of the tenant that is ready, delayed or in process. */
  readonly entries = new Map<string, Entry<Item>>();
  readonly ready = { live: new EntryList<Item>(), background: new EntryList<Item>() };
  readonly usage: { live: TenantUsage<Tenant<Item>>; background: TenantUsage<Tenant<Item>> };
  delayed = 0;
  /** Over both priorities. */
  processing = 0;
  processingBackground = 0;
  /** Whether anything of it is ready or in process. */
  active = false;
  /**
   * Workers that it may hold beyond what it could hold if all tenants were active: one for each of its items that
   * was quick. So whoever hangs from the start holds little, and whoever begins to hang gets no more.
   */
  earned = 0;
  /** Removed, but still with a worker; forgotten when that one is done, unless something is added before. */
  removed = false;

  constructor(name: string) {
    this.name = name;
    this.usage = { live: new TenantUsage(this, 1), background: new TenantUsage(this, 1) };
  }
}

/** The tenants that the queue knows, and their weight in all. */
export class TenantTable<Item> {
  readonly #tenants = new Map<string, Tenant<Item>>();
  #totalWeight = 0;
  #active = 0;
  #activeWeight = 0;
  #known = 0;

  /** Of all tenants that are not removed. */
  get totalWeight(): number {
    return this.#totalWeight;
  }

  /** Of those that have something ready or in process. */
  get activeWeight(): number {
    return this.#activeWeight;
  }

  /** How many tenants have nothing to do. */
  get idle(): number {
    return this.#known - this.#active;
  }

  get(name: string): Tenant<Item> | undefined {
    return this.#tenants.get(name);
  }

  values(): MapIterator<Tenant<Item>> {
    return this.#tenants.values();
  }

  /** A tenant that is new, or was removed, starts with weight 1 and no limit of its own. */
  ensure(name: string): Tenant<Item> {
    let tenant = this.#tenants.get(name);
    if (tenant !== undefined && !tenant.removed) return tenant;
    if (tenant === undefined) {
      tenant = new Tenant(name);
      this.#tenants.set(name, tenant);
    }
    tenant.removed = false;
    this.#known += 1;
    this.#totalWeight += tenant.weight;
    // One that comes back while a worker still holds an item of it is not idle.
    this.updateActive(tenant);
    return tenant;
  }

  setWeight(tenant: Tenant<Item>, weight: number): void {
    if (!tenant.removed) this.#totalWeight += weight - tenant.weight;
    if (tenant.active) this.#activeWeight += weight - tenant.weight;
    tenant.weight = weight;
  }

  /** Brings up to date whether the tenant is active; returns whether that has changed. */
  updateActive(tenant: Tenant<Item>): boolean {
    const { ready, processing, removed } = tenant;
    const active = !removed && (processing > 0 || ready.live.size > 0 || ready.background.size > 0);
    if (active === tenant.active) return false;
    tenant.active = active;
    if (!active) tenant.earned = 0;
    this.#active += active ? 1 : -1;
    this.#activeWeight += active ? tenant.weight : -tenant.weight;
    // Weights may be fractions: what adding and subtracting them leaves behind ends here.
    if (this.#active === 0) this.#activeWeight = 0;
    return true;
  }

  remove(tenant: Tenant<Item>): void {
    this.#totalWeight -= tenant.weight;
    tenant.removed = true;
    this.#known -= 1;
    this.updateActive(tenant);
    tenant.weight = 1;
    tenant.limit = undefined;
    this.forgetIfRemoved(tenant);
  }

  /** Forgets a removed tenant once no worker holds an item of it. */
  forgetIfRemoved(tenant: Tenant<Item>): void {
    if (tenant.removed && tenant.processing === 0) this.#tenants.delete(tenant.name);
  }
}

export interface Turn<Item> {
  tenant: Tenant<Item>;
  priority: Priority;
  /** It may go before others that have had less: it holds no worker, and they hold some. */
  ahead?: boolean;
}

/** An item that takes longer does not count as proof that its tenant's API server answers. */
const quickMs = 1_000;

export type SchedulerOptions = Pick<
  FairQueueOptions<never>,
  'maxConcurrent' | 'maxBackground' | 'backgroundEvery' | 'shareOf' | 'memoryMs'
>;

/**
 * Whose turn it is: one fair ring per priority, live before background, and the limits on what is in process at once.
 *
 * A tenant's limit is its share among those that have something to do; but what goes beyond its share among all
 * has to be earned, item by item, so that a tenant whose calls hang cannot take what others may need soon.
 * While tenants are idle, the last free workers, up to a quarter and one for each of them, are for whoever holds
 * none: a tenant that comes back finds one at once.
 *
 * A flow is in a ring exactly when its tenant has something ready there and may hold one more worker for it; only a
 * tenant whose limit has shrunk since may linger until it comes up.
 */
export class TenantScheduler<Item> {
  readonly maxConcurrent: number;
  readonly #maxBackground: number;
  readonly #backgroundEvery: number;
  readonly #shareOf: NonNullable<SchedulerOptions['shareOf']>;
  readonly #table: TenantTable<Item>;
  readonly #rings: Record<Priority, VirtualTimeHeap<Tenant<Item>>>;
  readonly #processing: Record<Priority, number> = { live: 0, background: 0 };
  /** Tenants with something ready that are at their limit. */
  readonly #capped = new Set<Tenant<Item>>();
  /** Live items taken in a row while a background item waited. */
  #liveStreak = 0;

  constructor(options: SchedulerOptions, table: TenantTable<Item>) {
    this.maxConcurrent = requireCount('maxConcurrent', options.maxConcurrent);
    const maxBackground = options.maxBackground ?? Math.ceil(this.maxConcurrent * 0.75);
    this.#maxBackground = requireCount('maxBackground', maxBackground);
    this.#backgroundEvery = requireCount('backgroundEvery', options.backgroundEvery ?? 8);
    this.#shareOf = options.shareOf ?? weightedShare;
    const memoryMs = requirePositive('memoryMs', options.memoryMs ?? 5_000);
    this.#rings = { live: new VirtualTimeHeap(memoryMs), background: new VirtualTimeHeap(memoryMs) };
    this.#table = table;
  }

  /** To be called when a tenant's ready list is no longer empty. */
  activate(tenant: Tenant<Item>, priority: Priority, now: number): void {
    this.#rings[priority].arrive(tenant.usage[priority], now);
    this.refresh(tenant, now);
  }

  /** Puts a tenant's flows into the rings, or takes them out, as what is ready and its limit demand. */
  refresh(tenant: Tenant<Item>, now: number): void {
    const changed = this.#table.updateActive(tenant);
    this.#settleFlows(tenant, now);
    if (!changed || tenant.active) return;
    // Its share goes to the others.
    for (const capped of [...this.#capped]) this.#settleFlows(capped, now);
  }

  /** To be called when limits may have grown. */
  refreshAll(now: number): void {
    for (const tenant of this.#table.values()) this.refresh(tenant, now);
  }

  next(now: number): Turn<Item> | undefined {
    const free = this.maxConcurrent - this.#processing.live - this.#processing.background;
    if (free <= 0) return undefined;
    const spare = Math.floor(this.maxConcurrent / 4);
    const isReserved = free <= Math.min(spare, this.#table.idle);
    const background =
      this.#processing.background < this.#maxBackground
        ? this.#first('background', isReserved, now)
        : undefined;
    const backgroundIsDue = background !== undefined && this.#liveStreak >= this.#backgroundEvery - 1;
    const live = backgroundIsDue ? undefined : this.#first('live', isReserved, now);
    if (live !== undefined) {
      this.#liveStreak = background === undefined ? 0 : this.#liveStreak + 1;
      return { tenant: live, priority: 'live', ahead: isReserved };
    }
    this.#liveStreak = 0;
    return background && { tenant: background, priority: 'background', ahead: isReserved };
  }

  /** Charges the tenant from now on; returns the service time expected, to be handed to `finish`. */
  begin({ tenant, priority, ahead }: Turn<Item>, now: number): number {
    const expectedMs = this.#rings[priority].begin(tenant.usage[priority], now, ahead !== true);
    tenant.processing += 1;
    if (priority === 'background') tenant.processingBackground += 1;
    this.#processing[priority] += 1;
    this.refresh(tenant, now);
    return expectedMs;
  }

  /** The caller settles the tenant afterwards. */
  finish(turn: Turn<Item>, startedAt: number, expectedMs: number, serviceMs: number, now: number): void {
    const { tenant, priority } = turn;
    this.#rings[priority].finish(tenant.usage[priority], startedAt, expectedMs, serviceMs, now);
    tenant.processing -= 1;
    if (priority === 'background') tenant.processingBackground -= 1;
    this.#processing[priority] -= 1;
    if (serviceMs > quickMs) tenant.earned = 0;
    else if (tenant.earned < this.maxConcurrent) tenant.earned += 1;
  }

  /** Takes over the tenant's weight from the table. */
  applyWeight(tenant: Tenant<Item>, now: number): void {
    this.#rings.live.setWeight(tenant.usage.live, tenant.weight, now);
    this.#rings.background.setWeight(tenant.usage.background, tenant.weight, now);
  }

  limit(tenant: Tenant<Item>): number {
    if (tenant.limit !== undefined) return tenant.limit;
    const { totalWeight, activeWeight } = this.#table;
    const among = activeWeight + (tenant.active ? 0 : tenant.weight);
    const now = this.#shareOf(tenant.weight, among, this.maxConcurrent);
    const always = this.#shareOf(tenant.weight, totalWeight, this.maxConcurrent);
    return Math.min(now, always + tenant.earned);
  }

  #first(priority: Priority, isReserved: boolean, now: number): Tenant<Item> | undefined {
    if (isReserved) return this.#rings[priority].firstOf(({ processing }) => processing === 0, now)?.owner;
    for (;;) {
      const tenant = this.#rings[priority].first(now)?.owner;
      if (tenant === undefined) return undefined;
      if (this.#isFree(tenant, priority)) return tenant;
      this.refresh(tenant, now);
    }
  }

  /** One worker of several is kept for what is live: what can wait must not hold up what cannot. */
  #isFree(tenant: Tenant<Item>, priority: Priority): boolean {
    const limit = this.limit(tenant);
    if (tenant.processing >= limit) return false;
    return priority === 'live' || tenant.processingBackground < Math.max(1, limit - 1);
  }

  #settleFlows(tenant: Tenant<Item>, now: number): void {
    this.#capped.delete(tenant);
    this.#settleFlow(tenant, 'live', now);
    this.#settleFlow(tenant, 'background', now);
  }

  #settleFlow(tenant: Tenant<Item>, priority: Priority, now: number): void {
    const flow = tenant.usage[priority];
    const isReady = tenant.ready[priority].size > 0;
    const wanted = isReady && this.#isFree(tenant, priority);
    if (isReady && !wanted) this.#capped.add(tenant);
    if (wanted && flow.heapIndex < 0) this.#rings[priority].enter(flow, now);
    else if (!wanted && flow.heapIndex >= 0) this.#rings[priority].leave(flow);
  }
}
