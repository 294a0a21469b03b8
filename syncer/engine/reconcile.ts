import { isNotFound, type KubeClient, type KubeObject, type Resource, resources } from '../../kube/index.ts';
import type { DownKind, KeyRef, SyncedKind } from '../kinds/index.ts';
import { isOurs, scrub, uidMark } from '../mapping/index.ts';
import type { Caches } from './caches.ts';
import { type DeleteCheck, type Decision, decideDown, decideUp, type Situation } from './decide.ts';
import { Executor, failed, type Work } from './execute.ts';
import { keyId } from './key.ts';
import { Notices } from './notices.ts';
import { done, type Outcome } from './outcome.ts';
import type { IdentityGuard } from './identity-guard.ts';
import type { TenantState } from './tenant-state.ts';

export interface ReconcilerOptions {
  kinds: readonly SyncedKind[];
  superClient: KubeClient;
  superCaches: Caches;
  superIdentity: IdentityGuard;
  /** Queues a key at once. */
  enqueue: (tenant: TenantState, key: KeyRef) => void;
  /** A server is not who it should be: deletes of this tenant stop until the operator has spoken. */
  onMismatch: (tenant: TenantState, side: 'tenant' | 'super') => void;
  /** The mass-deletion guard closed for this tenant. */
  onHeld: (tenant: TenantState) => void;
  nowMs: () => number;
}

/**
 * One reconcile for all kinds: looks at both sides of a key and does what is missing, in either
 * direction. Knows nothing of queues; safe to call for different keys at once, never for one key twice.
 */
export class Reconciler {
  readonly #options: ReconcilerOptions;
  readonly #kinds: ReadonlyMap<string, SyncedKind>;
  readonly #executor: Executor;
  readonly #notices = new WeakMap<TenantState, Notices>();

  constructor(options: ReconcilerOptions) {
    this.#options = options;
    this.#kinds = new Map(options.kinds.map((kind) => [kind.name, kind]));
    this.#executor = new Executor({
      superClient: options.superClient,
      enqueue: options.enqueue,
      isSettled: (tenant, key) => this.isSettled(tenant, key),
    });
  }

  async reconcile(tenant: TenantState, key: KeyRef, signal: AbortSignal): Promise<Outcome> {
    const kind = this.#kind(key.kind);
    const situation = this.#situation(tenant, kind, key);
    if (this.#isBehind(tenant, situation)) return done;
    const work: Work = { kind, situation, tenant, notices: this.#noticesOf(tenant), signal };
    let outcome: Outcome;
    try {
      const decision = this.decide(kind, situation);
      if (decision.check !== undefined && !(await this.#mayDelete(work, decision.check))) {
        tenant.held.set(keyId(key), key);
        return { is: 'held' };
      }
      outcome = await this.#executor.run(decision.actions, work);
    } catch (error) {
      outcome = failed(error, signal);
      if (outcome.is === 'refused') outcome = await this.#refused(work, outcome);
    }
    this.#tidy(tenant, kind, key);
    if (tenant.hasWaiters(key) && this.isSettled(tenant, key)) {
      for (const waiter of tenant.takeWaiters(key)) this.#options.enqueue(tenant, waiter);
    }
    return outcome;
  }

  /** What would be done for a key now; for the patrol, which only looks. */
  wouldDo(tenant: TenantState, key: KeyRef): Decision {
    const kind = this.#kind(key.kind);
    return this.decide(kind, this.#situation(tenant, kind, key));
  }

  decide(kind: SyncedKind, situation: Situation): Decision {
    return kind.direction === 'down' ? decideDown(kind, situation) : decideUp(kind, situation);
  }

  /** Whether nothing stands in the way of what requires this key: its copy is there, or none is to be. */
  isSettled(tenant: TenantState, key: KeyRef): boolean {
    const kind = this.#kind(key.kind);
    const { tenantObject, superObject, createdUid, context } = this.#situation(tenant, kind, key);
    if (kind.direction === 'up') {
      if (tenantObject !== undefined || createdUid !== undefined || superObject === undefined) return true;
      return kind.tenantRef(superObject, context) === undefined;
    }
    if (tenantObject === undefined || createdUid !== undefined) return true;
    if (superObject !== undefined) {
      if (superObject.metadata.deletionTimestamp !== undefined) return false;
      if (isOurs(superObject, tenant.info)) return uidMark(superObject) === tenantObject.metadata.uid;
      if (kind.adopts?.(superObject, tenantObject, context) === true) return true;
    }
    return kind.admit?.(tenantObject, context).wanted === false;
  }

  #isBehind(tenant: TenantState, { key, tenantObject, superObject }: Situation): boolean {
    const id = keyId(key);
    return tenant.isBehind('tenant', id, tenantObject) || tenant.isBehind('super', id, superObject);
  }

  #kind(name: string): SyncedKind {
    const kind = this.#kinds.get(name);
    if (kind === undefined) throw new Error(`unknown kind ${name}`);
    return kind;
  }

  #situation(tenant: TenantState, kind: SyncedKind, key: KeyRef): Situation {
    const id = keyId(key);
    const superRef = tenant.superRef(kind, key);
    const unwatched = kind.direction === 'up' && !kind.watchTenant;
    return {
      key,
      tenantObject: unwatched ? tenant.written.get(id) : tenant.caches.get(kind.resource, key),
      superObject: superRef === undefined ? undefined : this.#options.superCaches.get(kind.resource, superRef),
      tenantTombstone: tenant.tombstones.tenant.get(id),
      superTombstone: tenant.tombstones.super.get(id),
      createdUid: tenant.createdUid(kind.direction === 'down' ? 'super' : 'tenant', id),
      namespaceReady: key.namespace === undefined || this.#namespaceReady(tenant, key.namespace),
      context: tenant.context(),
    };
  }

  /** Nothing is created in a super namespace before it carries this tenant's mark and T's UID (sync rule §1). */
  #namespaceReady(tenant: TenantState, namespace: string): boolean | 'unwanted' {
    const own = tenant.caches.get(resources.namespaces, { name: namespace });
    const there = this.#options.superCaches.get(resources.namespaces, { name: tenant.superNamespace(namespace) });
    if (own === undefined) return false;
    const kind = this.#kind('namespaces') as DownKind;
    if (kind.admit?.(own, tenant.context()).wanted === false) return 'unwanted';
    if (there === undefined) {
      return tenant.createdUid('super', keyId({ kind: 'namespaces', name: namespace })) !== undefined;
    }
    return (
      there.metadata.deletionTimestamp === undefined &&
      isOurs(there, tenant.info) &&
      uidMark(there) === own.metadata.uid
    );
  }

  /** Sync rule 0: identity first, then the live answer, then the size of the pass. */
  async #mayDelete(work: Work, check: DeleteCheck): Promise<boolean> {
    const { tenant } = work;
    if (tenant.frozen !== undefined) return false;
    const guard = check.side === 'tenant' ? tenant.identity : this.#options.superIdentity;
    if (!(await guard.verify())) {
      this.#options.onMismatch(tenant, check.side);
      return false;
    }
    if (check.live) await this.#assertGone(work, check.side);
    if (check.unwatched && check.side === 'tenant' && !tenant.deletions.allowsUnwatched()) {
      this.#options.onHeld(tenant);
      return false;
    }
    return true;
  }

  /** Asks the server itself; throws, for a later try, while the object is there after all. */
  async #assertGone(work: Work, side: 'tenant' | 'super'): Promise<void> {
    const { kind, tenant, situation, signal } = work;
    const ref = side === 'tenant' ? situation.key : tenant.superRef(kind, situation.key);
    if (ref === undefined) return;
    const client = side === 'tenant' ? tenant.client : this.#options.superClient;
    const other = side === 'tenant' ? situation.superObject : situation.tenantObject;
    const live = await getLive(client, kind.resource, ref, signal);
    if (live === undefined) return;
    if (side === 'tenant' && other !== undefined && uidMark(other) !== live.metadata.uid) return;
    throw new Error(`${kind.name} ${situation.key.name} is still there although the cache has lost it`);
  }

  async #refused(work: Work, outcome: Outcome & { is: 'refused' }): Promise<Outcome> {
    const message = scrub(outcome.message, work.situation.context);
    const object = work.situation.tenantObject;
    if (object === undefined) return { ...outcome, message };
    const notice = { type: 'Warning', reason: 'SyncRefused', message } as const;
    try {
      await work.notices.write(work.kind.resource, object, notice, work.signal);
    } catch {
      // The refusal counts and is tried again; an event that cannot be written must not hide it.
    }
    return { ...outcome, message };
  }

  /** Forgets what both sides have outlived. */
  #tidy(tenant: TenantState, kind: SyncedKind, key: KeyRef): void {
    const id = keyId(key);
    const after = this.#situation(tenant, kind, key);
    if (after.superObject === undefined && after.createdUid === undefined) tenant.tombstones.tenant.delete(id);
    if (after.tenantObject === undefined) tenant.tombstones.super.delete(id);
    if (after.superObject === undefined && after.tenantObject === undefined) tenant.written.delete(id);
  }

  #noticesOf(tenant: TenantState): Notices {
    let notices = this.#notices.get(tenant);
    if (notices === undefined) {
      notices = new Notices(tenant.client, this.#options.nowMs);
      this.#notices.set(tenant, notices);
    }
    return notices;
  }
}

async function getLive(
  client: KubeClient,
  resource: Resource,
  ref: { namespace?: string | undefined; name: string },
  signal: AbortSignal,
): Promise<KubeObject | undefined> {
  try {
    return await client.get(resource, ref, { signal });
  } catch (error) {
    if (isNotFound(error)) return undefined;
    throw error;
  }
}

