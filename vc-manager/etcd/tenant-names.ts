import { invalidTenantId } from './errors.ts';

const tenantId = /^[a-z0-9]([a-z0-9-]{0,48}[a-z0-9])?$/;
const userPrefix = 'tenant-';

/**
 * The etcd user of a tenant, which is also the common name of its client certificate, and the name of its role.
 * Throws `invalid-tenant-id`: an id that held a "/" could reach into another tenant's keys.
 */
export function tenantUser(id: string): string {
  if (!tenantId.test(id)) throw invalidTenantId(id);
  return `${userPrefix}${id}`;
}

/**
 * Where all keys of a tenant lie, for `--etcd-prefix`. The slash at the end is part of the grant:
 * without it the tenant `a` could read the keys of the tenant `ab`.
 */
export function tenantPrefix(id: string): string {
  if (!tenantId.test(id)) throw invalidTenantId(id);
  return `/tenants/${id}/`;
}

/** The id in the name of a user or role; undefined for one that belongs to no tenant. */
export function tenantOfUser(name: string): string | undefined {
  const id = name.startsWith(userPrefix) ? name.slice(userPrefix.length) : '';
  return tenantId.test(id) ? id : undefined;
}
