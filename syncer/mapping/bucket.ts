import { hash } from 'node:crypto';

/** In how many parts replicas can share the super cluster's objects; as lasting as the labels that hold it. */
export const bucketCount = 64;

/** The bucket of a tenant, 0 to 63, from the UID of its VirtualCluster. */
export function bucketOf(virtualClusterUid: string): number {
  let bucket = known.get(virtualClusterUid);
  if (bucket === undefined) {
    bucket = Number.parseInt(hash('sha256', virtualClusterUid, 'hex').slice(0, 8), 16) % bucketCount;
    if (known.size >= maxKnown) known.clear();
    known.set(virtualClusterUid, bucket);
  }
  return bucket;
}

/** No state but a memory of what is a function of its argument: asked for at every comparison of two objects. */
const known = new Map<string, number>();
const maxKnown = 5_000;
