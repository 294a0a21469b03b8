import { type Entry, EntryList } from './entry.ts';
import { Flow } from './ring.ts';

/** What the queue keeps of one tenant, from its first item or weight until it is removed. */
export class Tenant<Item> {
  readonly name: string;
  weight = 1;
  /** Set by hand; otherwise the tenant's share applies. */
  limit: number | undefined = undefined;
  /** Every item of the tenant that is ready, delayed or in process. */
  readonly entries = new Map<string, Entry<Item>>();
  readonly ready = { live: new EntryList<Item>(), background: new EntryList<Item>() };
  readonly flows: { live: Flow<Tenant<Item>>; background: Flow<Tenant<Item>> };
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
    this.flows = { live: new Flow(this, 1), background: new Flow(this, 1) };
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
    this.note(tenant);
    return tenant;
  }

  setWeight(tenant: Tenant<Item>, weight: number): void {
    if (!tenant.removed) this.#totalWeight += weight - tenant.weight;
    if (tenant.active) this.#activeWeight += weight - tenant.weight;
    tenant.weight = weight;
  }

  /** Brings up to date whether the tenant is active; returns whether that has changed. */
  note(tenant: Tenant<Item>): boolean {
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
    this.note(tenant);
    tenant.weight = 1;
    tenant.limit = undefined;
    this.sweep(tenant);
  }

  /** Forgets a removed tenant once no worker holds an item of it. */
  sweep(tenant: Tenant<Item>): void {
    if (tenant.removed && tenant.processing === 0) this.#tenants.delete(tenant.name);
  }
}
