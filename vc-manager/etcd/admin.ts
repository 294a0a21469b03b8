import { KeyedMutex } from '../../kube/index.ts';
import { EtcdError, tenantNotRemoved } from './errors.ts';
import { EtcdGateway, EtcdSession, type GatewayOptions } from './gateway.ts';
import {
  applyGrant,
  type Grant,
  isGranted,
  permissionsOf,
  rolesOf,
  tenantOfUser,
  tenantPrefix,
  tenantUser,
  tolerate,
} from './grants.ts';
import {
  countKeys,
  type Entry,
  type EtcdCaller,
  fillEmpty,
  type KeyspaceSize,
  type KeyspaceView,
  listSegments,
  measureKeys,
  raiseRevision,
  removeKeys,
  replaceKeys,
  viewKeys,
} from './keyspace.ts';

interface EtcdAdminOptions extends GatewayOptions {
  /** Of etcd's user `root`; set when authentication is switched on for the first time. 1 to 72 bytes. */
  readonly rootPassword: string;
}

interface EtcdHealth {
  readonly healthy: boolean;
  /** What etcd, or the attempt to reach it, says; empty when healthy. */
  readonly reason: string;
}

/** Of the whole datastore. */
export interface DatastoreSize {
  /** What its data takes, history included and free pages left out. */
  readonly bytesInUse: number;
  /** Beyond it etcd refuses all writes. Absent where etcd does not tell it (before 3.6). */
  readonly quotaBytes?: number;
  readonly revision: number;
}

interface AdminCall {
  readonly signal?: AbortSignal;
}

/** All changes to users and roles wait in this one line: each makes etcd repeat the requests that are under way. */
const authChanges = 'auth';
const valuePages = 'values';

/**
 * Keeps the tenants' users, roles and keys in their common etcd. Every call may be repeated and may run beside any other,
 * of this or of another EtcdAdmin: what is there already is left as it is. Throws EtcdError, or the signal's reason.
 */
export class EtcdAdmin {
  readonly #gateway: EtcdGateway;
  readonly #session: EtcdSession;
  readonly #rootPassword: string;
  readonly #mutex = new KeyedMutex();
  /** Reads values of tenants: one page is in memory at a time while it is parsed, of whichever tenant. */
  readonly #reader: EtcdCaller = {
    call: (path, body, signal) =>
      this.#mutex.run(valuePages, signal, () => this.#session.call(path, body, signal)),
  };

  constructor(options: EtcdAdminOptions) {
    const bytes = Buffer.byteLength(options.rootPassword);
    if (bytes < 1 || bytes > 72) {
      throw new EtcdError('InvalidOptions', `The root password has ${bytes} bytes: etcd takes 1 to 72.`);
    }
    this.#rootPassword = options.rootPassword;
    this.#gateway = new EtcdGateway(options);
    this.#session = new EtcdSession(this.#gateway, options.rootPassword);
  }

  /** Switches authentication on: from then on a certificate or token without an etcd user of its name has no rights. */
  async enableAuth({ signal }: AdminCall = {}): Promise<void> {
    if (!(await this.#authEnabled(signal))) {
      await this.#mutex.run(authChanges, signal, async () => {
        if (await this.#authEnabled(signal)) return;
        await this.#switchAuthOn(signal);
        this.#session.forgetToken();
      });
    }
    // Fetches a token if there is none: a wrong password shows now, not halfway through a tenant.
    await this.#session.call('/v3/auth/status', {}, signal);
  }

  /**
   * The user `tenant-<id>` (the common name of the tenant's client certificate; it has no password) may read and write
   * below `/tenants/<id>/` and nothing else. Switches authentication on first where it is off.
   */
  async ensureTenant(id: string, { signal }: AdminCall = {}): Promise<{ user: string; prefix: string }> {
    const grant = grantOf(id);
    await this.#mutex.run(grant.user, signal, async () => {
      await this.enableAuth({ ...(signal && { signal }) });
      if (await isGranted(this.#session, grant, signal)) return;
      await this.#mutex.run(authChanges, signal, () => applyGrant(this.#session, grant, signal));
    });
    return { user: grant.user, prefix: grant.prefix };
  }

  /**
   * Takes the tenant's user away, then its keys, then its role, so that nothing can write behind the delete and
   * what an interrupted call left is still listed. Throws `TenantNotRemoved` when something is there afterwards, and
   * `RemovalSuperseded` when keys were written meanwhile. `beforeWrite` is called before each write, and may throw.
   */
  async removeTenant(
    id: string,
    { signal, beforeWrite = () => {} }: AdminCall & { beforeWrite?: () => void } = {},
  ): Promise<void> {
    const { user, role, prefix } = grantOf(id);
    await this.#mutex.run(user, signal, async () => {
      await this.enableAuth({ ...(signal && { signal }) });
      beforeWrite();
      await this.#deleteAuth('user', user, signal);
      await removeKeys(this.#session, prefix, { guard: replaceGuard(id), beforeWrite }, signal);
      beforeWrite();
      await this.#deleteAuth('role', role, signal);

      const left: string[] = [];
      if ((await rolesOf(this.#session, user, signal)) !== undefined) left.push(`user ${user}`);
      if ((await permissionsOf(this.#session, role, signal)) !== undefined) left.push(`role ${role}`);
      const keys = await countKeys(this.#session, prefix, signal);
      if (keys > 0) left.push(`${keys} keys below ${prefix}`);
      if (left.length > 0) throw tenantNotRemoved(id, left);
    });
  }

  /** All that a tenant has, at one revision. */
  async viewTenant(id: string, { signal }: AdminCall = {}): Promise<KeyspaceView> {
    return await viewKeys(this.#reader, tenantPrefix(id), signal);
  }

  /**
   * Replaces all that a tenant has; nothing of it may run. `attempt` tells this call from every other. Returns how many
   * keys were written.
   */
  async replaceTenant(
    id: string,
    entries: AsyncIterable<Entry>,
    {
      attempt,
      keepOthers = false,
      ...call
    }: AdminCall & {
      attempt: string;
      /** Only what is given is replaced; the tenant may run. */
      keepOthers?: boolean;
      onProgress?: (written: number) => void;
    },
  ): Promise<number> {
    const target = { prefix: tenantPrefix(id), guard: replaceGuard(id), attempt, keepOthers };
    return await replaceKeys(this.#session, target, entries, call);
  }

  /** Writes these where a tenant has nothing. Returns whether all are there: not where anything else is, or was meanwhile. */
  async fillTenant(id: string, entries: readonly Entry[], { signal }: AdminCall = {}): Promise<boolean> {
    return await fillEmpty(this.#session, tenantPrefix(id), entries, signal);
  }

  /** Ids of the tenants that have a user, a role, or keys; sorted. A tenant in order is in all three. */
  async listTenants({
    signal,
  }: AdminCall = {}): Promise<{ users: string[]; roles: string[]; prefixes: string[] }> {
    const users = (await this.#session.call('/v3/auth/user/list', {}, signal)) as { users?: string[] };
    const roles = (await this.#session.call('/v3/auth/role/list', {}, signal)) as { roles?: string[] };
    const prefixes = await listSegments(this.#session, '/tenants/', signal);
    return { users: idsOf(users.users), roles: idsOf(roles.roles), prefixes: prefixes.sort() };
  }

  /** Keys that start with `prefix`; the empty prefix counts all. */
  async countKeys(prefix: string, { signal }: AdminCall = {}): Promise<number> {
    return await countKeys(this.#session, prefix, signal);
  }

  /** Keys of one tenant: cheap. */
  async countTenantKeys(id: string, { signal }: AdminCall = {}): Promise<number> {
    return await countKeys(this.#session, tenantPrefix(id), signal);
  }

  /** Keys and bytes of one tenant. It reads them all, up to `enoughBytes`. */
  async measureTenant(id: string, enoughBytes: number, { signal }: AdminCall = {}): Promise<KeyspaceSize> {
    return await measureKeys(this.#reader, tenantPrefix(id), enoughBytes, signal);
  }

  async size({ signal }: AdminCall = {}): Promise<DatastoreSize> {
    const said = (await this.#session.call('/v3/maintenance/status', {}, signal)) as {
      header?: { revision?: string };
      dbSizeInUse?: string;
      dbSizeQuota?: string;
    };
    const quotaBytes = Number(said.dbSizeQuota ?? 0);
    return {
      bytesInUse: Number(said.dbSizeInUse ?? 0),
      ...(quotaBytes > 0 && { quotaBytes }),
      revision: Number(said.header?.revision ?? 0),
    };
  }

  /** See `raiseRevision`. */
  async raise(
    target: number,
    { isEnough, signal }: AdminCall & { isEnough?: () => boolean } = {},
  ): Promise<number> {
    return await raiseRevision(this.#session, { key: raiseKey, target, isShared: true, isEnough }, signal);
  }

  /** Forgets the history before `revision`. One that is forgotten already is no error. */
  async compact(revision: number, { signal }: AdminCall = {}): Promise<void> {
    await tolerate(
      'Compacted',
      this.#session.call('/v3/kv/compaction', { revision: String(revision) }, signal),
    );
  }

  /** Needs no user. Reports faults of etcd and of the connection instead of throwing them. */
  async health({ signal }: AdminCall = {}): Promise<EtcdHealth> {
    try {
      const { status, body } = await this.#gateway.get('/health', { signal });
      const said = (body ?? {}) as { health?: string; reason?: string };
      const healthy = status === 200 && said.health === 'true';
      return { healthy, reason: healthy ? '' : said.reason || `HTTP ${status}` };
    } catch (error) {
      if (error instanceof EtcdError) return { healthy: false, reason: error.message };
      throw error;
    }
  }

  /** Ends its connections; calls that are under way fail. */
  async close(): Promise<void> {
    await this.#gateway.close();
  }

  async #authEnabled(signal: AbortSignal | undefined): Promise<boolean> {
    try {
      const answer = (await this.#gateway.post('/v3/auth/status', {}, { signal })) as { enabled?: boolean };
      return answer.enabled === true;
    } catch (error) {
      // With authentication on, etcd refuses even this question without a token.
      if (error instanceof EtcdError && error.code === 'PermissionDenied') return true;
      throw error;
    }
  }

  async #switchAuthOn(signal: AbortSignal | undefined): Promise<void> {
    const root = { name: 'root', password: this.#rootPassword };
    const post = (path: string, body: object) => this.#gateway.post(path, body, { signal });
    try {
      // The password comes first, and again if root is there already: a root without one could never ask for a token.
      await tolerate('AlreadyExists', post('/v3/auth/user/add', root));
      await post('/v3/auth/user/changepw', root);
      await tolerate('AlreadyExists', post('/v3/auth/role/add', { name: 'root' }));
      await post('/v3/auth/user/grant', { user: 'root', role: 'root' });
      await post('/v3/auth/enable', {});
    } catch (error) {
      // Another manager has switched it on meanwhile: from its last step on, ours are refused.
      if (!(error instanceof EtcdError && error.code === 'PermissionDenied')) throw error;
    }
  }

  async #deleteAuth(what: 'user' | 'role', name: string, signal: AbortSignal | undefined): Promise<void> {
    const body = what === 'user' ? { name } : { role: name };
    await this.#mutex.run(authChanges, signal, () =>
      tolerate('NotFound', this.#session.call(`/v3/auth/${what}/delete`, body, signal)),
    );
  }
}

/** Outside of every tenant's keys. */
const raiseKey = '/skerry/revision';

/** There while the keys of a tenant are being replaced. */
function replaceGuard(id: string): string {
  return `/skerry/replacing/${id}`;
}

function grantOf(id: string): Grant {
  return { user: tenantUser(id), role: tenantUser(id), prefix: tenantPrefix(id) };
}

function idsOf(names: readonly string[] | undefined): string[] {
  return (names ?? []).flatMap((name) => tenantOfUser(name) ?? []).sort();
}
