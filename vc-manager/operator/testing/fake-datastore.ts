import type { Datastore } from '../services.ts';

/** The tenants' datastore, in memory. */
export class FakeDatastore implements Datastore {
  readonly tenants = new Set<string>();
  /** Every id that was ever given a place. */
  readonly seen = new Set<string>();
  beforeEnsure: () => void | Promise<void> = () => {};

  async ensureTenant(id: string): Promise<{ user: string; prefix: string }> {
    await this.beforeEnsure();
    this.tenants.add(id);
    this.seen.add(id);
    return { user: `tenant-${id}`, prefix: `/tenants/${id}/` };
  }

  async removeTenant(id: string): Promise<void> {
    this.tenants.delete(id);
  }

  async listTenants(): Promise<{ users: string[]; roles: string[]; prefixes: string[] }> {
    const ids = [...this.tenants].sort();
    return { users: ids, roles: ids, prefixes: ids };
  }
}
