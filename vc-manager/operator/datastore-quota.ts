import type { Quota } from '../../api/quota.ts';
import type { VirtualCluster } from '../../api/virtual-cluster.ts';
import { parseExactQuantity } from '../../kube/index.ts';
import { tenantPrefix } from '../etcd/grants.ts';
import type { Entry, KeyspaceSize } from '../etcd/keyspace.ts';
import { datastoreQuotaExceeded, inMiB } from './errors.ts';
import type { Tenant } from './tenant.ts';

/** Of `datastore.keys` and `datastore.bytes`; Infinity: no limit. */
export function datastoreLimits({ status }: VirtualCluster): KeyspaceSize {
  const quota: Quota = status?.policy?.quota ?? {};
  const limit = (name: string): number => {
    const quantity = Object.hasOwn(quota, name) ? parseExactQuantity(quota[name]) : undefined;
    // In billionths.
    return quantity === undefined ? Number.POSITIVE_INFINITY : Number(quantity) / 1e9;
  };
  return { keys: limit('datastore.keys'), bytes: limit('datastore.bytes') };
}

/**
 * The same entries, as long as the tenant may have as much in the etcd of all tenants. Counts as `measureKeys` does. Throws
 * `DatastoreQuotaExceeded` before the first that is too much.
 */
export async function* withinDatastoreQuota(
  { id, vc }: Pick<Tenant, 'id' | 'vc'>,
  entries: AsyncIterable<Entry>,
): AsyncGenerator<Entry> {
  const limits = datastoreLimits(vc);
  const prefixLength = Buffer.byteLength(tenantPrefix(id));
  let keys = 0;
  let bytes = 0;
  for await (const entry of entries) {
    keys += 1;
    bytes += prefixLength + Buffer.byteLength(entry.key) + entry.value.length;
    if (keys > limits.keys) throw datastoreQuotaExceeded('datastore.keys', String(Math.floor(limits.keys)));
    if (bytes > limits.bytes)
      throw datastoreQuotaExceeded('datastore.bytes', inMiB(limits.bytes));
    yield entry;
  }
}

/** Reads the entries to their end, and writes nothing. Throws `DatastoreQuotaExceeded`. */
export async function checkDatastoreQuota(
  tenant: Pick<Tenant, 'id' | 'vc'>,
  entries: AsyncIterable<Entry>,
): Promise<void> {
  for await (const _ of withinDatastoreQuota(tenant, entries));
}
