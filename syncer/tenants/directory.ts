import { getHeapStatistics } from 'node:v8';
import { isWaitingForSyncer, leftReason } from '../../api/conditions.ts';
import { isAsleep, isHeldToPolicy, isServed } from '../../api/tenant-state.ts';
import type { VirtualCluster } from '../../api/virtual-cluster.ts';
import {
  type CallRecord,
  type Clock,
  type KubeClient,
  type KubeObject,
  linkedController,
  namespacedName,
  Reflector,
  resources,
  Store,
  systemClock,
} from '../../kube/index.ts';
import { SharedReadTime } from '../../program/read-time.ts';
import type { CustomResourceInformers } from '../controllers/custom-resources.ts';
import type { SyncEngine } from '../engine.ts';
import type { SyncedKind } from '../kinds/contract.ts';
import type { ClientAuthorities } from '../kubelet/kubelet-tenants.ts';
import type { Caches } from '../reconcile/caches.ts';
import { EventRecorder } from '../reconcile/event-recorder.ts';
import type { IdentityGuard } from '../reconcile/guards.ts';
import type { DriftCount } from '../reconcile/resync.ts';
import { type CurrentTenant, crashesUntilJoinsLast, type Suspect } from '../watchdog/watchdog.ts';
import { CacheLimitExceeded, SharedCacheBudget } from './cache-budget.ts';
import { readCredentials } from './credentials.ts';
import { JoinOrder } from './join-order.ts';
import { SharedReadMemory } from './read-memory.ts';
import { type SessionLogger, TenantSession } from './session.ts';
import { WakeOnExpiry, WakeOnLoss } from './sleeping-tenants.ts';
import { notSynced, StatusWriter, type SyncerCondition, type UsedResources } from './status-writer.ts';
import { cacheLimitBytes, type SyncerSettings, tenantInfo } from './tenant-info.ts';
import { UnjoinedTenantUsage } from './unjoined-usage.ts';

/** Which tenants are this replica's to serve. */
export interface TenantFilter {
  serves(vc: VirtualCluster): boolean;
  /** Whether the caches of the super cluster hold the objects of all tenants, of all replicas. */
  readonly seesAll: boolean;
  /** All VirtualClusters there are; to be called when they have been listed, and when one changes. */
  see(virtualClusters: Iterable<VirtualCluster>): void;
  /**
   * The listener is called when answers change; what it returns resolves when nothing is done any more for tenants
   * that are not to be served. Returns how to stop that.
   */
  subscribe(listener: () => Promise<void>): () => void;
}

interface DirectoryOptions {
  superClient: KubeClient;
  /** Skerry's own namespace in the super cluster. */
  systemNamespace: string;
  superCaches: Caches;
  /** Custom resources of the super cluster. */
  customResources: CustomResourceInformers;
  superIdentity: IdentityGuard;
  engine: SyncEngine;
  kinds: readonly SyncedKind[];
  /** The present settings; after a change, call `reconsider`. */
  settings: () => SyncerSettings;
  clock: Clock;
  logger: SessionLogger;
  gate: TenantFilter;
  /** Called before each write to a tenant; if it throws, the write is not sent. */
  beforeWrite?: () => void;
  hooks?: DirectoryHooks;
  atWork?: CurrentTenant;
}

/** Reports about tenants, for metrics. `tenant` is `namespace/name`. */
export interface DirectoryHooks {
  call?(tenant: string, call: CallRecord): void;
  reflectorProblem?(tenant: string, kind: string, phase: string): void;
  resync?(tenant: string, findings: readonly DriftCount[]): void;
  joined?(tenant: string): void;
  /** It takes too much memory and is not served for a time. */
  held?(tenant: string): void;
  /** Reading an answer or event of it was ended, because those of all tenants took too much memory. */
  readAborted?(tenant: string): void;
  left?(tenant: string): void;
  /** A session begins, with what the tenant's API server proves itself with. One of a tenant may follow another. */
  serving?(session: TenantSession, authorities: ClientAuthorities | undefined): void;
  /** The tenant with this UID is let go of, from this moment. May be told twice. */
  leaving?(uid: string): void;
  /** What the pods of the tenant with this UID use now; undefined where nothing says so. */
  used?(uid: string, signal: AbortSignal): Promise<UsedResources | undefined>;
  /** The same of one that has no session, by its pods in the super cluster. */
  usedUnjoined?(
    uid: string,
    pods: readonly KubeObject[],
    signal: AbortSignal,
  ): Promise<UsedResources | undefined>;
}

interface Served {
  readonly vc: { namespace: string; name: string; uid: string };
  readonly stop: AbortController;
  session: TenantSession | undefined;
  /** The VirtualCluster as last seen. */
  latest: VirtualCluster;
  /** Looks at the credentials now instead of at their time. */
  recheck?: () => void;
  /** Tries a tenant again that waits, if what it waits for has changed. */
  retry?: () => void;
  /** This thread was stuck in work for it: the note of that stays for the next replica. */
  isSuspect: boolean;
  /** How often since it was last proven to be none. */
  timesStuck: number;
  /** Ends the session that serves it. */
  letGo?: () => void;
  /** Aborted when it begins anew. */
  probation?: AbortController;
  /** Resolves when all work for this tenant has ended. */
  ended: Promise<void>;
}

/** A session that has failed is tried again after the first of these, and ever more rarely. */
const restartMs = { first: 2_000, longest: 60_000 };
/** A tenant that takes too much memory is tried again after the first of these, and ever more rarely. */
const holdMs = { first: 30_000, longest: 10 * 60_000 };
/** A session that lasted this long has proven that there was room. */
const calmMs = 30 * 60_000;
const credentialsEveryMs = 60_000;

/** One join: from the tenant's turn until its session ends. */
interface Join {
  /** To be called when the caches are complete. */
  joined(): void;
  /** To be awaited when the session has ended. */
  end(): Promise<void>;
}

/** A join this long ago delays no other. */
const nextMayJoinMs = { usual: 10_000, suspect: 30_000 };
/** A join this long ago has not brought the replica down. One that is known to have done so, perhaps, takes longer. */
const provenMs = { usual: 30_000, suspect: 10 * 60_000 };
/** A join that takes longer gives its turn to the next one; its API server does not answer, perhaps. */
const longestTurnMs = 60_000;
const lastWriteMs = 3_000;

/** What changes when the operator or the manager has mended what a session needs. The rest of a VirtualCluster changes all the time. */
function circumstancesOf({ metadata, status }: VirtualCluster): string {
  return JSON.stringify([
    metadata.generation,
    status?.phase,
    status?.endpoint,
    status?.syncerSecret?.version,
  ]);
}

function cannotServe(error: unknown): SyncerCondition {
  const why = error instanceof Error ? error.message : String(error);
  return notSynced('CannotServe', `this tenant is not served: ${why}`);
}

/** An eighth of the heap; fewer bytes are too few for a page of each of some twenty tenants. */
function readMemoryBytes(): number {
  return Math.max(128 * 1024 * 1024, getHeapStatistics().heap_size_limit / 8);
}

/** Which tenants this syncer serves: follows the VirtualClusters and runs a session for each that is ready. */
export class TenantDirectory {
  readonly #options: DirectoryOptions;
  readonly #store = new Store<VirtualCluster>({ indexes: { uid: ({ metadata }) => [metadata.uid ?? ''] } });
  readonly #served = new Map<string, Served>();
  readonly #status: StatusWriter;
  readonly #events: EventRecorder;
  readonly #order: JoinOrder;
  readonly #memory: SharedCacheBudget;
  /** Of what is measured, which goes by no other clock. */
  readonly #readTime = new SharedReadTime(systemClock);
  readonly #readMemory = new SharedReadMemory(readMemoryBytes());
  #running: AbortSignal | undefined;

  constructor(options: DirectoryOptions) {
    this.#options = options;
    this.#order = new JoinOrder(options.clock);
    this.#memory = new SharedCacheBudget(() => options.settings().totalCacheMiB * 1024 * 1024);
    this.#status = new StatusWriter(
      options.superClient,
      () => options.clock.now(),
      (ref) => this.#store.get(ref),
    );
    this.#events = new EventRecorder(options.superClient, () => options.clock.now());
  }

  get size(): number {
    return this.#served.size;
  }

  /** When authorities and certificates of the tenants that are served expire. */
  *expiries(): Iterable<{ tenant: string; kind: string; atMs: number }> {
    for (const { latest } of this.#served.values()) {
      const tenant = namespacedName(latest.metadata);
      for (const { kind, expires } of latest.status?.certificates ?? [])
        yield { tenant, kind, atMs: Date.parse(expires) };
    }
  }

  /** The session that serves the VirtualCluster with this UID, if one does. */
  session(uid: string): TenantSession | undefined {
    return this.#served.get(uid)?.session;
  }

  /** The VirtualCluster with this UID, if it is served. */
  suspect(uid: string): Suspect | undefined {
    return this.#served.get(uid)?.vc;
  }

  /** The VirtualCluster whose objects take more memory than those of all others together, if that is at least so much. */
  largest(atLeastBytes: number): Suspect | undefined {
    const uid = this.#memory.largest(atLeastBytes)?.uid;
    return uid === undefined ? undefined : this.suspect(uid);
  }

  /** Whether the objects of the VirtualCluster with this UID take at least so much memory. */
  fills(uid: string, atLeastBytes: number): boolean {
    return this.#memory.fills(uid, atLeastBytes);
  }

  /**
   * This thread was stuck in work for a tenant, and that was noted: the tenant is let go of, and joins last and alone. It is
   * forgotten when the tenant goes on quietly.
   */
  noted({ uid, namespace, name }: Suspect): void {
    const served = this.#served.get(uid);
    const warn =
      'was stuck in work for this tenant; it is let go of and joins last, here and at the next replica';
    this.#options.logger.warn({ tenant: `${namespace}/${name}` }, warn);
    if (served === undefined) return;
    served.isSuspect = true;
    served.timesStuck += 1;
    served.letGo?.();
    served.probation?.abort();
    const probation = new AbortController();
    served.probation = probation;
    void this.#status.forgetAttempts(uid);
    const { signal } = served.stop;
    // Noted once more, it is on probation for as long from then.
    this.#options.clock.sleep(provenMs.suspect, AbortSignal.any([signal, probation.signal])).then(
      async () => {
        served.isSuspect = false;
        served.timesStuck = 0;
        await this.#noteAttempts(served, undefined, signal);
      },
      () => undefined,
    );
  }

  /** Applies changed settings to every tenant. */
  reconsider(): void {
    if (this.#running !== undefined) void this.#reconsider(this.#running);
  }

  async run(signal: AbortSignal): Promise<void> {
    const { superClient, clock, logger } = this.#options;
    this.#running = signal;
    const isSleeper = (vc: VirtualCluster): boolean => isAsleep(vc) && this.#options.gate.serves(vc);
    const sleepers = (): VirtualCluster[] => [...this.#store.list()].filter(isSleeper);
    const wakeOnExpiry = new WakeOnExpiry({
      ...{ ...this.#options, sleepers },
      onError: (vc, error) =>
        this.#warn(vc, error, 'cannot wake this tenant, of which a token is about to end'),
    });
    const wakeOnLoss = new WakeOnLoss({
      ...{ ...this.#options, sleepers },
      isSleeper: (uid) => this.#store.byIndex('uid', uid).some(isSleeper),
      onError: (vc, error) => this.#warn(vc, error, 'cannot wake this tenant, which has lost a pod'),
    });
    const unsubscribe = this.#store.subscribe((event) => {
      if (reflector.hasSynced) this.#options.gate.see(this.#store.list());
      if (event.type === 'deleted') {
        this.#options.engine.release(event.object.metadata.uid ?? '');
        this.#leave(event.object, signal);
      } else this.#consider(event.object, signal);
      if (!isAsleep(event.object)) return;
      wakeOnExpiry.sleepersChanged();
      wakeOnLoss.sleepersChanged();
    });
    const unsubscribeGate = this.#options.gate.subscribe(() => {
      wakeOnExpiry.sleepersChanged();
      wakeOnLoss.gateChanged();
      return this.#reconsider(signal);
    });
    const unjoinedTenantUsage = new UnjoinedTenantUsage({
      ...this.#options,
      virtualClusters: () => this.#store.list(),
      isUnjoined: (vc) =>
        isHeldToPolicy(vc) &&
        this.#options.gate.serves(vc) &&
        this.session(vc.metadata.uid ?? '')?.isJoined !== true,
      used: async (...pods) => this.#options.hooks?.usedUnjoined?.(...pods),
      status: this.#status,
      onError: (vc, error) =>
        this.#warn(vc, error, 'cannot read what pods of this tenant use, which has not joined'),
    });
    const reflector = new Reflector<VirtualCluster>({
      client: superClient,
      resource: resources.virtualClusters,
      store: this.#store,
      clock,
      onProblem: (problem) =>
        logger.warn({ err: problem.error, phase: problem.phase }, 'cannot follow VirtualClusters'),
    });
    reflector.synced(signal).then(
      () => this.#options.gate.see(this.#store.list()),
      () => undefined,
    );
    try {
      await Promise.all([
        reflector.run(signal),
        wakeOnExpiry.run(signal),
        wakeOnLoss.run(signal),
        unjoinedTenantUsage.run(signal),
      ]);
    } finally {
      unsubscribe();
      unsubscribeGate();
      const ending = [...this.#served.values()];
      for (const served of ending) served.stop.abort(signal.reason);
      await Promise.all(ending.map((served) => served.ended));
    }
  }

  /** Call it after the gate has changed; resolves when no tenant is served any more that is not ours. */
  async #reconsider(signal: AbortSignal): Promise<void> {
    if (signal.aborted) return;
    for (const vc of [...this.#store.list()]) this.#consider(vc, signal);
    const leaving = [...this.#served.values()].filter(({ stop }) => stop.signal.aborted);
    await Promise.all(leaving.map(({ ended }) => ended));
  }

  #consider(vc: VirtualCluster, signal: AbortSignal): void {
    const uid = vc.metadata.uid ?? '';
    const served = this.#served.get(uid);
    this.#holdToPolicy(vc);
    if (!this.#isOurs(vc)) {
      if (served !== undefined) this.#leave(vc, signal);
      else if (isWaitingForSyncer(vc) && this.#options.gate.serves(vc)) this.#tellLeft(vc, signal);
      return;
    }
    if (served === undefined) {
      this.#join(vc, signal);
      return;
    }
    const version = served.latest.status?.syncerSecret?.version;
    served.latest = vc;
    served.retry?.();
    if (vc.status?.syncerSecret?.version !== version) served.recheck?.();
    // On its way out: it is looked at again when it is out.
    if (served.stop.signal.aborted) return;
    served.session?.update(vc, served.stop.signal).catch((error: unknown) => {
      if (!served.stop.signal.aborted) this.#warn(vc, error, 'cannot take over changed settings');
    });
  }

  /** Whether it is served or not: a tenant decides itself when it sleeps, and what its API server answers. */
  #holdToPolicy(vc: VirtualCluster): void {
    const { engine } = this.#options;
    if (!isHeldToPolicy(vc) || !this.#options.gate.serves(vc)) {
      engine.release(vc.metadata.uid ?? '');
      return;
    }
    const settings = this.#options.settings();
    // What is taken away from one that is asleep stays away until it is awake: not for want of knowledge.
    if (settings.isSuperClusterUnknown === true) return;
    const info = tenantInfo(vc, settings, this.#options.gate.seesAll);
    engine.holdToPolicy(info, vc.status?.identities?.superCluster);
  }

  #join(vc: VirtualCluster, signal: AbortSignal): void {
    const { namespace = '', name = '', uid = '' } = vc.metadata;
    const stop = new AbortController();
    if (signal.aborted) return;
    const served: Served = {
      vc: { namespace, name, uid },
      stop,
      session: undefined,
      latest: vc,
      isSuspect: false,
      timesStuck: 0,
      ended: Promise.resolve(),
    };
    this.#served.set(uid, served);
    this.#options.hooks?.joined?.(`${namespace}/${name}`);
    const serve = (): Promise<void> => this.#serve(served);
    const { atWork } = this.#options;
    served.ended = (atWork === undefined ? serve() : atWork.run(uid, serve)).finally(() => {
      this.#served.delete(uid);
      this.#status.forget(uid);
      this.#options.hooks?.leaving?.(uid);
      // One that was made anew under this name has taken over what is kept by name.
      const others = [...this.#served.values()].map(({ vc: other }) => namespacedName(other));
      if (!others.includes(`${namespace}/${name}`)) this.#options.hooks?.left?.(`${namespace}/${name}`);
    });
  }

  /** One session after another until told to stop: a session ends when credentials change or something breaks. */
  async #serve(served: Served): Promise<void> {
    const { superClient, systemNamespace, clock } = this.#options;
    const { signal } = served.stop;
    let nextHoldMs = holdMs.first;
    let attempts: number | undefined;
    /** Since it last joined. */
    let failures = 0;
    let nextPauseMs = restartMs.first;
    let reported = '';
    while (!signal.aborted) {
      const startedAt = clock.monotonic();
      const circumstances = circumstancesOf(served.latest);
      try {
        const credentials = await readCredentials(superClient, systemNamespace, served.latest, signal);
        if (served.timesStuck > 0) attempts = crashesUntilJoinsLast + served.timesStuck - 1;
        attempts ??= await this.#attemptsBefore(served);
        const join = await this.#beginJoin(served, attempts, () => {
          attempts = 0;
        });
        try {
          await this.#runSession(served, credentials, () => {
            failures = 0;
            nextPauseMs = restartMs.first;
            reported = '';
            join.joined();
          });
        } finally {
          await join.end();
        }
      } catch (error) {
        if (signal.aborted) return;
        if (error instanceof CacheLimitExceeded) {
          if (clock.monotonic() - startedAt > calmMs) nextHoldMs = holdMs.first;
          await this.#hold(served, error, nextHoldMs);
          nextHoldMs = Math.min(2 * nextHoldMs, holdMs.longest);
          continue;
        }
        this.#warn(served.latest, error, 'cannot serve this tenant; trying again');
        failures += 1;
        // Credentials that are just being renewed are there the next time.
        if (failures > 1) {
          const condition = cannotServe(error);
          await this.#report(served, condition, { asEvent: condition.message !== reported });
          reported = condition.message;
        }
        const hasChanged = await this.#pause(
          served,
          nextPauseMs,
          () => circumstancesOf(served.latest) !== circumstances,
        );
        nextPauseMs = hasChanged ? restartMs.first : Math.min(2 * nextPauseMs, restartMs.longest);
      }
    }
  }

  /** Until the time is over, or true as soon as an update of the VirtualCluster or of settings makes it so. */
  async #pause(served: Served, ms: number, hasChanged: () => boolean): Promise<boolean> {
    const now = new AbortController();
    served.retry = () => {
      if (hasChanged()) now.abort();
    };
    served.retry();
    const ending = AbortSignal.any([served.stop.signal, now.signal]);
    await this.#options.clock.sleep(ms, ending).catch(() => undefined);
    delete served.retry;
    return now.signal.aborted;
  }

  /** Joins of replicas that have died: this one ends its own in order. The cache may not show yet that others did. */
  async #attemptsBefore({ latest, stop: { signal } }: Served): Promise<number> {
    if ((latest.status?.joinAttempts ?? 0) === 0) return 0;
    const { namespace, name = '' } = latest.metadata;
    const { superClient } = this.#options;
    const live = await superClient.get<VirtualCluster>(
      resources.virtualClusters,
      { namespace, name },
      { signal },
    );
    return live.status?.joinAttempts ?? 0;
  }

  /**
   * Waits for the turn of a tenant, and says on its VirtualCluster that it joins: what is left of that when a replica
   * has died, the next one sees.
   */
  async #beginJoin(served: Served, attempts: number, onProven: () => void): Promise<Join> {
    const { clock } = this.#options;
    const { signal } = served.stop;
    if (attempts > 0) await this.#sayWaiting(served, attempts);
    const endTurn = await this.#order.turn(attempts, signal);
    const ended = new AbortController();
    const after = (ms: number, act: () => unknown): void =>
      void clock.sleep(ms, ended.signal).then(act, () => undefined);
    const kind = attempts < crashesUntilJoinsLast ? 'usual' : 'suspect';
    let isProven = false;
    await this.#noteAttempts(served, attempts + 1, signal);
    after(longestTurnMs, endTurn);
    return {
      joined: () => {
        if (kind === 'usual') onProven();
        after(nextMayJoinMs[kind], endTurn);
        after(provenMs[kind], () => {
          isProven = true;
          onProven();
          return this.#noteAttempts(served, undefined, ended.signal);
        });
      },
      end: async () => {
        ended.abort(new Error('the session has ended'));
        endTurn();
        const left = isProven || attempts === 0 ? undefined : attempts;
        await this.#noteAttempts(served, left, AbortSignal.timeout(lastWriteMs));
      },
    };
  }

  async #noteAttempts(served: Served, count: number | undefined, signal: AbortSignal): Promise<void> {
    const { uid, ...ref } = served.vc;
    if (served.isSuspect) return;
    await this.#status.joinAttempts(ref, uid, count, signal).catch((error: unknown) => {
      if (!signal.aborted) this.#warn(served.latest, error, 'cannot note that this tenant joins');
    });
  }

  async #sayWaiting(served: Served, attempts: number): Promise<void> {
    const why =
      served.timesStuck > 0
        ? 'the syncer was stuck in work for this tenant and has let go of it'
        : `a syncer died ${attempts === 1 ? 'once' : `${attempts} times in a row`} while it took this tenant up, or soon after`;
    const message = `${why}; it joins after all others`;
    this.#warn(served.latest, undefined, message);
    await this.#report(served, notSynced('JoinsLast', message));
  }

  /** A condition of the VirtualCluster, and an event on it, which stays when the condition has changed. */
  async #report(
    { vc: { uid, ...ref }, latest, stop: { signal } }: Served,
    condition: SyncerCondition,
    { asEvent = true } = {},
  ): Promise<void> {
    const { reason, message } = condition;
    const notice = { type: 'Warning', reason, message } as const;
    const written = await Promise.allSettled([
      this.#status.condition(ref, uid, condition, signal),
      ...(asEvent ? [this.#events.record(resources.virtualClusters, latest, notice, signal)] : []),
    ]);
    for (const each of written)
      if (each.status === 'rejected' && !signal.aborted)
        this.#warn(latest, each.reason, `cannot report ${reason}`);
  }

  /** Stops to serve a tenant that takes too much memory, until it may take more or some time has passed. */
  async #hold(served: Served, error: CacheLimitExceeded, ms: number): Promise<void> {
    const { hooks, settings } = this.#options;
    const { uid, ...ref } = served.vc;
    hooks?.leaving?.(uid);
    hooks?.held?.(namespacedName(ref));
    this.#warn(served.latest, error, 'this tenant takes too much memory and is let go of for a time');
    await this.#report(served, notSynced('CacheLimitExceeded', error.message));
    await this.#pause(served, ms, () => cacheLimitBytes(served.latest, settings()) > error.limitBytes);
  }

  async #runSession(
    served: Served,
    credentials: Awaited<ReturnType<typeof readCredentials>>,
    onJoined: () => void,
  ): Promise<void> {
    const { hooks } = this.#options;
    const tenant = namespacedName(served.vc);
    const session = new TenantSession({
      ...this.#options,
      vc: served.latest,
      seesAll: () => this.#options.gate.seesAll,
      credentials,
      status: this.#status,
      memory: this.#memory,
      readTime: this.#readTime,
      readMemory: this.#readMemory,
      onJoined,
      onCall: (call) => hooks?.call?.(tenant, call),
      onReadAborted: () => hooks?.readAborted?.(tenant),
      onReflectorProblem: (kind, phase) => hooks?.reflectorProblem?.(tenant, kind, phase),
      onResync: (findings) => hooks?.resync?.(tenant, findings),
      used: async (within) => hooks?.used?.(served.vc.uid, within),
    });
    served.session = session;
    if (!served.stop.signal.aborted) hooks?.serving?.(session, credentials.authorities);
    const { controller: ending, release } = linkedController(served.stop.signal);
    const renewed = this.#untilRenewed(served, credentials.version, ending.signal).finally(() =>
      ending.abort(new Error('credentials changed')),
    );
    served.letGo = () => {
      hooks?.leaving?.(served.vc.uid);
      ending.abort(new Error('the syncer was stuck in work for this tenant'));
    };
    try {
      await session.run(ending.signal);
    } finally {
      delete served.letGo;
      served.session = undefined;
      ending.abort(new Error('session ended'));
      release();
      await renewed;
    }
  }

  /** Resolves when the Secret holds other credentials than these, or when aborted. */
  async #untilRenewed(served: Served, version: string, signal: AbortSignal): Promise<void> {
    const { superClient, systemNamespace, clock } = this.#options;
    while (!signal.aborted) {
      try {
        const now = new AbortController();
        served.recheck = () => now.abort();
        await clock.sleep(credentialsEveryMs, AbortSignal.any([signal, now.signal])).catch(() => undefined);
        signal.throwIfAborted();
        const credentials = await readCredentials(superClient, systemNamespace, served.latest, signal);
        if (credentials.version !== version) return;
      } catch (error) {
        if (!signal.aborted) this.#warn(served.latest, error, 'cannot read the credentials of this tenant');
      }
    }
  }

  #isOurs(vc: VirtualCluster): boolean {
    return isServed(vc) && this.#options.gate.serves(vc);
  }

  /** Ends a tenant's session. One that is on its way out is said to be left; another replica's goes on there. */
  #leave(vc: VirtualCluster, signal: AbortSignal): void {
    const served = this.#served.get(vc.metadata.uid ?? '');
    if (served === undefined || served.stop.signal.aborted) return;
    served.stop.abort(new Error('tenant left'));
    this.#options.hooks?.leaving?.(served.vc.uid);
    served.ended
      .then(() => (isServed(vc) ? undefined : this.#sayLeft(vc, signal)))
      .catch((error: unknown) => this.#warn(vc, error, 'cannot report that the tenant was left'))
      .finally(() => {
        const { namespace, name, uid } = served.vc;
        const now = this.#store.get({ namespace, name });
        // One that was left for another replica may be on its way out by now, and its Left is still to be said.
        if (now?.metadata.uid === uid && (this.#isOurs(now) || isServed(vc))) this.#consider(now, signal);
      });
  }

  /** The manager waits for a syncer to leave this tenant, and none serves it: this replica is the one that would. */
  #tellLeft(vc: VirtualCluster, signal: AbortSignal): void {
    this.#sayLeft(vc, signal).catch((error: unknown) =>
      this.#warn(vc, error, 'cannot report that no syncer serves the tenant'),
    );
  }

  /** Tells the manager, which waits for that before it takes things away. */
  async #sayLeft({ metadata }: VirtualCluster, signal: AbortSignal): Promise<void> {
    const { namespace, name = '', uid = '' } = metadata;
    const left = notSynced(leftReason, 'the syncer has let go of this tenant');
    await this.#status.condition({ namespace, name }, uid, left, signal);
    if (!this.#served.has(uid)) this.#status.forget(uid);
  }

  #warn(vc: VirtualCluster, error: unknown, message: string): void {
    this.#options.logger.warn({ tenant: namespacedName(vc.metadata), err: error }, message);
  }
}
