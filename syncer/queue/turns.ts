import { requireCount, requirePositive } from './errors.ts';
import { type FairQueueOptions, type Priority, weightedShare } from './options.ts';
import { FairRing } from './ring.ts';
import type { Tenant, TenantTable } from './tenant.ts';

export interface Turn<Item> {
  tenant: Tenant<Item>;
  priority: Priority;
}

export type TurnOptions = Pick<
  FairQueueOptions<never>,
  'maxConcurrent' | 'maxBackground' | 'backgroundEvery' | 'shareOf' | 'memoryMs'
>;

/**
 * Whose turn it is: one fair ring per priority, live before background, and the limits on what is in process at once.
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
    this.#settleFlow(tenant, 'live', now);
    this.#settleFlow(tenant, 'background', now);
  }

  /** To be called when limits may have grown. */
  settleAll(now: number): void {
    for (const tenant of this.#table.values()) this.settle(tenant, now);
  }

  next(now: number): Turn<Item> | undefined {
    if (this.#processing.live + this.#processing.background >= this.maxConcurrent) return undefined;
    const background =
      this.#processing.background < this.#maxBackground ? this.#first('background', now) : undefined;
    const backgroundIsDue = background !== undefined && this.#liveStreak >= this.#backgroundEvery - 1;
    const live = backgroundIsDue ? undefined : this.#first('live', now);
    if (live !== undefined) {
      this.#liveStreak = background === undefined ? 0 : this.#liveStreak + 1;
      return { tenant: live, priority: 'live' };
    }
    this.#liveStreak = 0;
    return background && { tenant: background, priority: 'background' };
  }

  /** Charges the tenant from now on; returns the service time expected, to be handed to `finish`. */
  begin({ tenant, priority }: Turn<Item>, now: number): number {
    const expectedMs = this.#rings[priority].begin(tenant.flows[priority], now);
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
  }

  /** Takes over the tenant's weight from the table. */
  weigh(tenant: Tenant<Item>, now: number): void {
    this.#rings.live.setWeight(tenant.flows.live, tenant.weight, now);
    this.#rings.background.setWeight(tenant.flows.background, tenant.weight, now);
  }

  limit(tenant: Tenant<Item>): number {
    return tenant.limit ?? this.#shareOf(tenant.weight, this.#table.totalWeight, this.maxConcurrent);
  }

  #first(priority: Priority, now: number): Tenant<Item> | undefined {
    for (;;) {
      const tenant = this.#rings[priority].first(now)?.owner;
      if (tenant === undefined || this.#isFree(tenant, priority)) return tenant;
      this.settle(tenant, now);
    }
  }

  /** One worker of several is kept for what is live: what can wait must not hold up what cannot. */
  #isFree(tenant: Tenant<Item>, priority: Priority): boolean {
    const limit = this.limit(tenant);
    if (tenant.processing >= limit) return false;
    return priority === 'live' || tenant.processingBackground < Math.max(1, limit - 1);
  }

  #settleFlow(tenant: Tenant<Item>, priority: Priority, now: number): void {
    const flow = tenant.flows[priority];
    const wanted = tenant.ready[priority].size > 0 && this.#isFree(tenant, priority);
    if (wanted && flow.heapIndex < 0) this.#rings[priority].enter(flow, now);
    else if (!wanted && flow.heapIndex >= 0) this.#rings[priority].leave(flow);
  }
}
