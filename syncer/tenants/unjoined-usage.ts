import type { VirtualCluster } from '../../api/virtual-cluster.ts';
import { type Clock, type KubeObject, resources } from '../../kube/index.ts';
import type { SyncedKind } from '../kinds/contract.ts';
import { meteredUsage } from '../quota/quota-admission.ts';
import { byTenantIndex, type Caches } from '../reconcile/caches.ts';
import { usedEveryMs } from './health.ts';
import type { StatusWriter, UsedResources } from './status-writer.ts';

interface UnjoinedTenantUsageOptions {
  /** Complete, as far as the tenants go that are served. */
  superCaches: Caches;
  kinds: readonly SyncedKind[];
  virtualClusters: () => Iterable<VirtualCluster>;
  /** Whether a tenant may have pods, is this replica's, and has no session that measures it. */
  isUnjoined: (vc: VirtualCluster) => boolean;
  /** What these pods of the super cluster use, which are all that the tenant with this UID has; undefined where nothing says so. */
  used: (uid: string, pods: readonly KubeObject[], signal: AbortSignal) => Promise<UsedResources | undefined>;
  status: Pick<StatusWriter, 'usageUnjoined'>;
  clock: Clock;
  onError: (vc: VirtualCluster, error: unknown) => void;
}

/**
 * Writes down what tenants have and use in the super cluster that are asleep, or do not let the syncer join: no session
 * measures it, and it may be more than the last one has said, which counts once a minute. What is counted in the tenant alone
 * stays as it was. Of a tenant that has joined meanwhile nothing is written: its session does.
 */
export class UnjoinedTenantUsage {
  readonly #o: UnjoinedTenantUsageOptions;

  constructor(options: UnjoinedTenantUsageOptions) {
    this.#o = options;
  }

  /** Until aborted. */
  async run(signal: AbortSignal): Promise<void> {
    const { clock, virtualClusters, isUnjoined, onError } = this.#o;
    while (!signal.aborted) {
      await clock.sleep(usedEveryMs, signal).catch(() => undefined);
      for (const vc of [...virtualClusters()].filter(isUnjoined)) {
        if (signal.aborted) return;
        await this.#measure(vc, signal).catch((error: unknown) => {
          if (!signal.aborted) onError(vc, error);
        });
      }
    }
  }

  async #measure(vc: VirtualCluster, signal: AbortSignal): Promise<void> {
    const { metadata, status } = vc;
    const { superCaches, kinds, used, isUnjoined, onError } = this.#o;
    const { namespace, name = '', uid = '' } = metadata;
    const ofTenant = superCaches.byIndex(resources.pods, byTenantIndex, uid);
    // A session that has ended before its first look may have made pods and claims.
    const hasAny = (): boolean =>
      Object.values(meteredUsage(superCaches, kinds, uid)).some((amount) => amount !== '0');
    if (status?.usage === undefined && ofTenant.length === 0 && !hasAny()) return;
    const now = await used(uid, ofTenant, signal).catch((error: unknown) => {
      if (!signal.aborted) onError(vc, error);
      return undefined;
    });
    signal.throwIfAborted();
    const counted = meteredUsage(superCaches, kinds, uid);
    await this.#o.status.usageUnjoined({ namespace, name }, uid, { used: now, counted, isUnjoined }, signal);
  }
}
