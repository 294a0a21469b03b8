import type { DriverName } from '../../../api/drivers.ts';
import type { OperatorOptions } from '../services.ts';
import { DyingConnection } from './dying-connection.ts';
import type { World } from './world.ts';

interface Rounds {
  /**
   * A world in which no manager runs, with what a manager is to do; it may be the same one in each round. Rounds count from
   * 1.
   */
  begin: (round: number) => Promise<World>;
  /** How each manager is run. */
  options?: (world: World) => Partial<OperatorOptions>;
  untilDone: (world: World) => Promise<unknown>;
  /** Whether the end is what it would be had nobody died; the second manager still runs. */
  check: (world: World, when: string) => void | Promise<void>;
  /** When that one is stopped as well. */
  end?: (world: World) => Promise<void>;
}

/** More than anything here takes. */
const mostWrites = 80;

/**
 * Has one manager die at its first write, another one go on, and looks at the end; then at the second write, and so on, until
 * one comes to the end before. Writes are those to the super cluster, to datastores, of drivers and of snapshots. Returns how
 * many have died.
 */
export async function dieAtEveryWrite({
  begin,
  options = () => ({}),
  untilDone,
  check,
  end = async () => {},
}: Rounds): Promise<number> {
  for (let writes = 1; writes <= mostWrites; writes++) {
    const world = await begin(writes);
    const settled = options(world);
    const dying = new DyingConnection(world.superCluster.connectionOptions, writes);
    const first = world.run(mortal(dying, world, settled));
    const outcome = await Promise.race([
      dying.died.then(() => 'died' as const),
      untilDone(world).then(() => 'done' as const),
    ]);
    await first.stop();
    const second = world.run(settled);
    await untilDone(world);
    await check(world, `after ${writes} writes`);
    await second.stop();
    await end(world);
    if (outcome === 'done') return writes - 1;
  }
  throw new Error(`it is not done after ${mostWrites} writes`);
}

function mortal(
  dying: DyingConnection,
  world: World,
  { driver = world.driver, otherDrivers = {}, snapshots, ...options }: Partial<OperatorOptions>,
): Parameters<World['run']>[0] {
  const mortalDriver = (each: OperatorOptions['driver']): OperatorOptions['driver'] =>
    dying.counting(each, ['ensure', 'stop', 'remove']);
  const others = Object.entries(otherDrivers) as [DriverName, OperatorOptions['driver']][];
  return {
    ...options,
    connection: dying,
    driver: mortalDriver(driver),
    otherDrivers: Object.fromEntries(others.map(([name, each]) => [name, mortalDriver(each)])),
    datastore: dying.counting(world.datastore, ['ensureTenant', 'removeTenant', 'replaceTenant', 'raise']),
    ownDatastore: (at) => dying.counting(world.ownDatastores.open(at), ['replace', 'raise']),
    ...(snapshots && {
      snapshots: { ...snapshots, store: dying.counting(snapshots.store, ['write', 'remove']) },
    }),
  };
}
