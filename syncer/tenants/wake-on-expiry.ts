import { labelKeys } from '../../api/labels.ts';
import type { VirtualCluster } from '../../api/virtual-cluster.ts';
import { type Clock, type KubeClient, type KubeObject, resources, Wakeup } from '../../kube/index.ts';
import { requestWake } from '../../program/activity-lease.ts';
import { tokenWatch } from '../controllers/pod-tokens.ts';
import { tokenSecrets, wakeAtMs } from '../controllers/token-secret.ts';
import { isFinished, type Pod } from '../kinds/pods/types.ts';
import { byTenantIndex, type Caches } from '../reconcile/caches.ts';

interface WakeOnExpiryOptions {
  superClient: Pick<KubeClient, 'create' | 'patch'>;
  /** Skerry's own. */
  systemNamespace: string;
  /** Complete, as far as the tenants go that are served. */
  superCaches: Caches;
  /** The tenants that are asleep, and that this replica would serve. */
  sleepers: () => Iterable<VirtualCluster>;
  clock: Clock;
  onError: (vc: VirtualCluster, error: unknown) => void;
}

/** A request that nobody has followed is written again. */
const askAgainMs = 60_000;
const longestWaitMs = 10 * 60_000;

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
    try {
      while (!signal.aborted) {
        const waitMs = this.#look() - clock.now();
        await this.#changed.waitFor(Math.max(0, Math.min(waitMs, longestWaitMs)), clock, signal);
      }
    } catch (error) {
      if (!signal.aborted) throw error;
    } finally {
      unsubscribe();
    }
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
        this.#ask(vc, nowMs);
        dueMs = nowMs + askAgainMs;
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

  #ask(vc: VirtualCluster, nowMs: number): void {
    const { superClient: client, systemNamespace: namespace, onError } = this.#o;
    const id = vc.status?.id;
    if (id === undefined) return;
    requestWake({ client, namespace, id, nowMs, reason: 'TokenExpiring' }).catch((error: unknown) =>
      onError(vc, error),
    );
  }
}
