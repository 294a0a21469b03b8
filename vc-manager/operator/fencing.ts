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
    assertHeld: () => assertHeld(fence),
    ownDatastore: (options) => fencedCalls(services.ownDatastore(options), ownDatastoreCalls, fence),
  };
}

/** Of each member whether it changes something; a new one has to be listed. */
type Effects<T> = Readonly<Record<keyof T, 'reads' | 'writes'>>;

const driverCalls: Effects<ControlPlaneDriver> = {
  isShared: 'reads',
  confinement: 'reads',
  locate: 'writes',
  routeAddress: 'writes',
  unrouteAddress: 'writes',
  provide: 'reads',
  ensure: 'writes',
  observe: 'reads',
  watch: 'reads',
  stop: 'writes',
  remove: 'writes',
  list: 'reads',
  logs: 'reads',
};

const datastoreCalls: Effects<Datastore> = {
  ensureTenant: 'writes',
  removeTenant: 'writes',
  listTenants: 'reads',
  countTenantKeys: 'reads',
  measureTenant: 'reads',
  viewTenant: 'reads',
  replaceTenant: 'writes',
  fillTenant: 'writes',
  raise: 'writes',
  size: 'reads',
  compact: 'writes',
};

const ownDatastoreCalls: Effects<OwnDatastore> = {
  count: 'reads',
  view: 'reads',
  replace: 'writes',
  raise: 'writes',
  close: 'reads',
};

/** A driver that changes something only while the lease is held, which it asks before each write too. */
export function fencedDriver(driver: ControlPlaneDriver, fence: Fence): ControlPlaneDriver {
  const calls = fencedCalls(driver, driverCalls, fence);
  return {
    ...calls,
    ensure: (plan, options) => calls.ensure(plan, { ...options, beforeWrite: () => assertHeld(fence) }),
  };
}

/** A datastore that changes something only while the lease is held, which it asks before each removal too. */
export function fencedDatastore(datastore: Datastore, fence: Fence): Datastore {
  const calls = fencedCalls(datastore, datastoreCalls, fence);
  return {
    ...calls,
    removeTenant: (id, options) =>
      calls.removeTenant(id, { ...options, beforeWrite: () => assertHeld(fence) }),
  };
}

/** The members of `target`; those that write reject unless the lease is held. */
function fencedCalls<T extends object>(target: T, effects: Effects<T>, fence: Fence): T {
  const members: Partial<Record<keyof T, unknown>> = {};
  for (const name of Object.keys(effects) as (keyof T)[]) {
    const member = target[name];
    if (member === undefined) continue;
    const call = (...args: unknown[]): unknown => Reflect.apply(target[name] as () => unknown, target, args);
    const guarded = async (...args: unknown[]): Promise<unknown> => {
      assertHeld(fence);
      return call(...args);
    };
    members[name] = typeof member !== 'function' ? member : effects[name] === 'reads' ? call : guarded;
  }
  return members as T;
}
