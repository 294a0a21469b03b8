// Without the schemas of `virtual-cluster.ts`: the syncer and the gateway need no more, and start sooner and smaller so.
import { traitsOf } from './drivers.ts';
import type { VirtualCluster } from './virtual-cluster.ts';

/** The tenant's weight: what the manager has granted, or what is asked for where it has no opinion yet. */
export function weightOf({ spec, status }: VirtualCluster): number {
  return status?.policy?.weight ?? spec?.weight ?? 1;
}

/**
 * Whether pods reach the API server by a Service in the super cluster, to which the manager routes the first address of the
 * tenant's service slice, where they look for it.
 */
export function isExposedByService({ status }: Pick<VirtualCluster, 'status'>): boolean {
  return traitsOf(status?.driver).exposedBy === 'service' && !isForPods(status?.gateway);
}

type Gateway = NonNullable<NonNullable<VirtualCluster['status']>['gateway']>;

/** Whether pods go through the gateway. */
export function isForPods(
  gateway: Gateway | undefined,
): gateway is Gateway & Required<Pick<Gateway, 'podAddress' | 'port'>> {
  return gateway?.podAddress !== undefined && gateway.port !== undefined;
}

/**
 * Places of the addresses in a tenant's slice that the manager keeps for it: that of the Service `kubernetes`, and that of
 * its DNS, if it has one.
 */
export const reservedOffsets = { apiServer: 1, dns: 10 } as const;

/** Where pods reach the API server: at the gateway, or where it listens itself. */
export function podEndpoint({ status }: Pick<VirtualCluster, 'status'>): {
  address: string | undefined;
  port: number | undefined;
} {
  const { gateway, advertisedAddress, advertisedPort } = status ?? {};
  if (isForPods(gateway)) return { address: gateway.podAddress, port: gateway.port };
  return { address: advertisedAddress, port: advertisedPort };
}

/** Whether no process of this tenant runs, and it is to stay. */
export function isAsleep({ metadata, status }: Pick<VirtualCluster, 'metadata' | 'status'>): boolean {
  return status?.phase === 'Asleep' && metadata.deletionTimestamp === undefined;
}

/**
 * Whether this tenant is to be served now: its control plane was ready once, is not asleep, not being put back to a
 * snapshot or moved, and not on its way out.
 */
export function isServed(vc: VirtualCluster): boolean {
  const { status } = vc;
  return (
    isHeldToPolicy(vc) &&
    status?.phase !== 'Asleep' &&
    status?.restore === undefined &&
    !isPaused(vc) &&
    status?.syncerSecret !== undefined &&
    status.identities?.tenant !== undefined
  );
}

/** Whether this tenant can have something in the super cluster, which is held to its policy, and is not on its way out. */
export function isHeldToPolicy({ metadata, status }: VirtualCluster): boolean {
  return (
    metadata.deletionTimestamp === undefined &&
    status?.phase !== 'Deleting' &&
    status?.id !== undefined &&
    status.advertisedAddress !== undefined &&
    status.serviceCIDR !== undefined
  );
}

/** Whether a move has stopped its control plane, and it runs at neither place yet. */
export function isPaused({ status }: VirtualCluster): boolean {
  return status?.move?.pausedAt !== undefined && status.move.pausedMs === undefined;
}

/** `spec.sleep.afterIdle` in milliseconds; undefined: it does not fall asleep by itself. */
export function sleepAfterIdleMs({ spec }: Pick<VirtualCluster, 'spec'>): number | undefined {
  const [, count, unit] = /^([0-9]{1,5})(m|h)$/.exec(spec?.sleep?.afterIdle ?? '') ?? [];
  return count === undefined ? undefined : Number(count) * (unit === 'h' ? 3_600_000 : 60_000);
}

/** `spec.snapshots.every` in milliseconds; undefined: only on request. */
export function snapshotEveryMs({ spec }: Pick<VirtualCluster, 'spec'>): number | undefined {
  const [, count, unit] = /^([0-9]{1,4})(h|d)$/.exec(spec?.snapshots?.every ?? '') ?? [];
  return count === undefined ? undefined : Number(count) * (unit === 'd' ? 24 : 1) * 3_600_000;
}

/**
 * A request by annotation as the status stores it. A lone surrogate would come back changed from the API server, and count
 * as new for ever.
 */
export function storedRequest(value: string): string {
  return value.slice(0, 64).toWellFormed();
}

/** Value of the annotation, if it is not the one that was `followed` last. */
export function newRequest(
  { metadata }: VirtualCluster,
  key: string,
  followed: string | undefined,
): string | undefined {
  const asked = metadata.annotations?.[key];
  const value = asked === undefined ? undefined : storedRequest(asked);
  return value === followed ? undefined : value;
}
