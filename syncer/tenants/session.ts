import { weightOf } from '../../api/tenant-state.ts';
import type { VirtualCluster } from '../../api/virtual-cluster.ts';
import {
  type CallRecord,
  type Clock,
  Connection,
  KubeClient,
  linkedController,
  onAbort,
  Reflector,
  type Store,
} from '../../kube/index.ts';
import type { SharedReadTime } from '../../program/read-time.ts';
import { type CustomResourceInformers, TenantCustomResources } from '../controllers/custom-resources.ts';
import type { SyncEngine } from '../engine.ts';
import type { SyncedKind } from '../kinds/contract.ts';
import { hasKnownFields } from '../kinds/registry.ts';
import { Caches } from '../reconcile/caches.ts';
import type { IdentityGuard } from '../reconcile/guards.ts';
import { type DriftCount, relistInTurn, runPeriodically } from '../reconcile/resync.ts';
import { TenantState } from '../reconcile/tenant-state.ts';
import { CacheBudget, type SharedCacheBudget } from './cache-budget.ts';
import type { Credentials } from './credentials.ts';
import { DeletionFreeze, MassDeletionHolds, SuperClusterVersionRecord } from './deletion-holds.ts';
import { CallHealth, Health } from './health.ts';
import type { SharedReadMemory } from './read-memory.ts';
import type { StatusWriter, UsedResources } from './status-writer.ts';
import { cacheLimitBytes, type SyncerSettings, tenantInfo } from './tenant-info.ts';

export interface SessionLogger {
  info(fields: object, message: string): void;
  warn(fields: object, message: string): void;
}

interface SessionOptions {
  vc: VirtualCluster;
  credentials: Credentials;
  settings: () => SyncerSettings;
  kinds: readonly SyncedKind[];
  engine: SyncEngine;
  superCaches: Caches;
  /** Custom resources of the super cluster. */
  customResources: CustomResourceInformers;
  superIdentity: IdentityGuard;
  superClient: KubeClient;
  status: StatusWriter;
  clock: Clock;
  logger: SessionLogger;
  /** Whether the caches of the super cluster hold the objects of all tenants, of all replicas. */
  seesAll: () => boolean;
  /** How much memory all tenants may take. */
  memory: SharedCacheBudget;
  /** How much of the thread's time reading from all tenants may take. */
  readTime: SharedReadTime;
  /** How much memory all tenants may take by what is being read. */
  readMemory: SharedReadMemory;
  /** Called before each write to the tenant; what it throws keeps the write from being sent. */
  beforeWrite?: () => void;
  onCall?: (call: CallRecord) => void;
  /** What its pods use now; undefined where nothing says so. */
  used?: (signal: AbortSignal) => Promise<UsedResources | undefined>;
  /** Everything that the tenant has is in the caches, and the engine has begun with it. */
  onJoined?: () => void;
  /** Reading an answer or event was ended for the memory that it took. */
  onReadAborted?: () => void;
  onReflectorProblem?: (kind: string, phase: string) => void;
  /** What one comparison of both sides has found. */
  onResync?: (findings: readonly DriftCount[]) => void;
  /** 0 to 1; default Math.random. */
  random?: () => number;
}

/**
 * What a tenant's API server sends is the tenant's invention: JSON may take twenty times its size in memory, and all of an
 * answer is parsed in one turn of this thread. That of a page takes no longer than that of one object.
 */
const pageBytes = 4 * 1024 * 1024;
/** Honest pages are far from it, so that few are asked for twice. */
const pageSize = 100;
/** Of a list, where the objects of the tenant may not take more. */
const listBytes = 256 * 1024 * 1024;
/** Of one object: an API server stores 1.5 MiB, which even without names are fewer. */
const objectValues = 200_000;
/** Of an answer: one object, and what is around it. */
const answerValues = objectValues + 1_000;
const resyncEveryMs = 60_000;
/** A tenant whose server is not ready is not compared; beyond so many dependents they are dropped, and all its keys queued. */
const maxWaiting = 10_000;
/** Whoever may edit the settings of a tenant may do so without end, and each time all that it has is looked at. */
const requeueEveryMs = 2_000;
/** One kind each time, in turns. */
const listAfreshEveryMs = 5 * 60_000;

/** Serves one tenant: its caches, its place in the engine, its health. Ends with its signal. */
export class TenantSession {
  readonly state: TenantState;
  readonly #options: SessionOptions;
  readonly #connection: Connection;
  readonly #freeze: DeletionFreeze;
  readonly #holds: MassDeletionHolds;
  readonly #custom: TenantCustomResources;
  readonly #ref: { namespace: string; name: string };
  readonly #health: Health;
  readonly #calls: CallHealth;
  readonly #budget: CacheBudget;
  /** Ends what is under way, because the tenant takes more memory than it may. */
  readonly #exceeded = new AbortController();
  #vc: VirtualCluster;
  #joined = false;
  #hasEnded = false;
  /** Everything is to be looked at again, and when that was done last is not long ago. */
  #mustRequeue = false;
  #isRequeueing = false;
  readonly #hasJoined = Promise.withResolvers<void>();

  constructor(options: SessionOptions) {
    this.#options = options;
    this.#vc = options.vc;
    const info = tenantInfo(options.vc, options.settings(), options.seesAll());
    this.#ref = { namespace: info.namespace, name: info.name };
    this.#calls = new CallHealth(() => options.clock.monotonic());
    const readTime = options.readTime.tenant();
    this.#connection = new Connection({
      ...options.credentials.connection,
      userAgent: 'vc-syncer',
      // There are many tenants, and most answer within milliseconds.
      callsWhenNear: 4,
      maxConnections: 16,
      readLimits: {
        pageBytes,
        answerValues,
        objectValues,
        listBytes: Math.max(listBytes, cacheLimitBytes(options.vc, options.settings())),
      },
      meter: readTime.lists,
      answerMeter: readTime.answers,
      readMemory: options.readMemory.tenant(options.onReadAborted),
      onCall: (call) => {
        this.#calls.called(call);
        options.onCall?.(call);
      },
      beforeWrite: options.beforeWrite,
    });
    const caches = new Caches(options.kinds, 'tenant', [], () => this.#budget.grown());
    this.#budget = new CacheBudget({
      uid: info.uid,
      limitBytes: () => cacheLimitBytes(this.#vc, options.settings()),
      cachedBytes: () => caches.bytes,
      shared: options.memory,
      onExceeded: (error) => this.#exceeded.abort(error),
    });
    this.state = new TenantState({
      info,
      client: new KubeClient(this.#connection),
      caches,
      superCaches: options.superCaches,
      identity: options.vc.status?.identities?.tenant,
      superIdentity: options.vc.status?.identities?.superCluster,
      nowMs: () => options.clock.now(),
    });
    const watched = {
      state: this.state,
      status: options.status,
      vc: options.vc,
      requeue: () => this.#joined && options.engine.requeue(this.state),
    };
    const { superIdentity, superClient } = options;
    const versionRecord = new SuperClusterVersionRecord(this.state.client, superClient, superIdentity);
    this.#freeze = new DeletionFreeze({ ...watched, superIdentity, versionRecord });
    this.#holds = new MassDeletionHolds(watched);
    this.#custom = new TenantCustomResources({
      state: this.state,
      engine: options.engine,
      informers: options.customResources,
      superCaches: options.superCaches,
      reflector: (kind, store) => this.#reflector(kind, store),
      nowMs: () => options.clock.monotonic(),
    });
    this.#health = new Health({
      ...options,
      state: this.state,
      freeze: this.#freeze,
      holds: this.#holds,
      custom: this.#custom,
      calls: this.#calls,
      latest: () => this.#vc,
      isJoined: () => this.#joined,
    });
  }

  /** Throws CacheLimitExceeded when the tenant takes more memory than it may. */
  async run(signal: AbortSignal): Promise<void> {
    const { engine, logger } = this.#options;
    const { controller: ending, release } = linkedController(signal);
    const exceeded = this.#exceeded.signal;
    const forget = onAbort(exceeded, () => ending.abort(exceeded.reason));
    const reflectors = this.#reflectors();
    const running = reflectors.map((reflector) => reflector.run(ending.signal));
    try {
      const watching = [this.#health.watch(ending.signal), ...this.#resync(reflectors, ending.signal)];
      const complete = reflectors.map((reflector) => reflector.synced(ending.signal));
      const syncing = Promise.all([...complete, this.#restoreKnown(ending.signal)]).then(async () => {
        ending.signal.throwIfAborted();
        await this.#health.markJoining(ending.signal);
        await this.#freeze.checkSuperClusterVersionRecord(ending.signal);
        ending.signal.throwIfAborted();
        engine.join(this.state, weightOf(this.#vc));
        this.#joined = true;
        this.#hasJoined.resolve();
        running.push(this.#custom.run(ending.signal));
        logger.info({ tenant: this.#name }, 'tenant joined');
        this.#options.onJoined?.();
        return this.#health.check(ending.signal);
      });
      await Promise.all([syncing, ...watching]);
    } catch (error) {
      if (!ending.signal.aborted) throw error;
    } finally {
      this.#hasEnded = true;
      ending.abort(new Error('session ended'));
      engine.leave(this.state.info.uid);
      release();
      forget();
      await Promise.all(running);
      await this.#connection.close();
      this.#budget.close();
      logger.info({ tenant: this.#name }, 'tenant left');
    }
    if (exceeded.aborted && !signal.aborted) throw exceeded.reason;
  }

  /** Takes over changed settings and reads the operator's answers. */
  async update(vc: VirtualCluster, signal: AbortSignal): Promise<void> {
    const { engine, settings, seesAll } = this.#options;
    this.#vc = vc;
    const info = tenantInfo(vc, settings(), seesAll());
    // Settings that are the same stay the same object, by which others know that nothing has changed.
    const hasChanged = JSON.stringify(info) !== JSON.stringify(this.state.info);
    if (hasChanged) this.state.updateInfo(info);
    if (this.#joined) {
      engine.setWeight(this.state.info.uid, weightOf(vc));
      this.#custom.reconcile();
      if (hasChanged) void this.#requeue(signal);
    }
    await this.#freeze.answer(vc, signal);
    await this.#holds.answer(vc, signal);
  }

  /** At once, or when it has rested since the last time. */
  async #requeue(signal: AbortSignal): Promise<void> {
    const { engine, clock, logger } = this.#options;
    this.#mustRequeue = true;
    if (this.#isRequeueing) return;
    this.#isRequeueing = true;
    try {
      while (this.#mustRequeue && !this.#hasEnded) {
        this.#mustRequeue = false;
        engine.requeue(this.state);
        await clock.sleep(requeueEveryMs, signal);
      }
    } catch (error) {
      if (!signal.aborted)
        logger.warn({ tenant: this.#name, err: error }, 'cannot take over changed settings');
    } finally {
      this.#isRequeueing = false;
    }
  }

  /** Whether the caches of this tenant hold all that it has. */
  get isJoined(): boolean {
    return this.#joined;
  }

  /** Resolves when they do; never, if the session ends before. */
  get joined(): Promise<void> {
    return this.#hasJoined.promise;
  }

  mismatch(side: 'tenant' | 'super'): Promise<void> {
    return this.#freeze.mismatch(side);
  }

  held(): Promise<void> {
    return this.#holds.say();
  }

  get #name(): string {
    return `${this.#ref.namespace}/${this.#ref.name}`;
  }

  /** What is not remembered is only done once more. */
  async #restoreKnown(signal: AbortSignal): Promise<void> {
    try {
      await this.#options.engine.loadEventCopies(this.state, signal, () => this.#budget.list());
    } catch (error) {
      if (!signal.aborted)
        this.#options.logger.warn(
          { tenant: this.#name, err: error },
          'cannot read the events of this tenant',
        );
    }
  }

  #reflectors(): Reflector[] {
    return this.#options.kinds
      .filter((kind) => kind.direction === 'up' || kind.isSecondCopy !== true)
      .map((kind) => this.#reflector(kind, this.state.caches.store(kind.resource)));
  }

  #reflector(kind: SyncedKind, store: Store): Reflector {
    const { logger, clock } = this.#options;
    return new Reflector({
      client: this.state.client,
      resource: kind.resource,
      store,
      clock,
      streamedStart: true,
      pageSize,
      cutManagedFields: hasKnownFields(kind),
      metadataOnly: kind.direction === 'down' && kind.payload !== undefined,
      labelSelector: kind.selector?.tenant,
      meterList: () => this.#budget.list(),
      beforeReplace: (_objects, version, signal) => this.#freeze.checkList(kind.resource, version, signal),
      onResourceVersion: (version) => {
        this.#calls.succeeded(`follow ${kind.name}`);
        this.#freeze.observeVersion(kind.resource, version);
      },
      onProblem: ({ phase, error, failures }) => {
        this.#options.onReflectorProblem?.(kind.name, phase);
        this.#calls.failed(`follow ${kind.name}`, error instanceof Error ? error.message : String(error));
        const fields = { tenant: this.#name, kind: kind.name, phase, err: error, failures };
        logger.warn(fields, 'cannot follow the tenant');
      },
    });
  }

  /** Until aborted. While all is well: do both sides agree, and do the caches agree with the server. */
  #resync(reflectors: readonly Reflector[], signal: AbortSignal): Promise<void>[] {
    const { clock, random = Math.random } = this.#options;
    const listAfresh = relistInTurn(() => [...reflectors, ...this.#custom.reflectors], random);
    return [
      runPeriodically({ everyMs: resyncEveryMs, clock, random }, signal, () => this.#compare()),
      runPeriodically({ everyMs: resyncEveryMs, clock, random }, signal, () => this.#forget()),
      runPeriodically({ everyMs: listAfreshEveryMs, clock, random }, signal, () => {
        if (this.#joined && this.#health.isWell) listAfresh();
      }),
    ];
  }

  /** Whatever the tenant's server says of itself: what is remembered is bounded by this. */
  #forget(): void {
    const { state } = this;
    state.prune();
    if (!this.#joined || state.dependents.waiting <= maxWaiting) return;
    state.dependents.clear();
    this.#options.engine.requeue(state);
  }

  async #compare(): Promise<void> {
    const { engine, logger } = this.#options;
    if (!this.#joined) return;
    if (!this.#health.isWell) {
      engine.checkPolicy(this.state);
      return;
    }
    try {
      this.#options.onResync?.(await engine.resync(this.state));
    } catch (error) {
      logger.warn({ tenant: this.#name, err: error }, 'resync failed');
    }
  }
}
