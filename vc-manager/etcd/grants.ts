import { EtcdError } from './errors.ts';
import { base64, prefixRange } from './key-range.ts';
import type { EtcdSession } from './session.ts';

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
    await tolerate('already-exists', session.call('/v3/auth/role/add', { name: grant.role }, signal));
  }
  for (const { key = '', range_end = '' } of (permissions ?? []).filter((found) => !isWanted(found, grant))) {
    const revoke = { role: grant.role, key, range_end };
    await tolerate('not-found', session.call('/v3/auth/role/revoke', revoke, signal));
  }
  if (!permissions?.some((found) => isWanted(found, grant))) {
    await session.call('/v3/auth/role/grant', { name: grant.role, perm: wanted(grant) }, signal);
  }

  const roles = await rolesOf(session, grant.user, signal);
  if (roles === undefined) {
    // Without a password nobody can ask for a token in its name: its certificate is the only way in.
    const user = { name: grant.user, options: { no_password: true } };
    await tolerate('already-exists', session.call('/v3/auth/user/add', user, signal));
  }
  for (const role of (roles ?? []).filter((found) => found !== grant.role)) {
    await tolerate('not-found', session.call('/v3/auth/user/revoke', { name: grant.user, role }, signal));
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
  const answer = await tolerate('not-found', session.call('/v3/auth/user/get', { name: user }, signal));
  return answer === undefined ? undefined : ((answer as { roles?: string[] }).roles ?? []);
}

/** Permissions of a role; undefined when there is no such role. */
export async function permissionsOf(
  session: EtcdSession,
  role: string,
  signal?: AbortSignal,
): Promise<Permission[] | undefined> {
  const answer = await tolerate('not-found', session.call('/v3/auth/role/get', { role }, signal));
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
