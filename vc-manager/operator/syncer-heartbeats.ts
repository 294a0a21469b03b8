import { noSyncerReason } from '../../api/conditions.ts';
import { syncerSelector } from '../../api/labels.ts';
import type { VirtualCluster } from '../../api/virtual-cluster.ts';
import {
  findCondition,
  ignoreNotFound,
  type Lease,
  modifyStatus,
  repeatUntilAborted,
  resources,
  setCondition,
} from '../../kube/index.ts';
import type { Services } from './services.ts';
import { hasPhaseAsleep } from './sleep.ts';

const lookEveryMs = 30_000;
/** A replica that takes over, an upgrade and a restart are shorter. */
const patienceMs = 120_000;

const noSyncer = {
  type: 'Synced',
  status: 'Unknown',
  reason: noSyncerReason,
  message:
    'no vc-syncer has renewed its Lease for two minutes: what changes on either side is not carried over. Its log: vc-manager logs --stack vc-syncer',
} as const;

type SyncerHeartbeatsServices = Pick<
  Services,
  'client' | 'clock' | 'logger' | 'virtualClusters' | 'settings'
>;

/**
 * Watches the Leases of all syncers, as the node lifecycle controller does for nodes: when none has changed for two minutes,
 * the condition `Synced` of all tenants becomes `Unknown`, until a syncer writes it again.
 */
export class SyncerHeartbeats {
  readonly #services: SyncerHeartbeatsServices;
  /** When each replica last renewed its Lease, in its own words: clocks of two machines are not compared. */
  #renewed = '';
  #changedAtMs: number | undefined;

  constructor(services: SyncerHeartbeatsServices) {
    this.#services = services;
  }

  /** Looks every half minute until aborted. */
  async run(signal: AbortSignal): Promise<void> {
    const { clock, logger } = this.#services;
    const onError = (error: unknown): void =>
      logger.debug({ err: error }, 'the Leases of syncers cannot be read');
    await repeatUntilAborted({ everyMs: lookEveryMs, clock, onError }, signal, () => this.look(signal));
  }

  async look(signal: AbortSignal): Promise<void> {
    const { client, clock, settings, virtualClusters } = this.#services;
    const { namespace } = settings;
    const { items } = await client.list<Lease>(resources.leases, {
      namespace,
      labelSelector: syncerSelector,
      signal,
    });
    const renewed = items
      .map(({ metadata, spec }) => `${metadata.uid} ${spec?.renewTime}`)
      .sort()
      .join('\n');
    const nowMs = clock.monotonic();
    const isRenewed = items.length > 0 && renewed !== this.#renewed;
    this.#renewed = renewed;
    if (isRenewed || this.#changedAtMs === undefined) this.#changedAtMs = nowMs;
    if (nowMs - this.#changedAtMs < patienceMs) return;
    for (const vc of virtualClusters.list()) if (isSaidToBeSynced(vc)) await this.#sayUnknown(vc, signal);
  }

  async #sayUnknown({ metadata }: VirtualCluster, signal: AbortSignal): Promise<void> {
    const { client, clock } = this.#services;
    const { namespace, name = '', uid } = metadata;
    const change = (current: VirtualCluster): VirtualCluster | undefined => {
      if (current.metadata.uid !== uid || !isSaidToBeSynced(current)) return undefined;
      const conditions = setCondition(current.status?.conditions, noSyncer, new Date(clock.now()));
      return { ...current, status: { ...current.status, conditions } };
    };
    const ref = { namespace, name };
    await ignoreNotFound(
      modifyStatus<VirtualCluster>(client, resources.virtualClusters, ref, change, { signal }),
    );
  }
}

/** Of one that is asleep no syncer would say it anew. */
function isSaidToBeSynced(vc: VirtualCluster): boolean {
  return !hasPhaseAsleep(vc) && findCondition(vc.status?.conditions, 'Synced')?.status === 'True';
}
