import { EtcdError, invalidTenantId } from './errors.ts';
import type { EtcdSession } from './gateway.ts';
import { base64, prefixRange } from './keyspace.ts';

const tenantId = /^[a-z0-9]([a-z0-9-]{0,48}[a-z0-9])?$/;
const userPrefix = 'tenant-';

/**
 * The etcd user of a tenant, which is also the common name of its client certificate, and the name of its role.
 * Throws `InvalidTenantId`: an id that held a "/" could reach into another tenant's keys.
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

interface Permission {
  /** Absent means READ, the zero of the enumeration. */
  permType?: string;
  key?: string;
  range_end?: string;
}

/** What one tenant may do: a user with one role with one permission. */
export interface Grant {
  readonly user: string;
  readonly role: string;
  readonly prefix: string;
}

/** True when user and role exist and allow the prefix and nothing else. */
export async function isGranted(session: EtcdSession, grant: Grant, signal?: AbortSignal): Promise<boolean> {
  const permissions = await permissionsOf(session, grant.role, signal);
  if (permissions?.length !== 1 || !permissions.every((found) => isWanted(found, grant))) return false;
  const roles = await rolesOf(session, grant.user, signal);
  return roles?.length === 1 && roles[0] === grant.role;
}

/** Makes what is missing and takes away what is too much. The user comes last: it never has more than the grant. */
export async function applyGrant(session: EtcdSession, grant: Grant, signal?: AbortSignal): Promise<void> {
  const permissions = await permissionsOf(session, grant.role, signal);
  if (permissions === undefined) {
    await tolerate('AlreadyExists', session.call('/v3/auth/role/add', { name: grant.role }, signal));
  }
  for (const { key = '', range_end = '' } of (permissions ?? []).filter((found) => !isWanted(found, grant))) {
    const revoke = { role: grant.role, key, range_end };
    await tolerate('NotFound', session.call('/v3/auth/role/revoke', revoke, signal));
  }
  if (!permissions?.some((found) => isWanted(found, grant))) {
    await session.call('/v3/auth/role/grant', { name: grant.role, perm: wanted(grant) }, signal);
  }

  const roles = await rolesOf(session, grant.user, signal);
  if (roles === undefined) {
    // Without a password no token can be issued for it: its certificate is the only credential.
    const user = { name: grant.user, options: { no_password: true } };
    await tolerate('AlreadyExists', session.call('/v3/auth/user/add', user, signal));
  }
  for (const role of (roles ?? []).filter((found) => found !== grant.role)) {
    await tolerate('NotFound', session.call('/v3/auth/user/revoke', { name: grant.user, role }, signal));
  }
  if (!roles?.includes(grant.role)) {
    await session.call('/v3/auth/user/grant', { user: grant.user, role: grant.role }, signal);
  }
}

/** Roles of a user; undefined when there is no such user. */
export async function rolesOf(
  session: EtcdSession,
  user: string,
  signal?: AbortSignal,
): Promise<string[] | undefined> {
  const answer = await tolerate('NotFound', session.call('/v3/auth/user/get', { name: user }, signal));
  return answer === undefined ? undefined : ((answer as { roles?: string[] }).roles ?? []);
}

/** Permissions of a role; undefined when there is no such role. */
export async function permissionsOf(
  session: EtcdSession,
  role: string,
  signal?: AbortSignal,
): Promise<Permission[] | undefined> {
  const answer = await tolerate('NotFound', session.call('/v3/auth/role/get', { role }, signal));
  return answer === undefined ? undefined : ((answer as { perm?: Permission[] }).perm ?? []);
}

/** The answer, or undefined when the call failed with just this code. */
export async function tolerate(code: EtcdError['code'], call: Promise<unknown>): Promise<unknown> {
  try {
    return await call;
  } catch (error) {
    if (error instanceof EtcdError && error.code === code) return undefined;
    throw error;
  }
}

function wanted(grant: Grant): Required<Permission> {
  const { key, rangeEnd } = prefixRange(grant.prefix);
  return { permType: 'READWRITE', key: base64(key), range_end: base64(rangeEnd) };
}

function isWanted(found: Permission, grant: Grant): boolean {
  const { permType, key, range_end } = wanted(grant);
  return found.permType === permType && found.key === key && found.range_end === range_end;
}
