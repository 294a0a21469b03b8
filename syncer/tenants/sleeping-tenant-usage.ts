import type { VirtualCluster } from '../../api/virtual-cluster.ts';
import { type Clock, type KubeObject, resources } from '../../kube/index.ts';
import { byTenantIndex, type Caches } from '../reconcile/caches.ts';
import { usedEveryMs } from './health.ts';
import type { StatusWriter, UsedResources } from './status-writer.ts';

interface SleepingTenantUsageOptions {
  /** Complete, as far as the tenants go that are served. */
  superCaches: Caches;
  /** The tenants that are asleep, and that this replica would serve. */
  sleepers: () => Iterable<VirtualCluster>;
  /** What these pods of the super cluster use, which are all that the tenant with this UID has; undefined where nothing says so. */
  used: (uid: string, pods: readonly KubeObject[], signal: AbortSignal) => Promise<UsedResources | undefined>;
  status: Pick<StatusWriter, 'usageAsleep'>;
  clock: Clock;
  onError: (vc: VirtualCluster, error: unknown) => void;
}

/**
 * Writes down what pods of tenants that are asleep use: no session measures them, and they run on. What is counted rather
 * than measured stays as it was: only the tenant changes it, and a pod that ends wakes it. Of a tenant that has woken
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
    const { superCaches, used, onError } = this.#o;
    const { namespace, name = '', uid = '' } = metadata;
    if (status?.usage === undefined) return;
    const ofTenant = superCaches.byIndex(resources.pods, byTenantIndex, uid);
    const now = await used(uid, ofTenant, signal).catch((error: unknown) => {
      if (!signal.aborted) onError({ metadata, status }, error);
      return undefined;
    });
    signal.throwIfAborted();
    await this.#o.status.usageAsleep({ namespace, name }, uid, now, signal);
  }
}
