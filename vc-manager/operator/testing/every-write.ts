import type { DriverName } from '../../../api/drivers.ts';
import { isBroad } from '../../../kube/testing/broad.ts';
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
  /** What the first manager would come to, if it lived. */
  untilDone: (world: World) => Promise<unknown>;
  /** What happens between the two managers. */
  between?: (world: World) => Promise<void>;
  /** What the second manager comes to. Default: `untilDone`. */
  untilEnded?: (world: World) => Promise<unknown>;
  /** Whether the end is what it would be had nobody died; the second manager still runs. */
  check: (world: World, when: string) => void | Promise<void>;
  /** When that one is stopped as well. */
  end?: (world: World) => Promise<void>;
}

/** In `npm test` a manager dies at the first write, at the last one, and at each fifth between them; at each of `few`. */
const everyNth = 5;
const few = 8;

/**
 * Has one manager live, and counts its writes. Then has one die at its first write, another one go on, and looks at the
 * end; then at the second write, and so on: at every one in `npm run test:all`, at a spread of them otherwise. Each of them
 * has to die, and one more that lives, in the end, has to make as many writes: so no round had others. Writes are those to
 * the super cluster, to datastores, of drivers and of snapshots. Returns how many there are.
 */
export async function dieAtEveryWrite(rounds: Rounds): Promise<number> {
  const { writes } = await liveThrough(rounds, 1, Number.POSITIVE_INFINITY);
  const all = Array.from({ length: writes }, (_, at) => at + 1);
  const deadly =
    isBroad || writes <= few ? all : all.filter((write) => write % everyNth === 1 || write === writes);
  for (const [at, write] of deadly.entries()) {
    const { died, writes: made } = await liveThrough(rounds, at + 2, write);
    if (!died) throw new Error(`nobody has died at write ${write} of ${writes}: it made ${made}`);
  }
  const last = await liveThrough(rounds, deadly.length + 2, Number.POSITIVE_INFINITY);
  if (last.writes !== writes)
    throw new Error(
      `the first manager made ${writes} writes, the last one ${last.writes}: some were not deadly`,
    );
  return writes;
}

/** One manager that dies at a write, if it comes to that, and one that lives. */
async function liveThrough(
  {
    begin,
    options = () => ({}),
    untilDone,
    between = async () => {},
    untilEnded = untilDone,
    check,
    end = async () => {},
  }: Rounds,
  round: number,
  deadly: number,
): Promise<{ died: boolean; writes: number }> {
  const world = await begin(round);
  const settings = options(world);
  const dying = new DyingConnection(world.superCluster.connectionOptions, deadly);
  const first = world.run(mortal(dying, world, settings));
  await Promise.race([dying.died, untilDone(world)]);
  // All may be done by the last write, which others see before it is answered.
  const { isDying: died, writes } = dying;
  if (died) await dying.died;
  await first.stop();
  await between(world);
  const second = world.run(settings);
  await untilEnded(world);
  await check(world, died ? `after ${deadly} writes` : 'after no death');
  await second.stop();
  await end(world);
  return { died, writes };
}

function mortal(
  dying: DyingConnection,
  world: World,
  { driver = world.driver, otherDrivers = {}, snapshots, ...options }: Partial<OperatorOptions>,
): Parameters<World['run']>[0] {
  const mortalDriver = (each: OperatorOptions['driver']): OperatorOptions['driver'] =>
    dying.counting(each, ['ensure', 'stop', 'remove', 'locate', 'routeAddress', 'unrouteAddress']);
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
