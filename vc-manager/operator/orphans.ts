import { annotationKeys, labelKeys } from '../../api/labels.ts';
import { internalSecretNames } from '../../api/names.ts';
import type { VirtualCluster } from '../../api/virtual-cluster.ts';
import {
  ignoreNotFound,
  type KubeClient,
  type KubeObject,
  type Resource,
  resources,
} from '../../kube/index.ts';
import type { ControlPlaneDriver } from '../drivers/driver.ts';
import type { Datastore } from './services.ts';

/** What is left of VirtualClusters that do not exist. No reconcile removes it (sync rule `orphans`). */
export interface Orphans {
  /** Ids whose processes or files exist. */
  controlPlanes: string[];
  /** Ids that have a user, a role or keys in the datastore. */
  datastores: string[];
  /** Objects in the super cluster by the UID of the VirtualCluster that they were made for. */
  superObjects: { resource: Resource; name: string; tenantUid: string }[];
  /** Secrets in Skerry's own namespace, by the id that they are named by. */
  secrets: { namespace: string; name: string; id: string }[];
}

const labelled: readonly Resource[] = [
  resources.namespaces,
  resources.persistentVolumes,
  resources.ipAddresses,
];

/**
 * Reads only. The VirtualClusters are listed first and last: what belongs to one that is deleted or created meanwhile is
 * no orphan.
 */
export async function findOrphans(options: {
  client: KubeClient;
  driver: Pick<ControlPlaneDriver, 'list'>;
  datastore: Pick<Datastore, 'listTenants'>;
  signal: AbortSignal;
}): Promise<Orphans> {
  const { client, driver, datastore, signal } = options;
  const list = async (): Promise<VirtualCluster[]> =>
    (await client.list<VirtualCluster>(resources.virtualClusters, { signal })).items;
  const before = await list();
  const controlPlanes = await driver.list();
  const { users, roles, prefixes } = await datastore.listTenants({ signal });
  const objects: Orphans['superObjects'] = [];
  for (const resource of labelled) {
    for (const { metadata } of await listLabelled(client, resource, signal)) {
      objects.push({
        resource,
        name: metadata.name ?? '',
        tenantUid: metadata.labels?.[labelKeys.tenant] ?? '',
      });
    }
  }
  const secrets = await listSecrets(client, signal);
  const items = [...before, ...(await list())];
  const ids = new Set(items.map((vc) => vc.status?.id ?? vc.metadata.annotations?.[annotationKeys.id]));
  const uids = new Set(items.map((vc) => vc.metadata.uid));
  const unknown = (each: Iterable<string>): string[] =>
    [...new Set(each)].filter((id) => !ids.has(id)).sort();
  return {
    controlPlanes: unknown(controlPlanes),
    datastores: unknown([...users, ...roles, ...prefixes]),
    superObjects: objects.filter(({ tenantUid }) => !uids.has(tenantUid)),
    secrets: secrets.filter(({ id }) => !ids.has(id)),
  };
}

async function listLabelled(
  client: KubeClient,
  resource: Resource,
  signal: AbortSignal,
): Promise<KubeObject[]> {
  const found = await ignoreNotFound(client.list(resource, { labelSelector: labelKeys.tenant, signal }));
  return found?.items ?? [];
}

async function listSecrets(client: KubeClient, signal: AbortSignal): Promise<Orphans['secrets']> {
  const { items } = await client.list(resources.secrets, {
    labelSelector: labelKeys.virtualCluster,
    metadataOnly: true,
    signal,
  });
  return items.flatMap(({ metadata: { namespace = '', name = '', annotations } }) => {
    const id = annotations?.[annotationKeys.id] ?? '';
    return Object.values(internalSecretNames(id)).includes(name) ? [{ namespace, name, id }] : [];
  });
}
