import { FairShares } from '../program/fair-shares.ts';

interface Limits {
  /** Connections at once, over all tenants. */
  all: number;
  /** Connections of one tenant at once. */
  connections: number;
  /** New connections a second, for long. */
  rate: number;
  /** As many more at once. */
  burst: number;
}

interface Bucket {
  tokens: number;
  atMs: number;
}

/**
 * How many connections each tenant has, and a token bucket for new ones: one that floods keeps no other out, and neither do
 * many that hold what they can get.
 */
export class TenantLimits {
  readonly #limits: Limits;
  readonly #shares: FairShares;
  readonly #nowMs: () => number;
  readonly #buckets = new Map<string, Bucket>();

  /** `nowMs`: monotonic. */
  constructor(limits: Limits, nowMs: () => number) {
    this.#limits = limits;
    this.#shares = new FairShares({ all: limits.all, each: limits.connections });
    this.#nowMs = nowMs;
  }

  /**
   * Counts a new connection, or says why there may be none. Returns what is to be called when it is closed. `takeBack` is
   * called when another tenant has its place from then on.
   */
  open(tenant: string, takeBack: () => void): (() => void) | 'connections' | 'full' | 'rate' {
    const { rate, burst } = this.#limits;
    const nowMs = this.#nowMs();
    const { tokens, atMs } = this.#buckets.get(tenant) ?? { tokens: burst, atMs: nowMs };
    const left = Math.min(burst, tokens + ((nowMs - atMs) / 1_000) * rate);
    const refused = this.#refuses(tenant) ?? (left < 1 ? 'rate' : undefined);
    this.#buckets.set(tenant, { tokens: refused === undefined ? left - 1 : left, atMs: nowMs });
    return refused ?? this.#shares.take(tenant, takeBack);
  }

  #refuses(tenant: string): 'connections' | 'full' | undefined {
    const refused = this.#shares.refuses(tenant);
    return refused === 'each' ? 'connections' : refused && 'full';
  }

  /** Forgets tenants that are gone, once their connections are. */
  keep(tenants: ReadonlySet<string>): void {
    for (const tenant of this.#buckets.keys())
      if (!this.#shares.has(tenant) && !tenants.has(tenant)) this.#buckets.delete(tenant);
  }
}
