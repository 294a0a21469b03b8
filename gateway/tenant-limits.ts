interface Limits {
  /** Connections at once. */
  connections: number;
  /** New connections a second, for long. */
  rate: number;
  /** As many more at once. */
  burst: number;
}

interface Use {
  open: number;
  tokens: number;
  atMs: number;
}

/** How many connections each tenant has, and a token bucket for new ones: one that floods keeps no other out. */
export class TenantLimits {
  readonly #limits: Limits;
  readonly #nowMs: () => number;
  readonly #uses = new Map<string, Use>();

  /** `nowMs`: monotonic. */
  constructor(limits: Limits, nowMs: () => number) {
    this.#limits = limits;
    this.#nowMs = nowMs;
  }

  /** Counts a new connection, or says why there may be none. */
  open(tenant: string): 'connections' | 'rate' | undefined {
    const { connections, rate, burst } = this.#limits;
    const nowMs = this.#nowMs();
    const { open, tokens, atMs } = this.#uses.get(tenant) ?? { open: 0, tokens: burst, atMs: nowMs };
    const left = Math.min(burst, tokens + ((nowMs - atMs) / 1_000) * rate);
    const refused = open >= connections ? 'connections' : left < 1 ? 'rate' : undefined;
    const taken = refused === undefined ? 1 : 0;
    this.#uses.set(tenant, { open: open + taken, tokens: left - taken, atMs: nowMs });
    return refused;
  }

  close(tenant: string): void {
    const use = this.#uses.get(tenant);
    if (use !== undefined) use.open -= 1;
  }

  /** Forgets tenants that are gone, once their connections are. */
  keep(tenants: ReadonlySet<string>): void {
    for (const [tenant, { open }] of this.#uses)
      if (open === 0 && !tenants.has(tenant)) this.#uses.delete(tenant);
  }
}
