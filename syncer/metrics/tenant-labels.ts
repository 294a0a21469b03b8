/** The label of all tenants beyond the limit. */
export const otherTenants = 'other';

/** Bounds how many tenants get a label value of their own: those that come first. The rest are counted together. */
export class TenantLabels {
  readonly #limit: number;
  readonly #named = new Set<string>();

  constructor(limit: number) {
    if (!(Number.isInteger(limit) && limit >= 0)) {
      throw new RangeError(`maxTenants is ${limit}; give a whole number, 0 or more`);
    }
    this.#limit = limit;
  }

  of(tenant: string): string {
    if (this.#named.has(tenant)) return tenant;
    if (this.#named.size >= this.#limit) return otherTenants;
    this.#named.add(tenant);
    return tenant;
  }

  /** Like `of`, for what is computed anew at each look: reserves nothing for a tenant that may be gone already. */
  peek(tenant: string): string {
    return this.#named.has(tenant) || this.#named.size < this.#limit ? tenant : otherTenants;
  }

  /** Returns whether the tenant had a label of its own, which is free again. */
  release(tenant: string): boolean {
    return this.#named.delete(tenant);
  }
}
