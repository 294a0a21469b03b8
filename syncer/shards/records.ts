import { labelKeys } from '../../api/labels.ts';
import type { KubeClient } from '../../kube/index.ts';

/** What is asked of the super cluster here, on a connection that the fence does not guard. */
export type ShardClient = Pick<KubeClient, 'get' | 'list' | 'create' | 'update' | 'delete'>;

/** Carried by the Leases of all replicas. */
export const componentLabel = { [labelKeys.component]: 'vc-syncer' } as const;
export const componentSelector = `${labelKeys.component}=vc-syncer`;
export const shardMapName = 'vc-syncer-shards';

const leasePrefix = 'vc-syncer-';

export function leaseName(replica: string): string {
  return leasePrefix + replica;
}

export function replicaOf(leaseName: string): string {
  return leaseName.slice(leasePrefix.length);
}

/** Whether a Lease can have this name: it is a DNS name. */
export function isReplicaName(text: string): boolean {
  return text.length <= 200 && /^[a-z0-9]([-a-z0-9]*[a-z0-9])?(\.[a-z0-9]([-a-z0-9]*[a-z0-9])?)*$/.test(text);
}
