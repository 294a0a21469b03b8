import { isIPv6 } from 'node:net';
import { labelKeys } from '../../../api/labels.ts';
import { ApiError, resources } from '../../../kube/index.ts';
import type { LocateOptions, Location } from '../driver.ts';
import { namespaceManifest, serviceManifest } from './manifests.ts';
import { ensureNamespace, type SuperObjects } from './super-objects.ts';
import { apiServer, apiServerPort, datastore, labelsOf, namespaceOf } from './types.ts';

const name = 'kubernetes';

/**
 * Has a Service lead from this address to the API servers of a control plane, in the place of any earlier address. It
 * selects their pods: an address of a Service that leads to another Service's address leads nowhere, as it is
 * translated once. False when the address is taken.
 */
export async function routeToApiServers(
  objects: SuperObjects,
  id: string,
  { address, targetPort, signal }: { address: string; targetPort: number; signal: AbortSignal },
): Promise<boolean> {
  const ref = { namespace: namespaceOf(id), name };
  const there = await objects.find(resources.services, ref, signal);
  if (there !== undefined && (there['spec'] as { clusterIP?: string }).clusterIP !== address) {
    await objects.delete(resources.services, ref, { signal, uid: there.metadata.uid });
  }
  const service = {
    metadata: { ...ref, labels: labelsOf(id) },
    spec: {
      type: 'ClusterIP',
      clusterIP: address,
      selector: { [labelKeys.id]: id, [labelKeys.component]: apiServer },
      ports: [{ name: 'https', protocol: 'TCP', port: apiServerPort, targetPort }],
    },
  };
  try {
    await objects.apply(resources.services, service, signal);
    return true;
  } catch (error) {
    if (isTaken(error)) return false;
    throw error;
  }
}

/** Takes the Service away, if it is ours; its address is free then. */
export async function removeRoute(objects: SuperObjects, id: string, signal: AbortSignal): Promise<void> {
  const ref = { namespace: namespaceOf(id), name };
  const there = await objects.find(resources.services, ref, signal);
  if (there?.metadata.labels?.[labelKeys.id] !== id) return;
  await objects.delete(resources.services, ref, { signal, uid: there.metadata.uid });
}

function isTaken(error: unknown): boolean {
  if (!(error instanceof ApiError) || error.reason !== 'Invalid') return false;
  const causes = error.status?.details?.causes ?? [];
  return causes.some(
    ({ field = '', message = '' }) =>
      field.startsWith('spec.clusterIP') && message.includes('already allocated'),
  );
}

/** At which API servers listen in their pods. */
export const apiServerBindPort = 6443;
/** etcd's own, in a pod with no other listener. */
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
  };
  if (!withDatastore) return location;
  const port = datastorePorts.etcd;
  const address = await addressOf(objects, { id, component: datastore, port }, signal);
  const isKept = (await keepsDatastore(objects, id, signal)) ?? hasStorage;
  const names = namesOf(id, datastore);
  return { ...location, datastore: { host: address, port, names, isKept, ports: datastorePorts } };
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
