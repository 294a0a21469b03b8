import type { VirtualCluster } from '../../api/virtual-cluster.ts';
import { type Clock, type KubeObject, resources } from '../../kube/index.ts';
import type { SyncedKind } from '../kinds/contract.ts';
import { meteredUsage } from '../quota/quota-admission.ts';
import { byTenantIndex, type Caches } from '../reconcile/caches.ts';
import { usedEveryMs } from './health.ts';
import type { StatusWriter, UsedResources } from './status-writer.ts';

interface SleepingTenantUsageOptions {
  /** Complete, as far as the tenants go that are served. */
  superCaches: Caches;
  kinds: readonly SyncedKind[];
  /** The tenants that are asleep, and that this replica would serve. */
  sleepers: () => Iterable<VirtualCluster>;
  /** What these pods of the super cluster use, which are all that the tenant with this UID has; undefined where nothing says so. */
  used: (uid: string, pods: readonly KubeObject[], signal: AbortSignal) => Promise<UsedResources | undefined>;
  status: Pick<StatusWriter, 'usageAsleep'>;
  clock: Clock;
  onError: (vc: VirtualCluster, error: unknown) => void;
}

/**
 * Writes down what tenants that are asleep have and use in the super cluster: no session measures it, and it may be more than
 * the last one has said, which counts once a minute. What is counted in the tenant alone stays as it was. Of a tenant that has woken
 * meanwhile nothing is written: its session does.
 */
export class SleepingTenantUsage {
  readonly #o: SleepingTenantUsageOptions;

  constructor(options: SleepingTenantUsageOptions) {
    this.#o = options;
  }

  /** Until aborted. */
  async run(signal: AbortSignal): Promise<void> {
    const { clock, sleepers, onError } = this.#o;
    while (!signal.aborted) {
      await clock.sleep(usedEveryMs, signal).catch(() => undefined);
      for (const vc of [...sleepers()]) {
        if (signal.aborted) return;
        await this.#measure(vc, signal).catch((error: unknown) => {
          if (!signal.aborted) onError(vc, error);
        });
      }
    }
  }

  async #measure({ metadata, status }: VirtualCluster, signal: AbortSignal): Promise<void> {
    const { superCaches, kinds, used, onError } = this.#o;
    const { namespace, name = '', uid = '' } = metadata;
    if (status?.usage === undefined) return;
    const ofTenant = superCaches.byIndex(resources.pods, byTenantIndex, uid);
    const now = await used(uid, ofTenant, signal).catch((error: unknown) => {
      if (!signal.aborted) onError({ metadata, status }, error);
      return undefined;
    });
    signal.throwIfAborted();
    const counted = meteredUsage(superCaches, kinds, uid);
    await this.#o.status.usageAsleep({ namespace, name }, uid, { used: now, counted }, signal);
  }
}
