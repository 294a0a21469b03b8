import { isJoined } from '../../api/conditions.ts';
import { defaultDriver } from '../../api/drivers.ts';
import { labelKeys } from '../../api/labels.ts';
import { activityLeaseName } from '../../api/names.ts';
import {
  deleteIfPresent,
  type KubeClient,
  type KubeObject,
  type Resource,
  resources,
} from '../../kube/index.ts';
import type { ControlPlaneDriver } from '../drivers/driver.ts';
import { driverChanged, OperatorError, RequeueAfter } from './errors.ts';
import { assertIdClaim } from './id-claim.ts';
import type { Services } from './services.ts';
import type { Step } from './step-runner.ts';
import { releaseReservations } from './steps/service-slice.ts';
import { dropFinalizer, ownedId, type Tenant } from './tenant.ts';
import { removeSecrets } from './tenant-secrets.ts';

/**
 * The syncer leaves first: else it would write again what is deleted here. A syncer that does not run is waited for no
 * longer than `leaveTimeoutMs`, by this manager's own clock.
 */
const waitForSyncer: Step = {
  name: 'leave',
  doing: 'Waiting for the syncer to leave',
  async run(tenant, { settings, clock, leavingSinceMs }) {
    if (!isJoined(tenant.vc)) return;
    const now = clock.monotonic();
    const since = leavingSinceMs.get(tenant.uid) ?? now;
    leavingSinceMs.set(tenant.uid, since);
    const leftMs = since + settings.leaveTimeoutMs - now;
    if (leftMs > 0) throw new RequeueAfter(waitForSyncer.doing, leftMs);
  },
};

/**
 * The id under which things may be removed. One that only the annotation has is not believed when there is something
 * under it: the manager writes the status before it makes anything.
 */
async function removableId(tenant: Tenant, services: Services): Promise<string | undefined> {
  const id = ownedId(tenant, services);
  if (id === undefined || tenant.vc.status?.id !== undefined) return id;
  try {
    await assertIdClaim(tenant, services, id);
    return id;
  } catch (error) {
    if (error instanceof OperatorError && error.code === 'IdNotProven') return undefined;
    throw error;
  }
}

/** Of one that moves both. */
function driversOf({ vc }: Tenant, { driver, drivers }: Services): Set<ControlPlaneDriver> {
  const { from, to } = vc.status?.move ?? {};
  const places = [from, to].map((place) => place && drivers.get(place.driver));
  return new Set([driver, ...places.filter((each) => each !== undefined)]);
}

const stopControlPlane: Step = {
  name: 'stop-control-plane',
  doing: 'Stopping the control plane',
  async run(tenant, services) {
    const id = await removableId(tenant, services);
    if (id === undefined) return;
    for (const driver of driversOf(tenant, services)) await driver.stop(id, { signal: tenant.signal });
  },
};

/** Keys, user and role. Nothing of the tenant runs any more that could write new keys. */
const removeDatastore: Step = {
  name: 'remove-datastore',
  doing: 'Removing its data from the datastore',
  async run(tenant, services) {
    const id = await removableId(tenant, services);
    if (id !== undefined) await services.datastore.removeTenant(id, { signal: tenant.signal });
  },
};

/** Processes, files, logs. */
const removeControlPlane: Step = {
  name: 'remove-control-plane',
  doing: 'Removing the files of the control plane',
  async run(tenant, services) {
    const id = await removableId(tenant, services);
    if (id === undefined) return;
    for (const driver of driversOf(tenant, services)) await driver.remove(id, { signal: tenant.signal });
  },
};

const pollMs = 500;

/**
 * All objects of the tenant in the super cluster, found by the label with its UID only. Namespaces go first, with
 * everything in them; a volume goes when no claim in them holds it any more.
 */
const removeSuperNamespaces: Step = {
  name: 'super-namespaces',
  doing: 'Deleting namespaces in the super cluster',
  async run(tenant, { client }) {
    await removeLabelled(tenant, client, resources.namespaces);
  },
};

const removeSuperVolumes: Step = {
  name: 'super-leftovers',
  doing: 'Deleting volumes in the super cluster',
  async run(tenant, { client }) {
    await removeLabelled(tenant, client, resources.persistentVolumes);
  },
};

/** Deletes, and throws RequeueAfter until nothing is left. */
async function removeLabelled(tenant: Tenant, client: KubeClient, resource: Resource): Promise<void> {
  const { signal } = tenant;
  const labelSelector = `${labelKeys.tenant}=${tenant.uid}`;
  const { items } = await client.list(resource, { labelSelector, signal });
  for (const object of items) {
    const { name = '', uid, deletionTimestamp } = object.metadata;
    if (deletionTimestamp !== undefined) continue;
    await deleteIfPresent(client, resource, { name }, { uid, signal, propagationPolicy: 'Background' });
  }
  if (items.length === 0) return;
  const names = items.slice(0, 3).map((object) => object.metadata.name);
  const more = items.length > names.length ? ` and ${items.length - names.length} more` : '';
  throw new RequeueAfter(
    `Waiting until ${resource.plural} are gone: ${names.join(', ')}${more}${whyStuck(items)}`,
    pollMs,
  );
}

/** The message of the first condition that says why an object is not gone yet. */
function whyStuck(items: readonly KubeObject[]): string {
  for (const { status } of items as (KubeObject & {
    status?: { conditions?: { status: string; message?: string }[] };
  })[]) {
    const stuck = status?.conditions?.find((condition) => condition.status === 'True');
    if (stuck?.message !== undefined) return `. ${stuck.message}`;
  }
  return '';
}

/** Wherever they are. Nothing else is left under the id by now. */
const removeTenantSecrets: Step = {
  name: 'remove-secrets',
  doing: 'Deleting its Secrets',
  async run(tenant, services) {
    await removeSecrets(tenant, services, await removableId(tenant, services));
  },
};

/** By which the gateway says when it was last used. */
const removeActivity: Step = {
  name: 'remove-activity',
  doing: 'Deleting its Lease',
  async run(tenant, { client, settings }) {
    const id = tenant.vc.status?.id;
    if (id === undefined) return;
    const ref = { namespace: settings.namespace, name: activityLeaseName(id) };
    await deleteIfPresent(client, resources.leases, ref, { signal: tenant.signal });
  },
};

/** Comes last: without the finalizer the object is gone. */
const removeFinalizer: Step = {
  name: 'remove-finalizer',
  doing: 'Letting the object go',
  run: dropFinalizer,
};

const removeReservations: Step = {
  name: 'remove-reservations',
  doing: 'Giving its service addresses back',
  run: releaseReservations,
};

/** Comes first, so that nothing is half removed: this manager cannot see or stop what another driver runs. */
const checkDriver: Step = {
  name: 'own-driver',
  doing: 'Looking which driver runs it',
  async run(tenant, { drivers, settings }) {
    const { driver: has = defaultDriver, move } = tenant.vc.status ?? {};
    if (tenant.wasStarted && has !== settings.driver) throw driverChanged(has, settings.driver);
    for (const { driver } of move === undefined ? [] : [move.from, move.to])
      if (!drivers.has(driver)) throw driverChanged(driver, settings.driver);
  },
};

/** Remove everything that a deleted VirtualCluster has, in this order. */
export const removalSteps: readonly Step[] = [
  checkDriver,
  waitForSyncer,
  stopControlPlane,
  removeSuperNamespaces,
  removeSuperVolumes,
  removeDatastore,
  removeControlPlane,
  removeReservations,
  removeTenantSecrets,
  removeActivity,
  removeFinalizer,
];
