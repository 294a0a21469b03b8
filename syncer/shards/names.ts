import { randomBytes, randomUUID } from 'node:crypto';
import { hostname } from 'node:os';

export interface ReplicaIdentity {
  /** Of its Lease, and in the map of buckets. */
  readonly replica: string;
  /** The name was given. */
  readonly isNamed: boolean;
  /** Of this process alone. */
  readonly identity: string;
}

/** Who this replica is; one without a name gets one that no other has. */
export function replicaIdentity(given: string | undefined): ReplicaIdentity {
  const replica = given ?? `${asName(hostname())}-${randomBytes(4).toString('hex')}`;
  return { replica, isNamed: given !== undefined, identity: `${replica}_${randomUUID()}` };
}

function asName(host: string): string {
  const name = host
    .toLowerCase()
    .replace(/[^a-z0-9]+/g, '-')
    .slice(0, 40)
    .replace(/^-+|-+$/g, '');
  return name === '' ? 'syncer' : name;
}
