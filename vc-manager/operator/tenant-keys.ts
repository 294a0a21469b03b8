import { randomUUID } from 'node:crypto';
import type { Quota } from '../../api/quota.ts';
import type { VirtualCluster } from '../../api/virtual-cluster.ts';
import { parseExactQuantity } from '../../kube/index.ts';
import { hostInUrl } from '../../program/addresses.ts';
import type { TemplateChoice } from '../control-plane/template.ts';
import type { DatastoreLocation } from '../drivers/driver.ts';
import { tenantPrefix } from '../etcd/grants.ts';
import type { Entry, KeyspaceSize, KeyspaceView } from '../etcd/keyspace.ts';
import { writingKey } from '../pki/index.ts';
import type { Archive } from '../snapshot/archive.ts';
import { encrypted } from '../snapshot/secretbox.ts';
import { datastoreQuotaExceeded, inMiB } from './errors.ts';
import { recordProgress } from './jobs.ts';
import type { Services } from './services.ts';
import type { Tenant } from './tenant.ts';

interface Call {
  signal: AbortSignal;
}

/** What a tenant has in its datastore, shared or its own. */
export interface TenantKeys {
  count(call: Call): Promise<number>;
  view(call: Call): Promise<KeyspaceView>;
  /** Into the shared one: throws `DatastoreQuotaExceeded`. */
  replace(
    entries: AsyncIterable<Entry>,
    options: Call & { attempt: string; keepOthers?: boolean; onProgress?: (written: number) => void },
  ): Promise<number>;
  raise(target: number, options: Call & { isEnough?: () => boolean }): Promise<number>;
  close(): Promise<void>;
}

/** Of where it has them at present; an etcd of its own has to run. */
export async function withKeys<T>(
  tenant: Tenant,
  services: Services,
  work: (keys: TenantKeys) => Promise<T>,
): Promise<T> {
  const { ownDatastore, choice } = tenant;
  const keys =
    ownDatastore === undefined
      ? sharedKeys(tenant, services)
      : ownKeys(tenant, services, ownDatastore, tenant.required(choice, 'template'));
  try {
    return await work(keys);
  } finally {
    await keys.close();
  }
}

export function sharedKeys(tenant: Tenant, { datastore }: Pick<Services, 'datastore'>): TenantKeys {
  const { id } = tenant;
  return {
    count: (call) => datastore.countTenantKeys(id, call),
    view: (call) => datastore.viewTenant(id, call),
    replace: (entries, options) =>
      datastore.replaceTenant(id, withinDatastoreQuota(tenant, entries), options),
    raise: (target, options) => datastore.raise(target, options),
    close: async () => {},
  };
}

const apiServerName = 'kube-apiserver';

export function ownKeys(
  tenant: Tenant,
  { ownDatastore }: Pick<Services, 'ownDatastore'>,
  { host, port }: DatastoreLocation,
  { template }: TemplateChoice,
): TenantKeys {
  const { etcdCa, leafs } = tenant.required(tenant.pki, 'certificates');
  const { certPem: cert, keyPem: key } = tenant.required(leafs.etcdManager, 'certificate for its etcd');
  const apiServer = template.spec.components.find(({ name }) => name === apiServerName);
  return ownDatastore({
    endpoint: `https://${hostInUrl(host)}:${port}`,
    ca: tenant.required(etcdCa, 'authority of its etcd').certPem,
    cert,
    key,
    prefix: String(apiServer?.args?.['etcd-prefix'] ?? '/registry'),
  });
}

/** Those of a snapshot that are to be written, with the Secrets encrypted. All of it is read: the end says whether it is whole. */
export async function* encryptedEntries(
  tenant: Tenant,
  entries: Archive['entries'],
  isWanted: (key: string) => boolean = () => true,
): AsyncGenerator<Entry> {
  const key = writingKey(tenant.required(tenant.encryption, 'encryption key'));
  for await (const entry of entries) if (isWanted(entry.key)) yield encrypted(entry, key);
}

/** Writes these in place of what it has; `keepOthers`: beside it. Its job shows how far it is. */
export async function replaceKeys(
  tenant: Tenant,
  services: Services,
  entries: AsyncIterable<Entry>,
  keepOthers = false,
): Promise<void> {
  await withKeys(tenant, services, (keys) =>
    keys.replace(entries, {
      ...{ signal: tenant.signal, attempt: randomUUID(), keepOthers },
      onProgress: (written) => recordProgress(tenant, `${written} entries are written`),
    }),
  );
}

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
async function* withinDatastoreQuota(
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
    if (bytes > limits.bytes) throw datastoreQuotaExceeded('datastore.bytes', inMiB(limits.bytes));
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
