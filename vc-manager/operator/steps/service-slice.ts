import { labelKeys } from '../../../api/labels.ts';
import { group } from '../../../api/names.ts';
import { isForPods, reservedOffsets } from '../../../api/tenant-state.ts';
import {
  deleteIfPresent,
  ignoreNotFound,
  isAlreadyExists,
  type KubeClient,
  type KubeObject,
  type Resource,
  resources,
} from '../../../kube/index.ts';
import { addressAt, allocateSlice } from '../../os/network.ts';
import { addressNotFreed, addressTaken, poolExhausted } from '../errors.ts';
import type { Services } from '../services.ts';
import type { Step } from '../step-runner.ts';
import type { Tenant } from '../tenant.ts';

/**
 * The tenant's slice of the service pool. Written into the status, with what earlier steps have chosen, before its
 * addresses are reserved.
 */
export const serviceSlice: Step = {
  name: 'service-slice',
  doing: 'Choosing a range of service addresses',
  condition: 'ServiceSliceReady',
  async run(tenant, services) {
    await recordServiceSlice(
      tenant,
      services,
      tenant.vc.status?.serviceCIDR ?? allocateServiceSlice(tenant, services, []),
    );
  },
};

/** The slice is the tenant's once its addresses are reserved: only one of two managers can create the reservations. */
export const reservations: Step = {
  name: 'reservations',
  doing: 'Reserving service addresses',
  condition: 'ServiceSliceReady',
  async run(tenant, services) {
    const refused: string[] = [];
    let slice = tenant.required(tenant.vc.status?.serviceCIDR, 'service slice');
    const mode = tenant.vc.status?.serviceIPMode;
    while (mode !== 'assigned') {
      const conflict = await reserveAddresses(tenant, services, slice);
      if (conflict === undefined) break;
      if (tenant.wasStarted) throw addressTaken(conflict.address, slice, conflict.holder);
      refused.push(slice);
      await releaseReservations(tenant, services);
      slice = allocateServiceSlice(tenant, services, refused);
      await recordServiceSlice(tenant, services, slice);
    }
    const how = mode === 'slice' ? 'its own' : 'assigned by the super cluster';
    tenant.status.condition('ServiceSliceReady', 'True', 'Reserved', `Service addresses: ${slice}, ${how}.`);
  },
};

async function recordServiceSlice(tenant: Tenant, { pool }: Services, serviceCIDR: string): Promise<void> {
  tenant.status.set(({ serviceIPMode = pool.mode, ...status }) => ({
    ...status,
    serviceIPMode,
    serviceCIDR,
  }));
  await tenant.status.flush();
}

function allocateServiceSlice(tenant: Tenant, services: Services, refused: readonly string[]): string {
  const { allocations, pool, settings } = services;
  const taken = [...allocations.slices(tenant.uid), ...refused];
  const slice = allocateSlice(pool.cidr, settings.slicePrefixLength, taken);
  if (slice === undefined) throw poolExhausted(pool.cidr, settings.slicePrefixLength);
  allocations.remember(tenant.uid, { slice });
  return slice;
}

interface IPAddress extends KubeObject {
  spec?: { parentRef?: { group?: string; resource?: string; namespace?: string; name?: string } };
}

/** An address of the slice that another object has. */
interface Conflict {
  address: string;
  holder: string;
}

/** Where pods look for their API server. */
const apiServer = 'kubernetes';
const reserved = [
  { purpose: apiServer, offset: reservedOffsets.apiServer },
  { purpose: 'dns', offset: reservedOffsets.dns },
];

/**
 * Keeps the super cluster from assigning a tenant's fixed addresses to other Services: it hands out no address that
 * has an IPAddress object, and leaves objects alone that its own allocator did not make. The syncer takes
 * a reservation over by replacing it with the Service; that counts as reserved.
 */
async function reserveAddresses(
  tenant: Tenant,
  services: Services,
  slice: string,
): Promise<Conflict | undefined> {
  // The addresses of a slice that was just chosen are free, as a rule.
  const likely = tenant.wasStarted ? 'there' : 'absent';
  await giveBack(tenant, services);
  const isLed = services.driver.routeAddress !== undefined && !isForPods(tenant.vc.status?.gateway);
  const conflicts = await Promise.all(
    reserved.map(({ purpose, offset }) => {
      const address = addressAt(slice, offset);
      return purpose === apiServer && isLed
        ? routeToApiServer(tenant, services, address)
        : reserveAddress(tenant, services, { address, purpose, likely });
    }),
  );
  return conflicts.find((conflict) => conflict !== undefined);
}

/**
 * The address, by drivers that lead no client there any more: that which does not run it, of one that moves, and that of pods
 * which go through the gateway.
 */
async function giveBack({ vc, id, signal }: Tenant, { driver, drivers }: Services): Promise<void> {
  const { move, gateway } = vc.status ?? {};
  const places = move === undefined ? [] : [move.from, move.to];
  for (const each of new Set([driver, ...places.map((place) => drivers.get(place.driver))]))
    if (each !== driver || isForPods(gateway)) await each?.unrouteAddress?.(id, { signal });
}

/**
 * As `reserveAddress`, for a driver that puts a Service at the address, which reserves it too. What this tenant has there
 * from a driver that routed nothing makes room: the reservation, or the syncer's Service in its place. Throws
 * `AddressNotFreed`.
 */
async function routeToApiServer(
  tenant: Tenant,
  { client, driver, clock }: Services,
  address: string,
): Promise<Conflict | undefined> {
  const { id, signal } = tenant;
  const endMs = clock.monotonic() + freedWithinMs;
  while (!(await driver.routeAddress?.(id, address, { signal }))) {
    const existing = await ignoreNotFound(
      client.get<IPAddress>(resources.ipAddresses, { name: address }, { signal }),
    );
    const service = existing && (await serviceAt(tenant, client, existing));
    const isReserved = isOf(tenant, existing);
    const isSyncers = isOf(tenant, service);
    // A new one takes another slice. What has just been deleted leaves the address a moment later.
    const mayBeFree = isReserved || isSyncers || (tenant.wasStarted && isBeingFreed(existing, service));
    if (!mayBeFree) return conflictOf(address, existing);
    // Before it is deleted once more: it reserves the address at the old place too.
    if (clock.monotonic() >= endMs)
      throw addressNotFreed(address, conflictOf(address, existing).holder, freedWithinMs / 1_000);
    if (isReserved) await deleteObject(client, resources.ipAddresses, existing, signal);
    else if (isSyncers) await deleteObject(client, resources.services, service, signal);
    // A syncer that has not left yet makes its Service again.
    await clock.sleep(againAfterMs, signal);
  }
  return undefined;
}

const againAfterMs = 50;
/** A syncer that works leaves within seconds. */
const freedWithinMs = 20_000;

/** The Service that has this address. */
async function serviceAt(
  { signal }: Tenant,
  client: KubeClient,
  { spec }: IPAddress,
): Promise<KubeObject | undefined> {
  const { resource, namespace, name } = spec?.parentRef ?? {};
  if (resource !== 'services' || name === undefined) return undefined;
  return ignoreNotFound(client.get(resources.services, { namespace, name }, { signal }));
}

function isOf<T extends KubeObject>({ uid }: Tenant, object: T | undefined): object is T {
  return object?.metadata.labels?.[labelKeys.tenant] === uid;
}

function isBeingFreed(existing: IPAddress | undefined, service: KubeObject | undefined): boolean {
  return (
    existing === undefined || (existing.spec?.parentRef?.resource === 'services' && service === undefined)
  );
}

async function reserveAddress(
  tenant: Tenant,
  services: Services,
  { address, purpose, likely }: { address: string; purpose: string; likely: 'there' | 'absent' },
): Promise<Conflict | undefined> {
  const { client } = services;
  const { signal } = tenant;
  const existing =
    likely === 'absent'
      ? undefined
      : await ignoreNotFound(client.get<IPAddress>(resources.ipAddresses, { name: address }, { signal }));
  if (existing === undefined) {
    try {
      await client.create<IPAddress>(resources.ipAddresses, reservation(tenant, address, purpose), {
        signal,
      });
      return undefined;
    } catch (error) {
      if (!isAlreadyExists(error)) throw error;
      return await reserveAddress(tenant, services, { address, purpose, likely: 'there' });
    }
  }
  if (existing.metadata.labels?.[labelKeys.tenant] === tenant.uid) return undefined;
  if (isOf(tenant, await serviceAt(tenant, client, existing))) return undefined;
  return conflictOf(address, existing);
}

function conflictOf(address: string, existing: IPAddress | undefined): Conflict {
  const { resource, namespace, name } = existing?.spec?.parentRef ?? {};
  const path = [resource, namespace, name].filter(Boolean).join('/');
  return { address, holder: path || `IPAddress ${address}` };
}

function reservation(tenant: Tenant, address: string, purpose: string): IPAddress {
  return {
    metadata: { name: address, labels: { [labelKeys.tenant]: tenant.uid, [labelKeys.reserved]: purpose } },
    spec: { parentRef: { group, resource: resources.virtualClusters.plural, ...tenant.ref } },
  };
}

/** Releases all addresses that are reserved for the tenant, in any slice. */
export async function releaseReservations(tenant: Tenant, { client }: Services): Promise<void> {
  const { signal, uid } = tenant;
  for (const address of await reservationsOf(uid, client, signal))
    await deleteObject(client, resources.ipAddresses, address, signal);
}

/** Makes those that are reserved for the VirtualCluster with the UID `from` this tenant's. */
export async function moveReservations(tenant: Tenant, { client }: Services, from: string): Promise<void> {
  const { signal } = tenant;
  const labels = { [labelKeys.tenant]: tenant.uid };
  await Promise.all(
    (await reservationsOf(from, client, signal)).map(({ metadata: { name = '', uid } }) =>
      client.patch(resources.ipAddresses, { name }, { metadata: { labels, uid } }, { type: 'merge', signal }),
    ),
  );
}

async function reservationsOf(uid: string, client: KubeClient, signal: AbortSignal): Promise<KubeObject[]> {
  const labelSelector = `${labelKeys.tenant}=${uid},${labelKeys.reserved}`;
  // A super cluster that does not know IPAddress has no reservations.
  const found = await ignoreNotFound(client.list(resources.ipAddresses, { labelSelector, signal }));
  return found?.items ?? [];
}

async function deleteObject(
  client: KubeClient,
  resource: Resource,
  { metadata: { namespace, name = '', uid } }: KubeObject,
  signal: AbortSignal,
): Promise<void> {
  await deleteIfPresent(client, resource, { namespace, name }, { uid, signal });
}
