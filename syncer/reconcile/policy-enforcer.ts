import {
  type Clock,
  Connection,
  KubeClient,
  type KubeObject,
  onAbort,
  runTogether,
  type StoreEvent,
  Wakeup,
} from '../../kube/index.ts';
import type { KeyRef, TenantInfo } from '../context.ts';
import type { DownKind, SyncedKind } from '../kinds/contract.ts';
import { tenantUidOf } from '../mapping/labels.ts';
import type { CurrentTenant } from '../watchdog/watchdog.ts';
import { FairQueue } from '../workqueue/fair-queue.ts';
import type { Outcome as QueueOutcome } from '../workqueue/options.ts';
import { QueueRunner } from '../workqueue/runner.ts';
import { Caches } from './caches.ts';
import { type Outcome, queueOutcome } from './controller.ts';
import { downKeyOf, keyId, type SyncKey } from './keys.ts';
import { runPeriodically } from './resync.ts';
import { isBound, sameKeys } from './router.ts';
import { TenantState } from './tenant-state.ts';

interface PolicyEnforcerOptions {
  kinds: readonly SyncedKind[];
  superCaches: Caches;
  clock: Clock;
  /** All that a tenant has in the super cluster and that policy may demand something of. */
  keysOf: (tenant: TenantState) => Iterable<KeyRef>;
  /** The same of what goes by the tenant's settings and itself alone, and queues itself when it changes: not looked at in rounds. */
  settledKeysOf: (tenant: TenantState) => Iterable<KeyRef>;
  /** Whether it does, by the caches of the super cluster; may throw. */
  isDemanded: (tenant: TenantState, key: KeyRef) => boolean;
  /** Does it, and nothing else. Rejects only when aborted, with the signal's reason. */
  enforce: (tenant: TenantState, key: KeyRef, signal: AbortSignal) => Promise<Outcome>;
  /** Whether this is the state of a tenant that has joined now. */
  isJoined: (tenant: TenantState) => boolean;
  /** Queues a key of a tenant that has joined. */
  enqueueJoined: (tenant: TenantState, key: KeyRef) => void;
  onOutcome?: (tenant: TenantState, key: KeyRef, outcome: Outcome) => void;
  /** A defect; the key is tried again, or found again by the next round, as is what had to do with no key. Must not throw. */
  onError: (tenant: TenantState | undefined, key: SyncKey | undefined, error: unknown) => void;
  atWork?: CurrentTenant | undefined;
  /** 0 to 1; default Math.random. */
  random?: () => number;
}

/** What is known of a tenant from its VirtualCluster alone. */
interface Known {
  readonly info: TenantInfo;
  /** UID of the kube-system of the super cluster that it was made on. */
  readonly superIdentity: string | undefined;
}

interface Unjoined {
  readonly state: TenantState;
  /** Aborted when it joins, or is not to be held to policy here any more. */
  readonly ending: AbortController;
}

/** A look at what a tenant has; undefined keys: it has not begun. */
interface Look {
  /** With these settings. */
  readonly isFirst: boolean;
  keys: Iterator<KeyRef> | undefined;
  /** Asked for while it was under way: it is looked at once more. */
  again: boolean;
}

/** Calls at once. All of them take something away, and there are few. */
const workers = 4;
const everyMs = 60_000;
/** It looks this long at a stretch, at whichever tenants, and then rests as long. */
const sliceMs = 5;
/** Of what a change touches, as much is queued at once; of more, the tenant is looked at as a whole. */
const maxAtOnce = 100;

/**
 * Holds to policy what stands in the super cluster for tenants that have not joined (sync rule `policy-over-holds`): that
 * are asleep, put back or moved, or whose API server does not let them join. Knows nothing of such a tenant but its
 * VirtualCluster and its objects in the super cluster, so that it takes away what policy does not allow and does nothing
 * else. They are looked at when they or their settings come, when something in the super cluster changes, and once a
 * minute, all by one clock.
 */
export class PolicyEnforcer {
  readonly #options: PolicyEnforcerOptions;
  readonly #queue: FairQueue<SyncKey>;
  readonly #held: ReadonlySet<string>;
  /** Stand for what such a tenant has, and for its server. */
  readonly #nothing: { readonly caches: Caches; readonly client: KubeClient };
  /** Joined or not, by UID. */
  readonly #known = new Map<string, Known>();
  readonly #joined = new Set<string>();
  readonly #unjoined = new Map<string, Unjoined>();
  /** In turns, in the order of the map. */
  readonly #looks = new Map<TenantState, Look>();
  readonly #lookAsked = new Wakeup();

  constructor(options: PolicyEnforcerOptions) {
    this.#options = options;
    const { kinds, superCaches, clock } = options;
    const client = new KubeClient(new Connection({ server: 'https://not-joined.invalid' }));
    this.#nothing = { caches: new Caches(kinds, 'tenant'), client };
    this.#queue = new FairQueue<SyncKey>({
      keyOf: keyId,
      tenantOf: ({ tenant }) => tenant,
      clock,
      maxConcurrent: workers,
    });
    const held = kinds
      .filter((kind) => kind.direction === 'down')
      .filter(({ enforce }) => enforce !== undefined);
    this.#held = new Set(held.map(({ name }) => name));
    for (const kind of held) superCaches.of(kind).subscribe((event) => this.#superEvent(kind, event));
  }

  /** The state of a tenant that has not joined and is held to policy here. */
  tenant(uid: string): TenantState | undefined {
    return this.#unjoined.get(uid)?.state;
  }

  /** From now on, with these settings, whenever the tenant has not joined. */
  add(info: TenantInfo, superIdentity: string | undefined): void {
    const known = this.#known.get(info.uid);
    if (known?.superIdentity === superIdentity && JSON.stringify(known?.info) === JSON.stringify(info))
      return;
    this.#known.set(info.uid, { info, superIdentity });
    this.#end(info.uid);
    this.#begin(info.uid);
  }

  /** Not any more. Ends its work at once, calls under way included. */
  remove(uid: string): void {
    this.#known.delete(uid);
    this.#end(uid);
  }

  /** The tenant is served by the engine until it leaves. */
  joined(uid: string): void {
    this.#joined.add(uid);
    this.#end(uid);
  }

  left(uid: string): void {
    this.#joined.delete(uid);
    if (!this.#unjoined.has(uid)) this.#begin(uid);
  }

  enqueue(tenant: TenantState, key: KeyRef): void {
    const { uid } = tenant.info;
    if (this.tenant(uid) === tenant) this.#queue.add({ ...key, tenant: uid });
    else if (this.#options.isJoined(tenant)) this.#options.enqueueJoined(tenant, key);
  }

  /** Looks at all that a tenant has in the super cluster, joined or not, in slices of time. */
  look(tenant: TenantState): void {
    const look = this.#looks.get(tenant);
    if (look === undefined) this.#ask(tenant, false);
    else if (look.keys !== undefined) look.again = true;
  }

  /** Works until aborted. Rejects when it cannot go on. */
  async run(signal: AbortSignal): Promise<void> {
    const { clock, atWork, onError, random = Math.random } = this.#options;
    const runner = new QueueRunner({
      queue: this.#queue,
      clock,
      process: (key: SyncKey) =>
        atWork === undefined ? this.#process(key) : atWork.run(key.tenant, () => this.#process(key)),
      onError: (error, key) => onError(this.tenant(key.tenant), key, error),
    });
    await runTogether(signal, (ending) => {
      onAbort(ending, () => {
        for (const unjoined of this.#unjoined.values()) unjoined.ending.abort(ending.reason);
        this.#lookAsked.signal();
      });
      const rounds = runPeriodically({ everyMs, clock, random }, ending, () => {
        for (const { state } of this.#unjoined.values()) this.look(state);
      });
      return [runner.run(ending), rounds, this.#lookAtAll(ending)];
    });
  }

  #begin(uid: string): void {
    const known = this.#known.get(uid);
    if (known === undefined || this.#joined.has(uid)) return;
    const { clock, superCaches } = this.#options;
    const state = new TenantState({
      ...known,
      ...this.#nothing,
      superCaches,
      identity: undefined,
      nowMs: () => clock.now(),
    });
    this.#unjoined.set(uid, { state, ending: new AbortController() });
    this.#ask(state, true);
  }

  #ask(tenant: TenantState, isFirst: boolean): void {
    this.#looks.set(tenant, { isFirst, keys: undefined, again: false });
    this.#lookAsked.signal();
  }

  #end(uid: string): void {
    const unjoined = this.#unjoined.get(uid);
    if (unjoined === undefined) return;
    this.#unjoined.delete(uid);
    this.#looks.delete(unjoined.state);
    this.#queue.removeTenant(uid);
    unjoined.ending.abort(new Error('the tenant joins, or is not held to policy here any more'));
  }

  async #process(key: SyncKey): Promise<QueueOutcome> {
    const { enforce, onOutcome } = this.#options;
    const unjoined = this.#unjoined.get(key.tenant);
    if (unjoined === undefined) return { action: 'done' };
    const { state, ending } = unjoined;
    try {
      const outcome = await enforce(state, key, ending.signal);
      onOutcome?.(state, key, outcome);
      return queueOutcome(outcome, undefined);
    } catch (error) {
      if (ending.signal.aborted) return { action: 'done' };
      throw error;
    }
  }

  /** Until aborted; then it rejects, or resolves. */
  async #lookAtAll(signal: AbortSignal): Promise<void> {
    const { clock, atWork, onError } = this.#options;
    while (!signal.aborted) {
      let startedMs = clock.monotonic();
      // One that is put back comes last.
      for (const [tenant, look] of this.#looks) {
        this.#looks.delete(tenant);
        const some = (): boolean => this.#lookSome(tenant, look, startedMs + sliceMs);
        let isOver = true;
        try {
          isOver = atWork === undefined ? some() : atWork.run(tenant.info.uid, some);
        } catch (error) {
          onError(tenant, undefined, error);
        }
        if (!isOver) this.#looks.set(tenant, look);
        else if (look.again) this.look(tenant);
        if (clock.monotonic() < startedMs + sliceMs) continue;
        await clock.sleep(clock.monotonic() - startedMs, signal);
        startedMs = clock.monotonic();
      }
      await this.#lookAsked.wait();
    }
  }

  /** Returns whether that was all. */
  #lookSome(tenant: TenantState, look: Look, endMs: number): boolean {
    const { clock, isDemanded, isJoined, onError } = this.#options;
    const { uid } = tenant.info;
    if (this.tenant(uid) !== tenant && !isJoined(tenant)) return true;
    look.keys ??= this.#keysOf(tenant, look);
    for (let next = look.keys.next(); next.done !== true; next = look.keys.next()) {
      try {
        if (isDemanded(tenant, next.value)) this.enqueue(tenant, next.value);
      } catch (error) {
        onError(tenant, { ...next.value, tenant: uid }, error);
      }
      if (clock.monotonic() >= endMs) return false;
    }
    return true;
  }

  *#keysOf(tenant: TenantState, { isFirst }: Look): Generator<KeyRef> {
    yield* this.#options.keysOf(tenant);
    if (isFirst) yield* this.#options.settledKeysOf(tenant);
  }

  #superEvent(kind: DownKind, { type, object, previous }: StoreEvent<KubeObject>): void {
    if (this.#unjoined.size === 0) return;
    const uid = tenantUidOf(object);
    const now = this.#touched(kind, object);
    const before = previous === undefined ? [] : this.#touched(kind, previous);
    const isMoved = previous !== undefined && tenantUidOf(previous) !== uid;
    const isUnchanged = type === 'modified' && kind.touches?.membershipOnly === true && sameKeys(now, before);
    const tenant = this.tenant(uid ?? '');
    if (tenant !== undefined && type !== 'deleted' && !isBound(object)) {
      const key = downKeyOf(kind, object);
      if (key !== undefined) this.enqueue(tenant, key);
    }
    if (isMoved || !isUnchanged) {
      this.#enqueueAll(uid, now);
      this.#enqueueAll(previous && tenantUidOf(previous), before);
    }
  }

  /** What else policy may demand something of after a change of this object, in one of its states. */
  #touched(kind: DownKind, state: KubeObject): readonly KeyRef[] {
    const tenant = this.tenant(tenantUidOf(state) ?? '');
    if (tenant === undefined) return [];
    const keys = kind.touches?.super?.(state, tenant.context()) ?? [];
    return keys.filter((key) => this.#held.has(key.kind));
  }

  #enqueueAll(uid: string | undefined, keys: readonly KeyRef[]): void {
    const tenant = this.tenant(uid ?? '');
    if (tenant === undefined) return;
    if (keys.length > maxAtOnce) this.look(tenant);
    else for (const key of keys) this.enqueue(tenant, key);
  }
}
