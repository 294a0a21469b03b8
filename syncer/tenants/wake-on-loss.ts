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
import { byTenantIndex, type Caches } from '../reconcile/caches.ts';

interface WakeOnLossOptions {
  superClient: Pick<KubeClient, 'create' | 'patch'>;
  /** Skerry's own. */
  systemNamespace: string;
  /** Complete, as far as the tenants go that are served. */
  superCaches: Pick<Caches, 'store'>;
  /** The tenants that are asleep, and that this replica would serve. */
  sleepers: () => Iterable<VirtualCluster>;
  /** Whether the tenant with this UID is one of them. */
  isSleeper: (uid: string) => boolean;
  clock: Clock;
  onError: (vc: VirtualCluster, error: unknown) => void;
}

/** A request that nobody has followed, or that could not be written, is written again. */
const askAgainMs = 10_000;
const longestWaitMs = 10 * 60_000;

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
    try {
      while (!signal.aborted) {
        const waitMs = this.#look() - clock.monotonic();
        await this.#changed.waitFor(Math.max(0, Math.min(waitMs, longestWaitMs)), clock, signal);
      }
    } catch (error) {
      if (!signal.aborted) throw error;
    } finally {
      unsubscribe();
    }
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
        sleeper.askMs = nowMs + askAgainMs;
        this.#ask(vc);
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

  #ask(vc: VirtualCluster): void {
    const { superClient: client, systemNamespace: namespace, clock, onError } = this.#o;
    const id = vc.status?.id;
    if (id === undefined) return;
    requestWake({ client, namespace, id, nowMs: clock.now(), reason: 'PodLost' }).catch((error: unknown) =>
      onError(vc, error),
    );
  }
}
