import { labelKeys } from '../../../api/labels.ts';
import {
  ApiError,
  isAlreadyExists,
  isConflict,
  isForbidden,
  isNotFound,
  type KubeObject,
  type ObjectRef,
  type Resource,
  resources,
} from '../../../kube/index.ts';
import { isInRange } from '../../os/network.ts';
import { pagesOf } from '../objects.ts';
import type { Services } from '../services.ts';
import { inTurn, withSnapshot } from '../snapshot-files.ts';
import type { Step } from '../step-runner.ts';
import type { Tenant } from '../tenant.ts';
import { checkDatastoreQuota, encryptedEntries, replaceKeys, withKeys } from '../tenant-keys.ts';
import { ensureOnlyDatastore, stopWriters } from './control-plane.ts';

/*
 * A new tenant from the snapshot of another one, of this installation or of another. What belongs to the place where
 * that one ran does not come along: its addresses, nodes, volumes and identity. The first step fills the datastore, before an
 * API server runs; the second has the API server make anew what is bound to the other place. Until both are through, and
 * before any client is let in, they begin from the beginning: a manager that is killed leaves nothing half done.
 */

function isNeeded({ vc, wasReady }: Tenant): boolean {
  return vc.spec?.restoreFrom !== undefined && !wasReady && vc.status?.restored === undefined;
}

export const fillFromSnapshot: Step = {
  name: 'fill',
  doing: 'Filling it from a snapshot',
  condition: 'DatastoreReady',
  async run(tenant, services) {
    if (!isNeeded(tenant)) return;
    const from = tenant.vc.spec?.restoreFrom ?? '';
    if (tenant.ownDatastore !== undefined) await ensureOnlyDatastore(tenant, services);
    if (!(await isOurs(tenant, services, from))) return;
    await inTurn(tenant, services, async () => {
      await check(tenant, services, from);
      await withSnapshot(tenant, services, from, async ({ entries }) => {
        // What an earlier attempt has started.
        if (tenant.wasStarted) await stopWriters(tenant, services);
        const isWanted = (key: string): boolean => !isOfPlace(key) && !isRemote(key);
        await replaceKeys(tenant, services, encryptedEntries(tenant, entries, isWanted));
      });
    });
  },
};

/**
 * Reads all of it, before the first key is written. Throws SnapshotError, and `DatastoreQuotaExceeded` where it would go
 * into the datastore of all tenants.
 */
async function check(tenant: Tenant, services: Services, from: string): Promise<void> {
  await withSnapshot(tenant, services, from, async ({ entries }) => {
    const all = encryptedEntries(tenant, entries, (key) => !isOfPlace(key));
    if (tenant.ownDatastore === undefined) await checkDatastoreQuota(tenant, all);
    else for await (const _ of all);
  });
}

/**
 * Whether what it has in the datastore is nothing, or what an earlier attempt has written: the status says so before the
 * first key. A VirtualCluster that was restored without its status finds its own data again, which is not to be replaced.
 */
async function isOurs(tenant: Tenant, services: Services, from: string): Promise<boolean> {
  if (tenant.vc.status?.restore !== undefined) return true;
  const count = await withKeys(tenant, services, (keys) => keys.count({ signal: tenant.signal }));
  if (count > 0) return false;
  tenant.status.set({ restore: { request: '', from } });
  await tenant.status.flush();
  return true;
}

export const adaptFromSnapshot: Step = {
  name: 'adapt',
  doing: 'Making anew what was bound to another place',
  condition: 'DatastoreReady',
  async run(tenant, services) {
    if (!isNeeded(tenant) || tenant.vc.status?.restore === undefined) return;
    const from = tenant.vc.spec?.restoreFrom ?? '';
    await recreateBoundObjects(tenant, tenant.required(tenant.vc.status?.serviceCIDR, 'service slice'));
    // Not in turn: if it had to wait, the next attempt would begin with filling it.
    await withSnapshot(tenant, services, from, ({ entries }) =>
      replaceKeys(tenant, services, encryptedEntries(tenant, entries, isRemote), true),
    );
    const at = new Date(services.clock.now()).toISOString();
    tenant.status.set(({ restore: _, ...status }) => ({ ...status, restored: { request: '', from, at } }));
    await tenant.status.flush();
  },
};

/** By the keys of kube-apiserver's registry, where nodes are `minions`. */
const placeBound: readonly string[] = [
  'minions/',
  'csinodes/',
  'volumeattachments/',
  'persistentvolumes/',
  'ipaddresses/',
  'servicecidrs/',
  'services/specs/default/kubernetes',
  'services/endpoints/default/kubernetes',
  'endpointslices/default/kubernetes',
];
/** By its UID clusters are told apart. */
const identity = 'namespaces/kube-system';

function isOfPlace(key: string): boolean {
  return (
    key === identity || placeBound.some((each) => (each.endsWith('/') ? key.startsWith(each) : key === each))
  );
}

/**
 * What makes the API server ask servers of the tenant, none of which runs yet: it comes when the rest is adapted, or they
 * would hold that up.
 */
const remote: readonly string[] = [
  'validatingwebhookconfigurations/',
  'mutatingwebhookconfigurations/',
  'apiregistration.k8s.io/apiservices/',
];

function isRemote(key: string): boolean {
  return remote.some((each) => key.startsWith(each));
}

interface Pod extends KubeObject {
  spec?: { nodeName?: string };
  status?: { phase?: string };
}

interface Service extends KubeObject {
  spec?: { type?: string; clusterIP?: string; ports?: Record<string, unknown>[] };
}

interface Claim extends KubeObject {
  spec?: { volumeName?: string };
}

/** Claims before the pods that use them: those are deleted while they still wait for a node. */
async function recreateBoundObjects(tenant: Tenant, serviceCIDR: string): Promise<void> {
  await eachOf<Claim>(tenant, resources.persistentVolumeClaims, async (claim) => {
    if (claim.spec?.volumeName === undefined) return;
    const { volumeName: _, ...spec } = claim.spec;
    const annotations = Object.entries(claim.metadata.annotations ?? {}).filter(
      ([key]) => !key.startsWith('pv.kubernetes.io/') && !key.startsWith('volume.kubernetes.io/'),
    );
    await makeAnew(
      tenant,
      resources.persistentVolumeClaims,
      claim,
      { spec },
      Object.fromEntries(annotations),
    );
  });
  await eachOf<Pod>(tenant, resources.pods, async (pod) => {
    const { nodeName, ...spec } = pod.spec ?? {};
    const isOver = pod.status?.phase === 'Succeeded' || pod.status?.phase === 'Failed';
    if (nodeName === undefined || isOver) return;
    const isOwned = pod.metadata.ownerReferences?.some(({ controller }) => controller === true) === true;
    // Its controller makes another one.
    if (isOwned) await remove(tenant, resources.pods, pod);
    else await makeAnew(tenant, resources.pods, pod, { spec });
  });
  await eachOf<Service>(tenant, resources.services, async (service) => {
    const { clusterIP = 'None', type } = service.spec ?? {};
    if (
      clusterIP === 'None' ||
      clusterIP === '' ||
      type === 'ExternalName' ||
      isInRange(clusterIP, serviceCIDR)
    )
      return;
    // Addons are installed by a later step, at an address of their own.
    if (service.metadata.labels?.[labelKeys.addon] !== undefined) {
      await remove(tenant, resources.services, service);
      return;
    }
    const {
      clusterIP: _,
      clusterIPs: __,
      healthCheckNodePort: ___,
      ports = [],
      ...rest
    } = service.spec as Record<string, unknown> & { ports?: Record<string, unknown>[] };
    const spec = { ...rest, ports: ports.map(({ nodePort: _, ...port }) => port) };
    await makeAnew(tenant, resources.services, service, { spec });
  });
}

async function eachOf<T extends KubeObject>(
  { client, signal }: Tenant,
  resource: Resource,
  work: (object: T) => Promise<void>,
): Promise<void> {
  for await (const page of pagesOf<T>(client, resource, signal))
    for (const object of page) await work(object);
}

function refOf({ metadata }: KubeObject): ObjectRef {
  return { namespace: metadata.namespace, name: metadata.name ?? '' };
}

/** At once: nothing of it runs here, so nothing has to end in order. */
async function remove({ client, signal }: Tenant, resource: Resource, object: KubeObject): Promise<void> {
  try {
    await client.delete(resource, refOf(object), { signal, gracePeriodSeconds: 0 });
    if ((object.metadata.finalizers ?? []).length > 0)
      await client.patch(
        resource,
        refOf(object),
        { metadata: { finalizers: null } },
        { type: 'merge', signal },
      );
  } catch (error) {
    if (!isNotFound(error)) throw error;
  }
}

/** A quota counts what is deleted a moment later. */
const patienceMs = 30_000;

async function makeAnew(
  tenant: Tenant,
  resource: Resource,
  object: KubeObject,
  fields: { spec: object },
  annotations: Record<string, string> | undefined = object.metadata.annotations,
): Promise<void> {
  const { client, clock, signal } = tenant;
  await remove(tenant, resource, object);
  const { name = '', namespace = '', labels, ownerReferences } = object.metadata;
  const anew: KubeObject = {
    metadata: {
      ...{ name, namespace },
      ...(labels && { labels }),
      ...(annotations && { annotations }),
      ...(ownerReferences && { ownerReferences }),
    },
    ...fields,
  };
  const endMs = clock.monotonic() + patienceMs;
  for (;;) {
    try {
      await client.create(resource, anew, { signal });
      return;
    } catch (error) {
      // The namespace is on its way out, and all of it with it.
      if (error instanceof ApiError && error.hasCause('NamespaceTerminating')) return;
      const isSoonOver = isAlreadyExists(error) || isConflict(error) || isForbidden(error);
      if (!isSoonOver || clock.monotonic() > endMs) throw error;
      await clock.sleep(250, signal);
    }
  }
}
