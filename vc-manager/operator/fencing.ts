import type { ControlPlaneDriver } from '../drivers/index.ts';
import { noLongerLeading } from './errors.ts';
import type { Datastore, Services } from './services.ts';

/** Whether this manager holds the lease at this moment, on its own monotonic clock. */
export interface Leadership {
  holdsNow(): boolean;
}

/** Throws `NoLongerLeading`: a manager that slept past its lease must not act on what it knew before. */
export function assertHeld(leadership: Leadership): void {
  if (!leadership.holdsNow()) throw noLongerLeading();
}

/** Services whose driver and datastore change something only while `leadership` is held. */
export function fenced(
  services: Services,
  { driver, datastore }: { driver: ControlPlaneDriver; datastore: Datastore },
  leadership: Leadership,
): Services {
  return {
    ...services,
    driver: fencedDriver(driver, leadership),
    datastore: fencedDatastore(datastore, leadership),
  };
}

/** The driver, asked to change something only while the lease is held. Looking is free. */
export function fencedDriver(driver: ControlPlaneDriver, leadership: Leadership): ControlPlaneDriver {
  const locate = driver.locate?.bind(driver);
  const lead = driver.lead?.bind(driver);
  return {
    ...(driver.isShared === undefined ? {} : { isShared: driver.isShared }),
    ...(locate && {
      locate: async (id, options) => {
        assertHeld(leadership);
        return locate(id, options);
      },
    }),
    ...(lead && {
      lead: async (id, address, options) => {
        assertHeld(leadership);
        return lead(id, address, options);
      },
    }),
    ensure: async (plan, options) => {
      assertHeld(leadership);
      await driver.ensure(plan, { ...options, beforeWrite: () => assertHeld(leadership) });
    },
    stop: async (id, options) => {
      assertHeld(leadership);
      await driver.stop(id, options);
    },
    remove: async (id, options) => {
      assertHeld(leadership);
      await driver.remove(id, options);
    },
    observe: (id) => driver.observe(id),
    watch: (listener) => driver.watch(listener),
    list: () => driver.list(),
    logs: (id, component, options) => driver.logs(id, component, options),
  };
}

/** The same for the datastore. */
export function fencedDatastore(datastore: Datastore, leadership: Leadership): Datastore {
  return {
    ensureTenant: async (id, options) => {
      assertHeld(leadership);
      return datastore.ensureTenant(id, options);
    },
    removeTenant: async (id, options) => {
      assertHeld(leadership);
      await datastore.removeTenant(id, options);
    },
    listTenants: (options) => datastore.listTenants(options),
  };
}
