import { requireCount, requirePositive } from './errors.ts';
import { type FairQueueOptions, type Priority, weightedShare } from './options.ts';
import { FairRing } from './ring.ts';
import type { Tenant, TenantTable } from './tenant.ts';

export interface Turn<Item> {
  tenant: Tenant<Item>;
  priority: Priority;
  /** It may go before others that have had less: it holds no worker, and they hold some. */
  ahead?: boolean;
}

/** An item that takes longer does not count as proof that its tenant's API server answers. */
const quickMs = 1_000;

export type TurnOptions = Pick<
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
export class Turns<Item> {
  readonly maxConcurrent: number;
  readonly #maxBackground: number;
  readonly #backgroundEvery: number;
  readonly #shareOf: NonNullable<TurnOptions['shareOf']>;
  readonly #table: TenantTable<Item>;
  readonly #rings: Record<Priority, FairRing<Tenant<Item>>>;
  readonly #processing: Record<Priority, number> = { live: 0, background: 0 };
  /** Tenants with something ready that are at their limit. */
  readonly #capped = new Set<Tenant<Item>>();
  /** Live items taken in a row while a background item waited. */
  #liveStreak = 0;

  constructor(options: TurnOptions, table: TenantTable<Item>) {
    this.maxConcurrent = requireCount('maxConcurrent', options.maxConcurrent);
    const maxBackground = options.maxBackground ?? Math.ceil(this.maxConcurrent * 0.75);
    this.#maxBackground = requireCount('maxBackground', maxBackground);
    this.#backgroundEvery = requireCount('backgroundEvery', options.backgroundEvery ?? 8);
    this.#shareOf = options.shareOf ?? weightedShare;
    const memoryMs = requirePositive('memoryMs', options.memoryMs ?? 5_000);
    this.#rings = { live: new FairRing(memoryMs), background: new FairRing(memoryMs) };
    this.#table = table;
  }

  /** To be called when a tenant's ready list is no longer empty. */
  activate(tenant: Tenant<Item>, priority: Priority, now: number): void {
    this.#rings[priority].arrive(tenant.flows[priority], now);
    this.settle(tenant, now);
  }

  /** Puts a tenant's flows into the rings, or takes them out, as what is ready and its limit demand. */
  settle(tenant: Tenant<Item>, now: number): void {
    const changed = this.#table.note(tenant);
    this.#settleFlows(tenant, now);
    if (!changed || tenant.active) return;
    // Its share goes to the others.
    for (const capped of [...this.#capped]) this.#settleFlows(capped, now);
  }

  /** To be called when limits may have grown. */
  settleAll(now: number): void {
    for (const tenant of this.#table.values()) this.settle(tenant, now);
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
    const expectedMs = this.#rings[priority].begin(tenant.flows[priority], now, ahead !== true);
    tenant.processing += 1;
    if (priority === 'background') tenant.processingBackground += 1;
    this.#processing[priority] += 1;
    this.settle(tenant, now);
    return expectedMs;
  }

  /** The caller settles the tenant afterwards. */
  finish(turn: Turn<Item>, startedAt: number, expectedMs: number, serviceMs: number, now: number): void {
    const { tenant, priority } = turn;
    this.#rings[priority].finish(tenant.flows[priority], startedAt, expectedMs, serviceMs, now);
    tenant.processing -= 1;
    if (priority === 'background') tenant.processingBackground -= 1;
    this.#processing[priority] -= 1;
    if (serviceMs > quickMs) tenant.earned = 0;
    else if (tenant.earned < this.maxConcurrent) tenant.earned += 1;
  }

  /** Takes over the tenant's weight from the table. */
  weigh(tenant: Tenant<Item>, now: number): void {
    this.#rings.live.setWeight(tenant.flows.live, tenant.weight, now);
    this.#rings.background.setWeight(tenant.flows.background, tenant.weight, now);
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
      this.settle(tenant, now);
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
    const flow = tenant.flows[priority];
    const isReady = tenant.ready[priority].size > 0;
    const wanted = isReady && this.#isFree(tenant, priority);
    if (isReady && !wanted) this.#capped.add(tenant);
    if (wanted && flow.heapIndex < 0) this.#rings[priority].enter(flow, now);
    else if (!wanted && flow.heapIndex >= 0) this.#rings[priority].leave(flow);
  }
}
