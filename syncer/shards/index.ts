export { Fence } from './fence.ts';
export { followRecords } from './follow.ts';
export { replicaIdentity } from './names.ts';
export { isReplicaName } from './records.ts';
export { type BucketHolder, Shards } from './shards.ts';
