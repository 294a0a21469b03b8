import { labelKeys } from '../../api/labels.ts';
import type { VirtualCluster } from '../../api/virtual-cluster.ts';
import type { Clock, KubeClient, KubeObject, StoreEvent } from '../../kube/index.ts';
import { requestWake } from '../../program/activity-lease.ts';

interface WakeOnLossOptions {
  superClient: Pick<KubeClient, 'create' | 'patch'>;
  /** Skerry's own. */
  systemNamespace: string;
  /** The tenant with this UID, if this replica is the one that would serve it. */
  tenant: (uid: string) => VirtualCluster | undefined;
  clock: Pick<Clock, 'now'>;
  onError: (vc: VirtualCluster, error: unknown) => void;
}

/** A node that is lost takes many pods with it. */
const onceInMs = 10_000;

/**
 * Asks the manager to wake a tenant of which a pod has ended or is gone in the super cluster while it is asleep: its
 * controllers would have made another one.
 */
export class WakeOnLoss {
  readonly #o: WakeOnLossOptions;
  readonly #askedMs = new Map<string, number>();

  constructor(options: WakeOnLossOptions) {
    this.#o = options;
  }

  /** Call it with each event of the pods of the super cluster. */
  see({ type, object, previous }: StoreEvent<KubeObject>): void {
    const uid = object.metadata.labels?.[labelKeys.tenant];
    if (uid === undefined) return;
    const isLost =
      type === 'deleted' || (type === 'modified' && hasEnded(object) && !hasEnded(previous ?? object));
    if (!isLost) return;
    const vc = this.#o.tenant(uid);
    if (vc?.status?.phase !== 'Asleep' || vc.metadata.deletionTimestamp !== undefined) return;
    const { id } = vc.status;
    const now = this.#o.clock.now();
    if (id === undefined || now - (this.#askedMs.get(uid) ?? 0) < onceInMs) return;
    // None that was asked for long ago is remembered.
    for (const [each, atMs] of this.#askedMs) if (now - atMs >= onceInMs) this.#askedMs.delete(each);
    this.#askedMs.set(uid, now);
    const { superClient: client, systemNamespace: namespace } = this.#o;
    requestWake({ client, namespace, id, nowMs: now }).catch((error: unknown) => {
      this.#askedMs.delete(uid);
      this.#o.onError(vc, error);
    });
  }
}

/** Finished, or told to end. */
function hasEnded({ metadata, status }: KubeObject): boolean {
  const { phase } = (status ?? {}) as { phase?: string };
  return metadata.deletionTimestamp !== undefined || phase === 'Succeeded' || phase === 'Failed';
}
