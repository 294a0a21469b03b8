import type { ControlPlaneDriver } from '../drivers/driver.ts';
import type { Fence } from '../jobs/tenant-lock.ts';
import { noLongerLeading } from './errors.ts';
import type { Datastore, OwnDatastore, Services } from './services.ts';

/** Throws `NoLongerLeading` unless the lease is held: a manager that slept past its lease must not act on what it knew before. */
export function assertHeld(fence: Fence): void {
  if (!fence.holdsNow()) throw noLongerLeading();
}

/** Services whose driver and datastore change something only while the lease is held. */
export function fenced(services: Services, { datastore }: { datastore: Datastore }, fence: Fence): Services {
  const drivers = new Map(
    [...services.drivers].map(([name, driver]) => [name, fencedDriver(driver, fence)] as const),
  );
  return {
    ...services,
    drivers,
    driver: drivers.get(services.settings.driver) ?? fencedDriver(services.driver, fence),
    datastore: fencedDatastore(datastore, fence),
    ownDatastore: (options) => fencedOwnDatastore(services.ownDatastore(options), fence),
  };
}

/** A driver that changes something only while the lease is held. Reads are not fenced. */
export function fencedDriver(driver: ControlPlaneDriver, fence: Fence): ControlPlaneDriver {
  const locate = driver.locate?.bind(driver);
  const routeAddress = driver.routeAddress?.bind(driver);
  const unrouteAddress = driver.unrouteAddress?.bind(driver);
  const provide = driver.provide?.bind(driver);
  return {
    ...(driver.isShared === undefined ? {} : { isShared: driver.isShared }),
    ...(driver.confinement === undefined ? {} : { confinement: driver.confinement }),
    ...(locate && {
      locate: async (id, options) => {
        assertHeld(fence);
        return locate(id, options);
      },
    }),
    ...(routeAddress && {
      routeAddress: async (id, address, options) => {
        assertHeld(fence);
        return routeAddress(id, address, options);
      },
    }),
    ...(unrouteAddress && {
      unrouteAddress: async (id, options) => {
        assertHeld(fence);
        await unrouteAddress(id, options);
      },
    }),
    ...(provide && { provide }),
    ensure: async (plan, options) => {
      assertHeld(fence);
      await driver.ensure(plan, { ...options, beforeWrite: () => assertHeld(fence) });
    },
    stop: async (id, options) => {
      assertHeld(fence);
      await driver.stop(id, options);
    },
    remove: async (id, options) => {
      assertHeld(fence);
      await driver.remove(id, options);
    },
    observe: (id) => driver.observe(id),
    watch: (listener) => driver.watch(listener),
    list: () => driver.list(),
    logs: (id, component, options) => driver.logs(id, component, options),
  };
}

/** A datastore that changes something only while the lease is held. */
export function fencedDatastore(datastore: Datastore, fence: Fence): Datastore {
  return {
    ensureTenant: async (id, options) => {
      assertHeld(fence);
      return datastore.ensureTenant(id, options);
    },
    removeTenant: async (id, options) => {
      assertHeld(fence);
      await datastore.removeTenant(id, { ...options, beforeWrite: () => assertHeld(fence) });
    },
    listTenants: (options) => datastore.listTenants(options),
    countTenantKeys: (id, options) => datastore.countTenantKeys(id, options),
    measureTenant: (id, enoughBytes, options) => datastore.measureTenant(id, enoughBytes, options),
    viewTenant: (id, options) => datastore.viewTenant(id, options),
    replaceTenant: async (id, entries, options) => {
      assertHeld(fence);
      return datastore.replaceTenant(id, entries, options);
    },
    raise: async (target, options) => {
      assertHeld(fence);
      return datastore.raise(target, options);
    },
    size: (options) => datastore.size(options),
    compact: async (revision, options) => {
      assertHeld(fence);
      await datastore.compact(revision, options);
    },
  };
}

function fencedOwnDatastore(datastore: OwnDatastore, fence: Fence): OwnDatastore {
  return {
    count: (options) => datastore.count(options),
    view: (options) => datastore.view(options),
    replace: async (entries, options) => {
      assertHeld(fence);
      return datastore.replace(entries, options);
    },
    raise: async (target, options) => {
      assertHeld(fence);
      return datastore.raise(target, options);
    },
    close: () => datastore.close(),
  };
}
