import type { VirtualCluster } from '../../../api/virtual-cluster.ts';
import { resources } from '../../../kube/index.ts';
import type { Lab } from '../lab.ts';
import type { Cell } from '../markdown.ts';
import { type Footprint, watchProcesses } from '../measure.ts';
import { figure, type Scenario } from '../scenario.ts';
import { copySleeper, makeSleeper } from '../sleepers.ts';
import { sum } from '../statistics.ts';

const bytesPerMegabyte = 1_000_000;
const bytesPerKilobyte = 1_000;
const programs = ['vc-manager', 'vc-syncer', 'vc-gateway'];
/** Without any tenant there is nothing that comes round in longer times. */
const longestEmptySeconds = 60;

/** What the programs cost with a number of tenants that are asleep. */
interface Level {
  sleepers: number;
  seconds: number;
  programs: Footprint[];
}

/** Many tenants are asleep: what they cost manager, syncer and gateway. */
export const sleepers: Scenario = {
  name: 'sleepers',
  summary: 'memory and CPU of manager, syncer and gateway with --sleepers tenants that are asleep',
  needsTenants: true,
  onlyWhenNamed: true,
  withGateway: true,

  async run(lab, { sleepers: count, idle }) {
    const { stack, signal } = lab;
    if (stack.whileStopped === undefined)
      throw new Error(
        'the scenario sleepers needs a stack of its own: leave out --state-dir and --kubeconfig',
      );
    await stack.whileStopped(async () => undefined, signal);
    const empty = await watch(lab, 0, Math.min(idle, longestEmptySeconds));
    const model = await makeSleeper(lab);
    await stack.whileStopped(() => copySleeper(lab, model, count), signal);
    const before = await virtualClusters(lab);
    const full = await watch(lab, count, idle);
    const woken = await countWoken(lab, before);
    const rows = rowsOf(empty, full);
    return {
      settings: { sleepers: count, idleSeconds: idle },
      rounds: [empty, full, { woken }],
      figures: [
        ...rows.flatMap(({ name, memory, cpu }) => [
          ...figure(`${name}, private per sleeper`, 'KB', [memory.each]),
          ...figure(`${name}, CPU per sleeper and minute`, 'ms', [cpu.each]),
        ]),
        ...figure('woken', '', [woken]),
      ],
      tables: [
        {
          title: `sleepers: ${count} tenants that are asleep, over ${idle} s`,
          columns: [
            ...['program', 'private, MB: none', `${count}`, 'each, KB', 'resident, MB: none', `${count}`],
            ...['CPU, s per minute: none', `${count}`, 'each, ms'],
          ],
          rows: rows.map(({ name, memory, resident, cpu }): Cell[] => [
            ...[name, memory.none, memory.all, memory.each, resident.none, resident.all],
            ...[cpu.none, cpu.all, cpu.each],
          ]),
          notes: [
            `Each program was started anew before. Woken: ${woken}.`,
            'What manager and syncer do for each of them comes round in 5 and 10 minutes: over 600 s all of it is in.',
          ],
        },
      ],
      plots: [],
    };
  },
};

async function watch(lab: Lab, count: number, seconds: number): Promise<Level> {
  await lab.waitUntilQuiet();
  lab.log(`sleepers: watching ${count} for ${seconds} s`);
  const processes = (await lab.processes()).filter(({ component }) => programs.includes(component));
  return { sleepers: count, seconds, programs: await watchProcesses(processes, seconds * 1000, lab.signal) };
}

async function virtualClusters({ client, namespace, signal }: Lab): Promise<VirtualCluster[]> {
  return (await client.list<VirtualCluster>(resources.virtualClusters, { namespace, signal })).items;
}

/** Those that do not sleep as they did. */
async function countWoken(lab: Lab, before: readonly VirtualCluster[]): Promise<number> {
  const after = new Map((await virtualClusters(lab)).map((vc) => [vc.metadata.name, vc]));
  const running = new Set((await lab.processes()).map(({ tenant }) => tenant));
  return before.filter(({ metadata, status }) => {
    const now = after.get(metadata.name)?.status;
    const sleepsOn =
      now?.phase === 'Asleep' && now.sleep?.stopped === true && now.sleep.since === status?.sleep?.since;
    return !sleepsOn || running.has(status?.id);
  }).length;
}

interface Change {
  none: number;
  all: number;
  /** In a smaller unit. */
  each: number;
}

function rowsOf(
  empty: Level,
  full: Level,
): { name: string; memory: Change; resident: Change; cpu: Change }[] {
  const rows = [...programs.map((program) => [program]), programs].map((names) => {
    const change = (of: (some: Footprint) => number, unit: number, smallerUnit: number): Change => {
      const total = ({ programs: some }: Level): number =>
        sum(some.filter(({ component }) => names.includes(component)).map(of));
      const [none, all] = [total(empty), total(full)];
      return { none: none / unit, all: all / unit, each: (all - none) / full.sleepers / smallerUnit };
    };
    return {
      name: names.length === 1 ? (names[0] ?? '') : 'all three',
      memory: change((some) => some.private, bytesPerMegabyte, bytesPerKilobyte),
      resident: change(({ rss }) => rss, bytesPerMegabyte, bytesPerKilobyte),
      cpu: change(({ cpuSecondsPerMinute }) => cpuSecondsPerMinute, 1, 0.001),
    };
  });
  return rows;
}
