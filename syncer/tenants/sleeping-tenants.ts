import { labelKeys } from '../../api/labels.ts';
import { hasEnded, hasRunSince } from '../../api/running-pods.ts';
import type { VirtualCluster } from '../../api/virtual-cluster.ts';
import {
  type Clock,
  type KubeClient,
  type KubeObject,
  resources,
  type StoreEvent,
  Wakeup,
} from '../../kube/index.ts';
import { requestWake } from '../../program/activity-lease.ts';
import { tokenWatch } from '../controllers/pod-tokens.ts';
import { tokenSecrets, wakeAtMs } from '../controllers/token-secret.ts';
import { isFinished, type Pod } from '../kinds/pods/types.ts';
import { byTenantIndex, type Caches } from '../reconcile/caches.ts';

interface WakeOptions {
  superClient: Pick<KubeClient, 'create' | 'patch'>;
  /** Skerry's own. */
  systemNamespace: string;
  /** The tenants that are asleep, and that this replica would serve. */
  sleepers: () => Iterable<VirtualCluster>;
  clock: Clock;
  onError: (vc: VirtualCluster, error: unknown) => void;
}

function askToWake(
  { superClient: client, systemNamespace: namespace, clock, onError }: WakeOptions,
  vc: VirtualCluster,
  reason: 'PodLost' | 'TokenExpiring',
): void {
  const id = vc.status?.id;
  if (id === undefined) return;
  requestWake({ client, namespace, id, nowMs: clock.now(), reason }).catch((error: unknown) =>
    onError(vc, error),
  );
}

const longestWaitMs = 10 * 60_000;

/** Until aborted: looks, and again after the time that `look` returns, or when something has changed. */
async function keepLooking(
  look: () => number,
  changed: Wakeup,
  clock: Clock,
  signal: AbortSignal,
): Promise<void> {
  try {
    while (!signal.aborted)
      await changed.waitFor(Math.max(0, Math.min(look(), longestWaitMs)), clock, signal);
  } catch (error) {
    if (!signal.aborted) throw error;
  }
}

interface WakeOnLossOptions extends WakeOptions {
  /** Complete, as far as the tenants go that are served. */
  superCaches: Pick<Caches, 'store'>;
  /** Whether the tenant with this UID is one of the sleepers. */
  isSleeper: (uid: string) => boolean;
}

/** A request that the manager has not followed, or that could not be written, is written again. */
const askAgainOnLossMs = 10_000;

interface Sleeper {
  /** `status.sleep.since`. */
  readonly since: string;
  isLost: boolean;
  /** Monotonic. */
  askMs: number;
}

/**
 * Asks the manager to wake a tenant of which a pod has ended or is gone in the super cluster while it is asleep, until it is
 * awake: its controllers would have made another one. What no syncer has seen shows in the number of pods that were running
 * as it fell asleep.
 */
export class WakeOnLoss {
  readonly #o: WakeOnLossOptions;
  /** By UID; those that have been looked at since they fell asleep. */
  readonly #sleepers = new Map<string, Sleeper>();
  /** UIDs of those that have lost a pod since the last look. */
  readonly #losses = new Set<string>();
  readonly #changed = new Wakeup();

  constructor(options: WakeOnLossOptions) {
    this.#o = options;
  }

  /** Call it when others may be asleep than before. */
  sleepersChanged(): void {
    this.#changed.signal();
  }

  /** Call it when this replica may serve others: what has happened to their pods before was not seen. */
  gateChanged(): void {
    for (const [uid, { isLost }] of this.#sleepers) if (!isLost) this.#sleepers.delete(uid);
    this.#changed.signal();
  }

  /** Until aborted. */
  async run(signal: AbortSignal): Promise<void> {
    const { superCaches, clock } = this.#o;
    const unsubscribe = superCaches.store(resources.pods).subscribe((event) => this.#see(event));
    const look = (): number => this.#look() - clock.monotonic();
    await keepLooking(look, this.#changed, clock, signal).finally(unsubscribe);
  }

  #see({ type, object, previous }: StoreEvent<KubeObject>): void {
    const uid = object.metadata.labels?.[labelKeys.tenant];
    if (uid === undefined) return;
    const isLost =
      type === 'deleted' || (type === 'modified' && hasEnded(object) && !hasEnded(previous ?? object));
    // What goes from the cache with what this replica does not serve any more looks like deleted.
    if (!isLost || !this.#o.isSleeper(uid)) return;
    this.#losses.add(uid);
    this.#changed.signal();
  }

  /** Asks for those that have lost a pod; returns when that has to be done again. */
  #look(): number {
    const nowMs = this.#o.clock.monotonic();
    const asleep = new Set<string>();
    let nextMs = Number.POSITIVE_INFINITY;
    for (const vc of this.#o.sleepers()) {
      const { uid = '' } = vc.metadata;
      asleep.add(uid);
      const since = vc.status?.sleep?.since ?? '';
      let sleeper = this.#sleepers.get(uid);
      if (sleeper?.since !== since) {
        sleeper = { since, isLost: this.#isAnyMissing(vc), askMs: nowMs };
        this.#sleepers.set(uid, sleeper);
      }
      sleeper.isLost ||= this.#losses.has(uid);
      if (!sleeper.isLost) continue;
      if (sleeper.askMs <= nowMs) {
        sleeper.askMs = nowMs + askAgainOnLossMs;
        askToWake(this.#o, vc, 'PodLost');
      }
      nextMs = Math.min(nextMs, sleeper.askMs);
    }
    this.#losses.clear();
    for (const uid of this.#sleepers.keys()) if (!asleep.has(uid)) this.#sleepers.delete(uid);
    return nextMs;
  }

  /** Whether fewer run than did as it fell asleep. */
  #isAnyMissing({ metadata, status }: VirtualCluster): boolean {
    const { since = '', pods } = status?.sleep ?? {};
    if (pods === undefined) return false;
    const atMs = Date.parse(since);
    let running = 0;
    for (const pod of this.#o.superCaches.store(resources.pods).byIndex(byTenantIndex, metadata.uid ?? ''))
      if (hasRunSince(pod, atMs)) running++;
    return running < pods;
  }
}

interface WakeOnExpiryOptions extends WakeOptions {
  /** Complete, as far as the tenants go that are served. */
  superCaches: Caches;
}

/** A request that the manager has not followed is written again. */
const askAgainOnExpiryMs = 60_000;

/**
 * Asks the manager to wake a tenant that is asleep when a token of a running pod of it is about to end: its API server
 * has to issue another one. Remembers one time for each of those that are asleep.
 */
export class WakeOnExpiry {
  readonly #o: WakeOnExpiryOptions;
  /** Wall-clock time by UID. */
  readonly #dueMs = new Map<string, number>();
  readonly #changed = new Wakeup();

  constructor(options: WakeOnExpiryOptions) {
    this.#o = options;
  }

  /** Call it when others may be asleep than before, or this replica may serve others. */
  sleepersChanged(): void {
    this.#changed.signal();
  }

  /** Until aborted. */
  async run(signal: AbortSignal): Promise<void> {
    const { superCaches, clock } = this.#o;
    const unsubscribe = superCaches.watched(tokenWatch.name).subscribe(({ object }) => {
      if (this.#dueMs.delete(object.metadata.labels?.[labelKeys.tenant] ?? '')) this.#changed.signal();
    });
    const look = (): number => this.#look() - clock.now();
    await keepLooking(look, this.#changed, clock, signal).finally(unsubscribe);
  }

  /** Asks for those whose time has come; returns when the next one has to be woken. */
  #look(): number {
    const nowMs = this.#o.clock.now();
    const asleep = new Set<string>();
    let nextMs = Number.POSITIVE_INFINITY;
    for (const vc of this.#o.sleepers()) {
      const { uid = '' } = vc.metadata;
      asleep.add(uid);
      let dueMs = this.#dueMs.get(uid) ?? 0;
      // Its pod may have ended since.
      if (dueMs <= nowMs) dueMs = this.#wakeAtMs(uid);
      if (dueMs <= nowMs) {
        askToWake(this.#o, vc, 'TokenExpiring');
        dueMs = nowMs + askAgainOnExpiryMs;
      }
      this.#dueMs.set(uid, dueMs);
      nextMs = Math.min(nextMs, dueMs);
    }
    for (const uid of this.#dueMs.keys()) if (!asleep.has(uid)) this.#dueMs.delete(uid);
    return nextMs;
  }

  #wakeAtMs(uid: string): number {
    let earliestMs = Number.POSITIVE_INFINITY;
    for (const secret of this.#o.superCaches.watched(tokenWatch.name).byIndex(byTenantIndex, uid)) {
      const atMs = wakeAtMs(secret);
      if (atMs < earliestMs && this.#isOfRunningPod(secret)) earliestMs = atMs;
    }
    return earliestMs;
  }

  #isOfRunningPod(secret: KubeObject): boolean {
    const { namespace, name = '' } = secret.metadata;
    const podName = tokenSecrets.tenantName?.(name, secret) ?? '';
    const pod = this.#o.superCaches.get<Pod>(resources.pods, { namespace, name: podName });
    return pod !== undefined && !isFinished(pod);
  }
}
