import type { KeyRef } from '../kinds/index.ts';

/** One unit of work: an object in the coordinates of its tenant. `tenant` is the VirtualCluster's UID. */
export interface SyncKey extends KeyRef {
  readonly tenant: string;
}

/** Unique within a tenant; namespace and name cannot hold a slash. */
export function keyId(key: KeyRef): string {
  return `${key.kind}/${key.namespace ?? ''}/${key.name}`;
}
