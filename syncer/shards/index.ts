export type { BucketHolder } from './bucket-holder.ts';
export { Fence } from './fence.ts';
export { followRecords } from './follow.ts';
export { replicaIdentity } from './names.ts';
export { isReplicaName } from './records.ts';
export { Shards } from './shards.ts';
