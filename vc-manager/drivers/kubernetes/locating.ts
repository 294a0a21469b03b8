import { isIPv6 } from 'node:net';
import { resources } from '../../../kube/index.ts';
import type { LocateOptions, Location } from '../driver.ts';
import { namespaceManifest, serviceManifest } from './manifests/index.ts';
import { apiServer, apiServerPort, datastore, namespaceOf } from './names.ts';
import { ensureNamespace } from './namespaces.ts';
import type { SuperObjects } from './super-objects.ts';

/** At which API servers listen in their pods. */
export const apiServerBindPort = 6443;
/** etcd's own, in a pod that nobody else listens in. */
const datastorePorts = { etcd: 2379, 'etcd-peer': 2380, 'etcd-metrics': 2381 } as const;

/**
 * Addresses of Services, which are made when there are none: they stand in certificates, before there is anything behind
 * them. `hasStorage`: an etcd that were made now would have a volume.
 */
export async function locateControlPlane(
  objects: SuperObjects,
  id: string,
  { signal, withDatastore = false, hasStorage }: LocateOptions & { hasStorage: boolean },
): Promise<Location> {
  await ensureNamespace(objects, namespaceManifest(id), signal);
  const host = await addressOf(objects, { id, component: apiServer, port: apiServerBindPort }, signal);
  const location: Location = {
    host,
    port: apiServerPort,
    names: namesOf(id, apiServer),
    bindAddress: isIPv6(host) ? '::' : '0.0.0.0',
    bindPort: apiServerBindPort,
    ports: datastorePorts,
  };
  if (!withDatastore) return location;
  const port = datastorePorts.etcd;
  const address = await addressOf(objects, { id, component: datastore, port }, signal);
  const isKept = (await keepsDatastore(objects, id, signal)) ?? hasStorage;
  return { ...location, datastore: { host: address, port, names: namesOf(id, datastore), isKept } };
}

async function addressOf(
  objects: SuperObjects,
  { id, component, port }: { id: string; component: string; port: number },
  signal: AbortSignal,
): Promise<string> {
  const ref = { namespace: namespaceOf(id), name: component };
  const service =
    (await objects.find(resources.services, ref, signal)) ??
    (await objects.apply(resources.services, serviceManifest(id, component, port), signal));
  return (service['spec'] as { clusterIP: string }).clusterIP;
}

/** Of the etcd that is there; undefined while there is none. What it has for storage is never changed. */
async function keepsDatastore(
  objects: SuperObjects,
  id: string,
  signal: AbortSignal,
): Promise<boolean | undefined> {
  // Listed: the manager has no right to get one.
  const set = (await objects.statefulSets(id, signal)).find(({ metadata }) => metadata.name === datastore);
  return set && (set.spec?.volumeClaimTemplates ?? []).length > 0;
}

function namesOf(id: string, component: string): string[] {
  const name = `${component}.${namespaceOf(id)}`;
  return [name, `${name}.svc`];
}
