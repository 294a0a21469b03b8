import { TenantUsage, VirtualTimeHeap } from './heap.ts';
import {
  type FairQueueOptions,
  type Priority,
  requireCount,
  requirePositive,
  weightedShare,
} from './options.ts';

/** An element of a `LinkedList`; its links are written by the list only. */
interface LinkedNode<Node> {
  previous: Node | undefined;
  next: Node | undefined;
}

/** First in, first out, with removal from the middle in O(1). */
class LinkedList<Node extends LinkedNode<Node>> {
  #head: Node | undefined;
  #tail: Node | undefined;
  #size = 0;

  get size(): number {
    return this.#size;
  }

  append(node: Node): void {
    node.previous = this.#tail;
    if (this.#tail === undefined) this.#head = node;
    else this.#tail.next = node;
    this.#tail = node;
    this.#size += 1;
  }

  prepend(node: Node): void {
    node.next = this.#head;
    if (this.#head === undefined) this.#tail = node;
    else this.#head.previous = node;
    this.#head = node;
    this.#size += 1;
  }

  first(): Node | undefined {
    return this.#head;
  }

  remove(node: Node): void {
    if (node.previous === undefined) this.#head = node.next;
    else node.previous.next = node.next;
    if (node.next === undefined) this.#tail = node.previous;
    else node.next.previous = node.previous;
    node.previous = undefined;
    node.next = undefined;
    this.#size -= 1;
  }
}

/** What the queue keeps of one tenant, from its first item or weight until it is removed. */
export class Tenant<Entry extends LinkedNode<Entry>> {
  readonly name: string;
  weight = 1;
  /** Every item of the tenant that is ready, delayed or in process. */
  readonly entries = new Map<string, Entry>();
  readonly ready = { live: new LinkedList<Entry>(), background: new LinkedList<Entry>() };
  readonly usage: { live: TenantUsage<Tenant<Entry>>; background: TenantUsage<Tenant<Entry>> };
  delayed = 0;
  /** Over both priorities. */
  processing = 0;
  processingBackground = 0;
  /** Of those in process: how many have taken so long that they hold no worker any more. */
  overdue = 0;
  /** Whether anything of it is ready or in process. */
  active = false;
  /**
   * Workers that it may hold beyond what it could hold if all tenants were active: one for each of its items that
   * was quick. So a tenant that hangs from the start holds little, and one that begins to hang gets no more.
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
export class TenantTable<Entry extends LinkedNode<Entry>> {
  readonly #tenants = new Map<string, Tenant<Entry>>();
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

  get(name: string): Tenant<Entry> | undefined {
    return this.#tenants.get(name);
  }

  values(): MapIterator<Tenant<Entry>> {
    return this.#tenants.values();
  }

  /** A tenant that is new, or was removed, starts with weight 1. */
  ensure(name: string): Tenant<Entry> {
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

  setWeight(tenant: Tenant<Entry>, weight: number): void {
    if (!tenant.removed) this.#totalWeight += weight - tenant.weight;
    if (tenant.active) this.#activeWeight += weight - tenant.weight;
    tenant.weight = weight;
  }

  /** Brings up to date whether the tenant is active; returns whether that has changed. */
  updateActive(tenant: Tenant<Entry>): boolean {
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

  remove(tenant: Tenant<Entry>): void {
    this.#totalWeight -= tenant.weight;
    tenant.removed = true;
    this.#known -= 1;
    this.updateActive(tenant);
    tenant.weight = 1;
    this.forgetIfRemoved(tenant);
  }

  /** Forgets a removed tenant once no worker holds an item of it (sync rule `forgotten-tenant`). */
  forgetIfRemoved(tenant: Tenant<Entry>): void {
    if (tenant.removed && tenant.processing === 0) this.#tenants.delete(tenant.name);
  }
}

/** An item in process, from `begin` to `finish`. */
export interface ScheduledRun<Entry extends LinkedNode<Entry>> {
  readonly tenant: Tenant<Entry>;
  readonly priority: Priority;
  readonly startedAt: number;
  readonly expectedMs: number;
  isOverdue: boolean;
}

interface Turn<Entry extends LinkedNode<Entry>> {
  tenant: Tenant<Entry>;
  priority: Priority;
  /** It may go before others that have had less: it holds no worker, and they hold some. */
  ahead?: boolean;
}

/**
 * An item that takes longer does not count as proof that its tenant's API server answers, and gives its worker back to
 * the others while it goes on.
 */
export const quickMs = 1_000;

type SchedulerOptions = Pick<
  FairQueueOptions<never>,
  'maxConcurrent' | 'maxBackground' | 'backgroundEvery' | 'shareOf' | 'memoryMs'
>;

/**
 * Which tenant goes next: one heap by virtual time per priority, live before background, and the limits
 * on what is in process at once (sync rules `fair-turns`, `hanging-tenant`).
 *
 * A tenant's limit is its share among those that have something to do; but what goes beyond its share among all
 * has to be earned, item by item, so that a tenant whose calls hang cannot take what others may need soon.
 * While tenants are idle, the last free workers, up to a quarter and one for each of them, are kept for
 * tenants that hold none: one that comes back finds a worker at once.
 *
 * An item that takes long holds no worker any more, so that any number of tenants may hang; its tenant has earned
 * nothing then, and gets no more than its share among all until it ends.
 *
 * A tenant's usage is in a heap exactly when it has something ready there and may hold one more worker for it; only a
 * tenant whose limit has shrunk since may linger until it comes up.
 */
export class TenantScheduler<Entry extends LinkedNode<Entry>> {
  readonly maxConcurrent: number;
  readonly #maxBackground: number;
  readonly #backgroundEvery: number;
  readonly #shareOf: NonNullable<SchedulerOptions['shareOf']>;
  readonly #table: TenantTable<Entry>;
  readonly #heaps: Record<Priority, VirtualTimeHeap<Tenant<Entry>>>;
  readonly #processing: Record<Priority, number> = { live: 0, background: 0 };
  /** Items in process that hold a worker, the oldest first. */
  readonly #inTime = new Set<ScheduledRun<Entry>>();
  /** Tenants with something ready that are at their limit. */
  readonly #capped = new Set<Tenant<Entry>>();
  /** Live items taken in a row while a background item waited. */
  #liveStreak = 0;

  constructor(options: SchedulerOptions, table: TenantTable<Entry>) {
    this.maxConcurrent = requireCount('maxConcurrent', options.maxConcurrent);
    const maxBackground = options.maxBackground ?? Math.ceil(this.maxConcurrent * 0.75);
    this.#maxBackground = requireCount('maxBackground', maxBackground);
    this.#backgroundEvery = requireCount('backgroundEvery', options.backgroundEvery ?? 8);
    this.#shareOf = options.shareOf ?? weightedShare;
    const memoryMs = requirePositive('memoryMs', options.memoryMs ?? 5_000);
    this.#heaps = { live: new VirtualTimeHeap(memoryMs), background: new VirtualTimeHeap(memoryMs) };
    this.#table = table;
  }

  /** Call it when a tenant's ready list is no longer empty. */
  activate(tenant: Tenant<Entry>, priority: Priority, now: number): void {
    this.#heaps[priority].arrive(tenant.usage[priority], now);
    this.refresh(tenant, now);
  }

  /** Puts a tenant's usage into the heaps, or takes it out, by what is ready and by its limit. */
  refresh(tenant: Tenant<Entry>, now: number): void {
    const changed = this.#table.updateActive(tenant);
    this.#refreshUsages(tenant, now);
    if (!changed || tenant.active) return;
    // Its share goes to the others.
    for (const capped of [...this.#capped]) this.#refreshUsages(capped, now);
  }

  /** Call it when limits may have grown. */
  refreshAll(now: number): void {
    for (const tenant of this.#table.values()) this.refresh(tenant, now);
  }

  /**
   * Whether something live is ready that one more free worker would take up: while some are free, what is ready of tenants
   * at their limit does not count, as it waits for their own API servers.
   */
  hasLiveWaiting(): boolean {
    if (this.#heaps.live.size > 0) return true;
    if (this.#processing.live + this.#processing.background < this.maxConcurrent) return false;
    for (const { ready } of this.#capped) if (ready.live.size > 0) return true;
    return false;
  }

  /** When the next worker is given back by an item that takes long; undefined where nothing waits for one. */
  nextOverdueAt(): number | undefined {
    if (this.#heaps.live.size + this.#heaps.background.size === 0) return undefined;
    const [oldest] = this.#inTime;
    return oldest && oldest.startedAt + quickMs;
  }

  next(now: number): Turn<Entry> | undefined {
    this.#giveBack(now);
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

  #giveBack(now: number): void {
    for (const run of this.#inTime) {
      if (run.startedAt + quickMs > now) return;
      this.#inTime.delete(run);
      run.isOverdue = true;
      this.#processing[run.priority] -= 1;
      run.tenant.overdue += 1;
      run.tenant.earned = 0;
      this.refresh(run.tenant, now);
    }
  }

  /** Charges the tenant from now on; returns what is to be handed to `finish`. */
  begin({ tenant, priority, ahead }: Turn<Entry>, now: number): ScheduledRun<Entry> {
    const expectedMs = this.#heaps[priority].begin(tenant.usage[priority], now, ahead !== true);
    tenant.processing += 1;
    if (priority === 'background') tenant.processingBackground += 1;
    this.#processing[priority] += 1;
    this.refresh(tenant, now);
    const run = { tenant, priority, startedAt: now, expectedMs, isOverdue: false };
    this.#inTime.add(run);
    return run;
  }

  /** The caller calls `refresh` afterwards. */
  finish(run: ScheduledRun<Entry>, serviceMs: number, now: number): void {
    const { tenant, priority, startedAt, expectedMs } = run;
    this.#heaps[priority].finish(tenant.usage[priority], startedAt, expectedMs, serviceMs, now);
    tenant.processing -= 1;
    if (priority === 'background') tenant.processingBackground -= 1;
    if (run.isOverdue) tenant.overdue -= 1;
    else {
      this.#inTime.delete(run);
      this.#processing[priority] -= 1;
    }
    if (serviceMs > quickMs) tenant.earned = 0;
    else if (tenant.overdue === 0 && tenant.earned < this.maxConcurrent) tenant.earned += 1;
  }

  /** Takes over the tenant's weight from the table. */
  applyWeight(tenant: Tenant<Entry>, now: number): void {
    this.#heaps.live.setWeight(tenant.usage.live, tenant.weight, now);
    this.#heaps.background.setWeight(tenant.usage.background, tenant.weight, now);
  }

  limit(tenant: Tenant<Entry>): number {
    const { totalWeight, activeWeight } = this.#table;
    const among = activeWeight + (tenant.active ? 0 : tenant.weight);
    const now = this.#shareOf(tenant.weight, among, this.maxConcurrent);
    const always = this.#shareOf(tenant.weight, totalWeight, this.maxConcurrent);
    return Math.min(now, always + tenant.earned);
  }

  #first(priority: Priority, isReserved: boolean, now: number): Tenant<Entry> | undefined {
    if (isReserved) return this.#heaps[priority].firstOf(({ processing }) => processing === 0, now)?.owner;
    for (;;) {
      const tenant = this.#heaps[priority].first(now)?.owner;
      if (tenant === undefined) return undefined;
      if (this.#isFree(tenant, priority)) return tenant;
      this.refresh(tenant, now);
    }
  }

  /** One worker of several is kept for what is live: what can wait must not hold up what cannot. */
  #isFree(tenant: Tenant<Entry>, priority: Priority): boolean {
    const limit = this.limit(tenant);
    if (tenant.processing >= limit) return false;
    return priority === 'live' || tenant.processingBackground < Math.max(1, limit - 1);
  }

  #refreshUsages(tenant: Tenant<Entry>, now: number): void {
    this.#capped.delete(tenant);
    this.#refreshUsage(tenant, 'live', now);
    this.#refreshUsage(tenant, 'background', now);
  }

  #refreshUsage(tenant: Tenant<Entry>, priority: Priority, now: number): void {
    const usage = tenant.usage[priority];
    const isReady = tenant.ready[priority].size > 0;
    const wanted = isReady && this.#isFree(tenant, priority);
    if (isReady && !wanted) this.#capped.add(tenant);
    if (wanted && usage.heapIndex < 0) this.#heaps[priority].enter(usage, now);
    else if (!wanted && usage.heapIndex >= 0) this.#heaps[priority].leave(usage);
  }
}
