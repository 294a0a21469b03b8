import type { DifferenceReport } from '../api/difference-report.ts';
import {
  type Clock,
  type KubeClient,
  type ListMeter,
  onAbort,
  printable,
  runTogether,
} from '../kube/index.ts';
import type { KeyRef, TenantInfo } from './context.ts';
import { EventController } from './controllers/events.ts';
import { NetworkIsolationController } from './controllers/network-isolation.ts';
import { PodAdmission, type PodAdmissionObserver } from './controllers/pod-admission.ts';
import { PodTokenController } from './controllers/pod-tokens.ts';
import { actionGates } from './controllers/registry.ts';
import { tokenSecrets } from './controllers/token-secret.ts';
import type { Action, SyncedKind } from './kinds/contract.ts';
import { QuotaAdmission, type ResourceUsage } from './quota/quota-admission.ts';
import type { Caches } from './reconcile/caches.ts';
import {
  type Controller,
  type Outcome,
  queueOutcome,
  type SpecialController,
} from './reconcile/controller.ts';
import { Differences } from './reconcile/differences.ts';
import type { ActionGate, GatedAction, Work } from './reconcile/execute.ts';
import type { IdentityGuard } from './reconcile/guards.ts';
import { keyId, type SyncKey } from './reconcile/keys.ts';
import { PolicyEnforcer } from './reconcile/policy-enforcer.ts';
import { Reconciler } from './reconcile/reconciler.ts';
import { type DriftCount, Resync } from './reconcile/resync.ts';
import { Router } from './reconcile/router.ts';
import type { CustomKind, TenantState } from './reconcile/tenant-state.ts';
import type { TenantCounts } from './scheduling/scheduling-window.ts';
import type { CurrentTenant } from './watchdog/watchdog.ts';
import { FairQueue } from './workqueue/fair-queue.ts';
import type { Priority, Outcome as QueueOutcome, TenantDepth } from './workqueue/options.ts';
import { QueueRunner } from './workqueue/runner.ts';

/** Called about the engine's work, for metrics, traces and logs. An error that one of these throws goes to `failed`. */
export interface EngineObserver extends PodAdmissionObserver {
  /** A key came into the queue, or was asked for once more while it waits there. */
  queued?(tenant: TenantState, key: KeyRef): void;
  taken?(tenant: TenantState, key: KeyRef, waitMs: number): void;
  done?(tenant: TenantState, kind: string, serviceMs: number): void;
  outcome?(tenant: TenantState, key: KeyRef, outcome: Outcome): void;
  /** Of what policy demands for a tenant that has not joined. */
  enforced?(tenant: TenantState, key: KeyRef, outcome: Outcome): void;
  /**
   * An error that no reconcile expects: a defect of the syncer. The key is tried again; undefined: it concerns all of a
   * tenant. `tenant`: undefined if it is served no more. Must not throw.
   */
  failed?(tenant: TenantState | undefined, key: SyncKey | undefined, error: unknown): void;
  /** A tenant's two sides were compared: how long that took, without the pauses in between. */
  resynced?(busyMs: number): void;
  /** An action is about to be carried out; `acted` follows when it was. */
  acting?(tenant: TenantState, key: KeyRef, action: Action): void;
  acted?(tenant: TenantState, key: KeyRef, action: Action): void;
}

interface EngineOptions {
  kinds: readonly SyncedKind[];
  superClient: KubeClient;
  superCaches: Caches;
  superIdentity: IdentityGuard;
  clock: Clock;
  /** Reconciles at once, over all tenants. */
  workers: number;
  /** Off: first come, first served over all tenants; only to measure what fairness is worth. */
  fair?: boolean;
  onMismatch: (tenant: TenantState, side: 'tenant' | 'super') => void;
  onHeld: (tenant: TenantState) => void;
  observer?: EngineObserver;
  atWork?: CurrentTenant;
}

/**
 * What is due later, such as a renewal in an hour, a resync looks at as if it were not queued. A back-off ends
 * sooner.
 */
const soonMs = 60_000;
/** Of what is remembered of a failure. Characters. */
const longestFailure = 1_000;

function waitsForIsolation({ info }: TenantState, kind: SyncedKind | undefined): boolean {
  return kind?.direction === 'down' && kind.waitsForIsolation === true && info.isIsolationUnknown === true;
}

/** Keeps all tenants that joined in agreement with the super cluster, from events of both sides. */
export class SyncEngine {
  readonly #options: EngineOptions;
  readonly #queue: FairQueue<SyncKey>;
  readonly #reconciler: Reconciler;
  readonly #router: Router;
  readonly #controllers: ReadonlyMap<string, SpecialController>;
  readonly #events: EventController;
  readonly #isolation: NetworkIsolationController;
  readonly #resync: Resync;
  readonly #differences: Differences;
  readonly #policyEnforcer: PolicyEnforcer;
  /** Undefined where nothing is done for fairness. */
  readonly #admission: PodAdmission | undefined;
  readonly #quota: QuotaAdmission;
  readonly #kinds: ReadonlyMap<string, SyncedKind>;
  /** Ends the work of one tenant when it leaves, by UID. */
  readonly #leaving = new Map<string, AbortController>();

  constructor(options: EngineOptions) {
    this.#options = options;
    this.#kinds = new Map(options.kinds.map((kind) => [kind.name, kind]));
    this.#queue = new FairQueue<SyncKey>({
      keyOf: options.fair === false ? (key) => `${key.tenant}/${keyId(key)}` : keyId,
      tenantOf: options.fair === false ? () => 'everyone' : (key) => key.tenant,
      clock: options.clock,
      maxConcurrent: options.workers,
      ...(options.fair === false
        ? { shareOf: (_weight, _total, all) => all, maxBackground: options.workers }
        : {}),
      observer: {
        taken: (key, waitMs) =>
          this.#observe(key, (tenant) => options.observer?.taken?.(tenant, key, waitMs)),
        done: (key, serviceMs) =>
          this.#observe(key, (tenant) => options.observer?.done?.(tenant, key.kind, serviceMs)),
      },
    });
    this.#admission =
      options.fair === false
        ? undefined
        : new PodAdmission({
            ...options,
            wake: (uid, key) => this.#queue.add({ ...key, tenant: uid }, { first: true }),
            waiting: (uid) => this.#queue.liveWaiting(uid),
          });
    this.#quota = new QuotaAdmission({
      ...options,
      others: [tokenSecrets],
      monotonicMs: () => options.clock.monotonic(),
      sleep: (ms) => options.clock.sleep(ms),
      wake: (uid, key, afterMs = 0) => this.#queue.add({ ...key, tenant: uid }, { first: true, afterMs }),
    });
    const letPodIn: ActionGate = (work, action) => this.#letPodIn(work, action);
    const gates = actionGates(options.superClient, options.superCaches, letPodIn);
    const admission = this.#admission;
    this.#reconciler = new Reconciler({
      ...options,
      enqueue: (tenant, key) => this.#enqueue(tenant, key, 'live'),
      holdsBack: async (work) =>
        waitsForIsolation(work.tenant, work.kind) ||
        (admission !== undefined &&
          // One that waits in a line of the quota's asks there first, or it loses its place.
          !this.#quota.hasTurn(work.tenant, work.situation.key) &&
          (await admission.holdsBack(work))),
      gates,
      quotaGate: this.#quota.gate,
      readBudget: this.#quota.reads,
    });
    this.#isolation = new NetworkIsolationController({
      ...options,
      tenant: (uid) => this.#router.tenant(uid) ?? this.#policyEnforcer.tenant(uid),
      enqueue: (tenant, key) => this.#policyEnforcer.enqueue(tenant, key),
    });
    this.#events = new EventController({
      ...options,
      tenant: (uid) => this.#router.tenant(uid),
      enqueue: (tenant, key) => this.#enqueue(tenant, key, 'background'),
      isBusy: () => this.#queue.hasLiveWaiting() || this.#admission?.isFull === true,
    });
    const controllers: SpecialController[] = [
      this.#events,
      this.#isolation,
      new PodTokenController({
        ...options,
        tenant: (uid) => this.#router.tenant(uid),
        enqueue: (tenant, key, priority) => this.#enqueue(tenant, key, priority),
        quota: this.#quota,
      }),
    ];
    this.#controllers = new Map(controllers.map((controller) => [controller.name, controller]));
    this.#router = new Router({
      ...options,
      controllers,
      enqueue: (tenant, key, priority, version) => this.#enqueue(tenant, key, priority, { version }),
      enqueueFirst: (tenant, key) => this.#enqueue(tenant, key, 'live', { first: true }),
      onError: (tenant, key, error) => this.#failed({ ...key, tenant: tenant.info.uid }, error),
    });
    this.#resync = new Resync({
      clock: options.clock,
      keysOf: (tenant) => this.#router.keysOf(tenant),
      driftOf: (tenant, key) => this.#controllerOf(key).driftOf(tenant, key),
      isDemanded: (tenant, key) => this.#controllerOf(key).isDemanded?.(tenant, key) === true,
      isQueued: (tenant, key) =>
        this.#queue.has({ ...key, tenant: tenant.info.uid }, soonMs) ||
        this.#admission?.isParked(tenant, key) === true ||
        this.#quota.isWaiting(tenant, key),
      enqueue: (tenant, key, isDemanded) =>
        this.#enqueue(tenant, key, isDemanded ? 'live' : 'background', { first: isDemanded }),
      isServed: (tenant) => this.#router.tenant(tenant.info.uid) === tenant,
      onError: (tenant, key, error) => this.#failed({ ...key, tenant: tenant.info.uid }, error),
      onCompleted: (busyMs) => options.observer?.resynced?.(busyMs),
    });
    const isolation = this.#isolation;
    const reconciler = this.#reconciler;
    this.#policyEnforcer = new PolicyEnforcer({
      ...options,
      keysOf: (tenant) => this.#router.keysHeldToPolicy(tenant),
      settledKeysOf: (tenant) => isolation.keysOf(tenant),
      isDemanded: (tenant, key) =>
        key.kind === isolation.name
          ? isolation.driftOf(tenant, key) !== undefined
          : reconciler.isDemanded(tenant, key),
      enforce: (tenant, key, signal) =>
        key.kind === isolation.name
          ? isolation.reconcile(tenant, key, signal)
          : reconciler.enforce(tenant, key, signal),
      isJoined: (tenant) => this.#router.tenant(tenant.info.uid) === tenant,
      enqueueJoined: (tenant, key) => this.#enqueue(tenant, key, 'live', { first: true }),
      onOutcome: (tenant, key, outcome) => options.observer?.enforced?.(tenant, key, outcome),
      onError: (tenant, key, error) => options.observer?.failed?.(tenant, key, error),
    });
    this.#differences = new Differences({
      clock: options.clock,
      keysOf: (tenant) => this.#router.keysOf(tenant),
      findingOf: (tenant, key) => {
        const controller = this.#controllerOf(key);
        if (controller.findingOf !== undefined) return controller.findingOf(tenant, key);
        const is = controller.driftOf(tenant, key);
        return is && { is };
      },
      isQueued: (tenant, key) => this.#queue.has({ ...key, tenant: tenant.info.uid }, soonMs),
      waitsFor: (tenant, key) => {
        const why = this.#quota.whyWaiting(tenant, key);
        if (why !== undefined) return why;
        if (waitsForIsolation(tenant, this.#kinds.get(key.kind)))
          return 'waits until it is known whether anything in the super cluster acts on NetworkPolicies';
        return this.#admission?.isParked(tenant, key) === true
          ? "waits for the tenant's share of the super cluster's scheduler"
          : undefined;
      },
      isServed: (tenant) => this.#router.tenant(tenant.info.uid) === tenant,
    });
  }

  /** How the two sides of a tenant, given as `namespace/name`, differ; undefined: it is not served here. */
  async differences(label: string, most: number): Promise<DifferenceReport | undefined> {
    const tenant = [...this.#router.tenants()].find((each) => each.label === label);
    return tenant && (await this.#differences.of(tenant, most));
  }

  /**
   * Holds what this tenant has in the super cluster to these settings from now on, also while it has not joined; the caches of
   * the super cluster must be complete. `superIdentity`: UID of the kube-system of the super cluster that it was made on.
   */
  holdToPolicy(info: TenantInfo, superIdentity: string | undefined): void {
    this.#policyEnforcer.add(info, superIdentity);
  }

  /** Ends that at once, calls under way included. */
  release(uid: string): void {
    this.#policyEnforcer.remove(uid);
  }

  /** Looks at what policy demands of a tenant that has joined: while its server does not answer, nothing else does. */
  checkPolicy(tenant: TenantState): void {
    this.#policyEnforcer.look(tenant);
  }

  /** Has a tenant's copies of events remembered, before it joins: `EventController.loadExistingCopies`. */
  loadEventCopies(tenant: TenantState, signal: AbortSignal, meterList?: () => ListMeter): Promise<void> {
    return this.#events.loadExistingCopies(tenant, signal, meterList);
  }

  /** Serves this tenant from now on; its caches and those of the super cluster must be complete. */
  join(tenant: TenantState, weight: number): void {
    const { uid } = tenant.info;
    this.#policyEnforcer.joined(uid);
    this.#leaving.set(uid, new AbortController());
    this.#queue.setWeight(uid, weight);
    this.#admission?.join(tenant, weight);
    this.#quota.join(tenant);
    this.#router.join(tenant);
  }

  /** Ends this tenant's work at once, calls under way included. */
  leave(uid: string): void {
    this.#router.leave(uid);
    this.#admission?.leave(uid);
    this.#quota.leave(uid);
    this.#queue.removeTenant(uid);
    this.#leaving.get(uid)?.abort(new Error('tenant left'));
    this.#leaving.delete(uid);
    this.#isolation.leave(uid);
    this.#policyEnforcer.left(uid);
  }

  setWeight(uid: string, weight: number): void {
    if (this.#router.tenant(uid) === undefined) return;
    this.#queue.setWeight(uid, weight);
    this.#admission?.setWeight(uid, weight);
  }

  /** Syncs one more kind for a tenant that has joined; its caches on both sides must be complete. */
  addKind(tenant: TenantState, custom: CustomKind): void {
    tenant.customKinds.set(custom.kind.name, custom);
    this.#quota.addKind(tenant, custom.kind);
    this.#router.addKind(tenant, custom.kind);
  }

  /** Looks at all objects of such a kind again. */
  requeueKind(tenant: TenantState, kind: string): void {
    const custom = tenant.customKinds.get(kind);
    if (custom !== undefined) this.#router.enqueueKind(tenant, custom.kind);
  }

  /** Ends that at once: what is queued of this kind is dropped, and nothing of it is deleted. */
  removeKind(tenant: TenantState, kind: string): void {
    tenant.removeKind(kind);
  }

  /** Looks at everything of a tenant again: its settings changed, or deletes may go on. */
  requeue(tenant: TenantState): void {
    tenant.held.clear();
    this.#router.enqueueAll(tenant);
    // What its new settings demand in the super cluster does not wait for what the tenant has queued itself.
    // Looked at when their turn comes: all of them at once would hold up all tenants.
    for (const key of this.#router.keysHeldToPolicy(tenant))
      this.#enqueue(tenant, key, 'live', { first: true });
    for (const key of this.#isolation.keysOf(tenant))
      if (this.#isolation.driftOf(tenant, key) !== undefined)
        this.#enqueue(tenant, key, 'live', { first: true });
  }

  /** The API server is back: what waited for it is tried again. */
  retryNow(uid: string): void {
    this.#queue.retryNow(uid);
  }

  /** Compares both sides of a tenant and queues what differs. Lets others work in between. */
  resync(tenant: TenantState): Promise<DriftCount[]> {
    if (this.#router.tenant(tenant.info.uid) === tenant) {
      this.#admission?.recount(tenant);
      this.#quota.recount(tenant);
    }
    return this.#resync.run(tenant);
  }

  depth(uid?: string): number {
    return this.#queue.depth(uid);
  }

  depths(): TenantDepth[] {
    return this.#queue.depths();
  }

  /**
   * The window to the super cluster's scheduler, and each tenant's pods in it and before it; undefined: there is
   * none.
   */
  scheduling(): { size: number; tenants: TenantCounts[] } | undefined {
    return this.#admission && { size: this.#admission.size, tenants: this.#admission.counts() };
  }

  /** `namespace/name` of a tenant that is served; its UID for one that is not. */
  labelOf(uid: string): string {
    return this.#router.tenant(uid)?.label ?? uid;
  }

  /** About what the objects of each tenant take in memory, by its label. */
  *cacheBytes(): Generator<{ tenant: string; bytes: number }> {
    for (const { label, caches } of this.#router.tenants()) yield { tenant: label, bytes: caches.bytes };
  }

  /** What a tenant that is served has of what its quota limits. */
  quotaOf(uid: string): Iterable<ResourceUsage & { readonly quantity: string }> {
    return this.#quota.usageOf(uid);
  }

  /** The same as quantities, and what usage is measured by, limited or not. */
  usedBy(uid: string): Record<string, string> {
    return this.#quota.usedBy(uid);
  }

  /** What all tenants have of what their quotas limit, by label. */
  *quotas(): Generator<ResourceUsage & { readonly tenant: string }> {
    for (const { label, info } of this.#router.tenants())
      for (const usage of this.#quota.usageOf(info.uid)) yield { ...usage, tenant: label };
  }

  /** Objects in the caches, by side and kind. */
  *objectCounts(): Generator<{ side: 'tenant' | 'super'; kind: string; count: number }> {
    const tenants = [...this.#router.tenants()];
    const custom = new Set<SyncedKind>(
      tenants.flatMap(({ customKinds }) => [...customKinds.values()].map(({ kind }) => kind)),
    );
    for (const kind of new Set([...this.#options.kinds, ...custom])) {
      const { name } = kind;
      let count = 0;
      for (const tenant of tenants) {
        if (custom.has(kind) && tenant.customKinds.get(name)?.kind !== kind) continue;
        count += tenant.caches.of(kind).size;
      }
      yield { side: 'tenant', kind: name, count };
      yield { side: 'super', kind: name, count: this.#options.superCaches.of(kind).size };
    }
    for (const name of this.#controllers.keys()) {
      yield { side: 'tenant', kind: name, count: 0 };
      yield { side: 'super', kind: name, count: this.#options.superCaches.watched(name).size };
    }
  }

  /** Works until aborted. Rejects when it cannot go on. */
  async run(signal: AbortSignal): Promise<void> {
    const { atWork } = this.#options;
    const runner = new QueueRunner({
      queue: this.#queue,
      clock: this.#options.clock,
      process: (key: SyncKey) =>
        atWork === undefined ? this.#process(key) : atWork.run(key.tenant, () => this.#process(key)),
      onError: (error, key) => this.#failed(key, error),
    });
    await runTogether(signal, (ending) => {
      // One signal per tenant serves all its calls: combining two for each call would cost more than the call.
      onAbort(ending, () => {
        for (const leaving of this.#leaving.values()) leaving.abort(ending.reason);
      });
      const parts = [runner.run(ending), this.#events.run(ending), this.#policyEnforcer.run(ending)];
      return this.#admission === undefined ? parts : [...parts, this.#admission.run(ending)];
    });
  }

  /** No pod is made before what isolates it. Of a pod that has to wait after all, nothing was written. */
  async #letPodIn(work: Work, action: GatedAction): ReturnType<ActionGate> {
    const { tenant, situation, signal } = work;
    const giveBack = (): void => this.#quota.giveBack(tenant, situation.key);
    try {
      if (action.do === 'createSuper')
        await this.#isolation.beforePods(tenant, situation.key.namespace ?? '', signal);
    } catch (error) {
      giveBack();
      throw error;
    }
    const granted = this.#admission === undefined ? action : await this.#admission.gate(work, action);
    if (granted !== action) giveBack();
    return granted;
  }

  async #process(key: SyncKey): Promise<QueueOutcome> {
    const tenant = this.#router.tenant(key.tenant);
    const leaving = this.#leaving.get(key.tenant);
    if (tenant === undefined || leaving === undefined) return { action: 'done' };
    // Read before: a version that comes during the run has not been refused.
    const version = this.#version(tenant, key);
    this.#admission?.began(key.tenant, key);
    this.#quota.began(key.tenant, key);
    let ended: Outcome | undefined;
    try {
      const outcome = await this.#controllerOf(key).reconcile(tenant, key, leaving.signal);
      ended = outcome;
      this.#remember(tenant, key, outcome);
      this.#options.observer?.outcome?.(tenant, key, outcome);
      return queueOutcome(outcome, version);
    } catch (error) {
      if (leaving.signal.aborted) return { action: 'done' };
      throw error;
    } finally {
      // One that has joined anew meanwhile has places of its own.
      if (this.#leaving.get(key.tenant) === leaving) {
        this.#admission?.ended(tenant, key);
        this.#quota.ended(tenant, key, ended);
      }
    }
  }

  /** What still fails, for the report of differences; and that it is not held any more. */
  #remember({ failures, held }: TenantState, key: KeyRef, outcome: Outcome): void {
    const id = keyId(key);
    if (outcome.is !== 'held' && held.size > 0) held.delete(id);
    const remember = (isRefused: boolean, message: string): void =>
      failures.set(id, { isRefused, message: printable(message, longestFailure) });
    if (outcome.is === 'refused') remember(true, outcome.message);
    else if (outcome.is === 'retry') {
      const { code, error } = outcome;
      remember(false, error instanceof Error ? error.message : code);
    } else if (failures.size > 0) failures.delete(id);
  }

  #controllerOf({ kind }: KeyRef): Controller {
    return this.#controllers.get(kind) ?? this.#reconciler;
  }

  #version(tenant: TenantState, key: KeyRef): string | undefined {
    const kind = this.#kinds.get(key.kind) ?? tenant.customKinds.get(key.kind)?.kind;
    return kind && tenant.caches.get(kind.resource, key)?.metadata.resourceVersion;
  }

  #enqueue(
    tenant: TenantState,
    key: KeyRef,
    priority: Priority,
    { version, first = false }: { version?: string | undefined; first?: boolean } = {},
  ): void {
    const uid = tenant.info.uid;
    if (this.#router.tenant(uid) !== tenant) return;
    this.#observe({ ...key, tenant: uid }, () => this.#options.observer?.queued?.(tenant, key));
    const options = { priority, first };
    this.#queue.add({ ...key, tenant: uid }, version === undefined ? options : { ...options, version });
  }

  /** From within the queue, whose state an error must not leave half changed. */
  #observe(key: SyncKey, observe: (tenant: TenantState) => void): void {
    const tenant = this.#router.tenant(key.tenant);
    if (tenant === undefined) return;
    try {
      observe(tenant);
    } catch (error) {
      this.#failed(key, error);
    }
  }

  #failed(key: SyncKey, error: unknown): void {
    this.#options.observer?.failed?.(this.#router.tenant(key.tenant), key, error);
  }
}
