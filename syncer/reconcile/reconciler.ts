import type { KubeObject } from '../../kube/index.ts';
import type { KeyRef, TenantInfo } from '../context.ts';
import type { Notice, SyncedKind } from '../kinds/contract.ts';
import { namespaceKind } from '../kinds/namespaces.ts';
import { isOurs, originalUid } from '../mapping/labels.ts';
import { scrub } from '../mapping/scrub.ts';
import type { Caches } from './caches.ts';
import { type Controller, done, type Outcome, outcomeOf, staleCache } from './controller.ts';
import {
  type Decision,
  type DeleteCheck,
  type Drift,
  decideDown,
  decideUp,
  driftOf,
  policyActions,
  type Situation,
} from './decide.ts';
import {
  DeletionSafety,
  type DeletionSafetyOptions,
  liveObject,
  SharedLists,
  type Verdict,
} from './deletion-safety.ts';
import { type Finding, findingOf } from './differences.ts';
import { Executor, type ExecutorOptions, recordNotice, recordRefusal, type Work } from './execute.ts';
import { keyId } from './keys.ts';
import { payloadsDiffer, type ReadBudget, withPayload } from './payloads.ts';
import type { TenantState } from './tenant-state.ts';

interface Agreed {
  readonly tenantObject: KubeObject;
  readonly tenant: TenantInfo;
}

/**
 * Which two objects were found to agree. Objects in caches are replaced and never changed, so that two of them agree
 * for as long as both are there, where what is decided of them depends on nothing else (`dependsOnlyOnPair`) and the
 * tenant's settings are the same. Goes with the super object, and with the first look after a change.
 */
class InSyncCache {
  readonly #pairs = new WeakMap<KubeObject, Agreed>();

  has({ tenantObject, superObject, context }: Situation): boolean {
    const agreed = superObject === undefined ? undefined : this.#pairs.get(superObject);
    if (superObject === undefined || agreed === undefined) return false;
    if (agreed.tenantObject === tenantObject && agreed.tenant === context.tenant) return true;
    // Or an object that is in no cache any more would be kept.
    this.#pairs.delete(superObject);
    return false;
  }

  /** Call it with a situation in which nothing at all is to be done. */
  add(kind: SyncedKind, { tenantObject, superObject, context }: Situation): void {
    if (tenantObject === undefined || superObject === undefined || kind.direction === 'up') return;
    if (kind.dependsOnlyOnPair?.(tenantObject, superObject) !== true) return;
    this.#pairs.set(superObject, { tenantObject, tenant: context.tenant });
  }
}

interface ReconcilerOptions extends DeletionSafetyOptions, Omit<ExecutorOptions, 'isDependencyMet'> {
  kinds: readonly SyncedKind[];
  superCaches: Caches;
  readBudget?: ReadBudget | undefined;
}

/**
 * The controller of all kinds that are mirrored object by object: looks at both sides of a key and does what is
 * missing, in either direction. Knows nothing of queues.
 */
export class Reconciler implements Controller {
  readonly #options: ReconcilerOptions;
  readonly #kinds: ReadonlyMap<string, SyncedKind>;
  readonly #executor: Executor;
  readonly #safety: DeletionSafety;
  readonly #superLists: SharedLists;
  readonly #inSync = new InSyncCache();

  constructor(options: ReconcilerOptions) {
    this.#options = options;
    this.#kinds = new Map(options.kinds.map((kind) => [kind.name, kind]));
    this.#superLists = new SharedLists(options.superClient);
    this.#safety = new DeletionSafety(options);
    this.#executor = new Executor({
      ...options,
      isDependencyMet: (tenant, key) => this.isDependencyMet(tenant, key),
    });
  }

  async reconcile(tenant: TenantState, key: KeyRef, signal: AbortSignal): Promise<Outcome> {
    const kind = this.#kindOf(tenant, key.kind);
    if (kind === undefined) return done;
    const outcome = await this.#attempt(tenant, kind, key, signal);
    // The tenant let go of the kind meanwhile: whatever came of it is of no interest.
    if (this.#kindOf(tenant, key.kind) !== kind) return done;
    try {
      this.#tidy(tenant, kind, key);
      this.#enqueueDependents(tenant, key);
      return outcome;
    } catch (error) {
      return outcomeOf(error);
    }
  }

  driftOf(tenant: TenantState, key: KeyRef): Drift | undefined {
    const kind = this.#kindOf(tenant, key.kind);
    if (kind === undefined) return undefined;
    const situation = this.#situation(tenant, kind, key);
    if (this.#inSync.has(situation) || this.#isBehind(tenant, situation)) return undefined;
    if (kind.direction === 'down' && policyActions(kind, situation).length > 0) return 'differs';
    if (kind.direction === 'down' && kind.payload !== undefined) {
      if (payloadsDiffer(kind, kind.payload, situation, tenant)) return 'differs';
    }
    const decision = this.#decide(kind, situation);
    if (decision.actions.length === 0) this.#inSync.add(kind, situation);
    return driftOf(kind, situation, decision);
  }

  findingOf(tenant: TenantState, key: KeyRef): Finding | undefined {
    const kind = this.#kindOf(tenant, key.kind);
    if (kind === undefined) return undefined;
    const situation = this.#situation(tenant, kind, key);
    if (this.#inSync.has(situation) || this.#isBehind(tenant, situation)) return undefined;
    if (kind.direction === 'down' && kind.payload !== undefined) {
      if (payloadsDiffer(kind, kind.payload, situation, tenant))
        return { is: 'differs', fields: kind.payload };
    }
    const decision = this.#decide(kind, situation);
    return findingOf(driftOf(kind, situation, decision), decision.actions);
  }

  isDemanded(tenant: TenantState, key: KeyRef): boolean {
    const kind = this.#kindOf(tenant, key.kind);
    return kind?.direction === 'down' && policyActions(kind, this.#situation(tenant, kind, key)).length > 0;
  }

  /** Does what policy demands of the super object of a key, and nothing else, as for a tenant that has not joined. */
  async enforce(tenant: TenantState, key: KeyRef, signal: AbortSignal): Promise<Outcome> {
    const kind = this.#kindOf(tenant, key.kind);
    if (kind === undefined) return done;
    try {
      const situation = this.#situation(tenant, kind, key);
      if (this.#isBehind(tenant, situation)) return staleCache;
      const outcome = await this.#enforce({ kind, situation, tenant, signal, definition: undefined });
      return outcome ?? done;
    } catch (error) {
      if (signal.aborted) throw error;
      return outcomeOf(error);
    }
  }

  /** Whether nothing stands in the way of what requires this key: its copy is there, or none is to be. */
  isDependencyMet(tenant: TenantState, key: KeyRef): boolean {
    if (key.kind === namespaceKind.name) return tenant.namespaceReady(key.name) !== false;
    const kind = this.#kindOf(tenant, key.kind);
    if (kind === undefined) return true;
    const { tenantObject, superObject, createdUid, context } = this.#situation(tenant, kind, key);
    if (kind.direction === 'up') {
      if (tenantObject !== undefined || createdUid !== undefined || superObject === undefined) return true;
      return kind.tenantRef(superObject, context) === undefined;
    }
    if (tenantObject === undefined || createdUid !== undefined) return true;
    if (superObject !== undefined) {
      if (superObject.metadata.deletionTimestamp !== undefined) return false;
      if (isOurs(superObject, tenant.info)) return originalUid(superObject) === tenantObject.metadata.uid;
      if (kind.adopts?.(superObject, tenantObject, context) === true) return true;
    }
    const admission = kind.admit?.(tenantObject, context);
    return admission?.wanted === false && admission.isAwaited !== true;
  }

  async #attempt(tenant: TenantState, kind: SyncedKind, key: KeyRef, signal: AbortSignal): Promise<Outcome> {
    let work: Work | undefined;
    try {
      let situation = this.#situation(tenant, kind, key);
      if (this.#isBehind(tenant, situation)) return staleCache;
      // Before the tenant's server is asked for anything: it may hang.
      const enforced = await this.#enforce({ kind, situation, tenant, signal, definition: undefined });
      if (enforced?.is === 'done') return staleCache;
      if (kind.direction === 'down' && kind.payload !== undefined) {
        const { superClient, readBudget: budget } = this.#options;
        const { payload } = kind;
        const look = { kind, situation, tenant, signal, definition: undefined };
        const tell = (notice: Notice): Promise<void> => recordNotice(look, notice);
        const whole = await withPayload(superClient, { ...look, payload, budget, tell });
        if ('is' in whole) return whole;
        situation = whole;
      }
      const definition = tenant.customKinds.get(kind.name)?.definition;
      work = { kind, situation, tenant, signal, definition };
      const outcome = await this.#carryOut(work, this.#decide(kind, situation));
      return outcome.is === 'done' && this.#isUnseen(work) ? staleCache : outcome;
    } catch (error) {
      if (signal.aborted) throw error;
      const outcome = outcomeOf(error);
      return outcome.is === 'refused' && work !== undefined ? this.#refused(work, outcome) : outcome;
    }
  }

  async #carryOut(work: Work, { actions, check }: Decision): Promise<Outcome> {
    if (check === undefined) return this.#executor.run(actions, work);
    const { tenant, situation } = work;
    const { side } = check;
    const verdict = await this.#verdictOn(work, check);
    if (verdict.is === 'exists') {
      return side === 'super'
        ? this.#executor.restoreMarks(work, verdict.live)
        : { is: 'retry', code: 'stillThere' };
    }
    if (verdict.is === 'open') return this.#executor.run(actions, work);
    if (verdict.is === 'not-now') return { is: 'retry', code: 'liveChecks', afterMs: verdict.afterMs };
    if (verdict.is === 'definition-gone') return { is: 'retry', code: 'definitionGone' };
    tenant.held.set(keyId(situation.key), true);
    return { is: 'held' };
  }

  /** Throws what a client throws when it cannot tell. */
  #verdictOn(work: Work, { side, live, unwatched }: DeleteCheck): Promise<Verdict> {
    const { tenant, situation, definition } = work;
    return this.#safety.check(tenant, {
      side,
      unwatched,
      ...(live
        ? {
            live: () =>
              liveObject(work, side, {
                superClient: this.#options.superClient,
                superLists: this.#superLists,
              }),
          }
        : {}),
      ...(side === 'tenant' && situation.tenantObject === undefined ? { definition } : {}),
    });
  }

  /** Does what policy demands of a super object (sync rule `policy-over-holds`); undefined: there was nothing to do. */
  async #enforce(work: Work): Promise<Outcome | undefined> {
    const { kind, situation, tenant } = work;
    const demanded = kind.direction === 'down' ? policyActions(kind, situation) : [];
    if (demanded.length === 0 || !(await this.#safety.mayEnforce(tenant))) return undefined;
    return this.#executor.run(demanded, work);
  }

  /** Whether something was created that the cache has not shown yet, and may never show: it can be gone already. */
  #isUnseen({ tenant, situation, kind }: Work): boolean {
    return (
      tenant.expectations[kind.direction === 'down' ? 'super' : 'tenant'].createdUid(keyId(situation.key)) !==
      undefined
    );
  }

  #decide(kind: SyncedKind, situation: Situation): Decision {
    return kind.direction === 'down' ? decideDown(kind, situation) : decideUp(kind, situation);
  }

  #isBehind({ expectations }: TenantState, { key, tenantObject, superObject }: Situation): boolean {
    const id = keyId(key);
    return expectations.tenant.isBehind(id, tenantObject) || expectations.super.isBehind(id, superObject);
  }

  /** `undefined`: a kind that comes and goes, and that the tenant has let go of. */
  #kindOf(tenant: TenantState, name: string): SyncedKind | undefined {
    return this.#kinds.get(name) ?? tenant.customKinds.get(name)?.kind;
  }

  #situation(tenant: TenantState, kind: SyncedKind, key: KeyRef): Situation {
    const id = keyId(key);
    const superRef = tenant.superRef(kind, key);
    const tenantObject = tenant.caches.of(kind).get(key);
    const superObject = superRef === undefined ? undefined : this.#options.superCaches.of(kind).get(superRef);
    const mayCreate = tenantObject !== undefined && superObject === undefined && kind.direction === 'down';
    return {
      key,
      tenantObject,
      superObject,
      tenantTombstone: tenant.tombstones.tenant.get(id),
      superTombstone: tenant.tombstones.super.get(id),
      createdUid: tenant.expectations[kind.direction === 'down' ? 'super' : 'tenant'].createdUid(id),
      namespaceReady: mayCreate && kind.resource.namespaced ? tenant.namespaceReady(key.namespace) : true,
      context: tenant.context(),
    };
  }

  async #refused(work: Work, outcome: Outcome & { is: 'refused' }): Promise<Outcome> {
    const message = scrub(outcome.message, work.situation.context);
    await recordRefusal(work, { type: 'Warning', reason: 'SyncRefused', message });
    return { ...outcome, message };
  }

  /** Forgets what both sides have outlived. */
  #tidy(tenant: TenantState, kind: SyncedKind, key: KeyRef): void {
    const id = keyId(key);
    const { tombstones } = tenant;
    if (tombstones.tenant.get(id) === undefined && tombstones.super.get(id) === undefined) return;
    const after = this.#situation(tenant, kind, key);
    if (after.superObject === undefined && after.createdUid === undefined) tombstones.tenant.delete(id);
    if (after.tenantObject === undefined) tombstones.super.delete(id);
  }

  #enqueueDependents(tenant: TenantState, key: KeyRef): void {
    if (!tenant.dependents.has(key) || !this.isDependencyMet(tenant, key)) return;
    for (const dependent of tenant.dependents.take(key)) this.#options.enqueue(tenant, dependent);
  }
}
