import { hash } from 'node:crypto';

/** In how many parts replicas can share the super cluster's objects; as lasting as the labels that hold it. */
export const bucketCount = 64;

/** The bucket of a tenant, 0 to 63, from the UID of its VirtualCluster. */
export function bucketOf(virtualClusterUid: string): number {
  return Number.parseInt(hash('sha256', virtualClusterUid, 'hex').slice(0, 8), 16) % bucketCount;
}
