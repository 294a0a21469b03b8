import type { Lab } from '../lab.ts';
import type { Cell, Table } from '../markdown.ts';
import { type Footprint, metricSum, watchProcesses } from '../measure.ts';
import { barChart } from '../plot.ts';
import { type Figure, figure, type Scenario } from '../scenario.ts';
import { mean, median, sum } from '../statistics.ts';

const bytesPerMegabyte = 1_000_000;

/** Cost of all processes with a number of idle pods. */
interface Level {
  pods: number;
  processes: Footprint[];
  /** Changes in the tenants' datastore, over all tenants. */
  datastoreWritesPerMinute?: number;
  /** JavaScript objects of the syncer, garbage included. */
  syncerHeapBytes?: number;
}

/** Cost of idle tenants: memory and CPU of each of their processes and of the stack. */
export const footprint: Scenario = {
  name: 'footprint',
  summary: 'memory, CPU and writes of tenants at rest, empty and with --standing pods',
  needsTenants: true,

  async run(lab, options) {
    const { idle: idleSeconds, tenants, standing } = options;
    await lab.tenantTargets();
    const levels = [await watch(lab, 0, idleSeconds)];
    for (const wanted of standing)
      levels.push(await watch(lab, await lab.ensureStandingPods(wanted), idleSeconds));
    const [empty] = levels;
    const ofTenants = tenantsOf(empty);
    const writes = empty?.datastoreWritesPerMinute;
    const perTenant = {
      tenantPrivateMegabytes: median(ofTenants.map((each) => each.private / bytesPerMegabyte)),
      tenantPssMegabytes: median(ofTenants.map((each) => each.pss / bytesPerMegabyte)),
      tenantCpuSecondsPerMinute: mean(ofTenants.map((each) => each.cpuSecondsPerMinute)),
      tenantWritesPerMinute: writes === undefined ? Number.NaN : writes / tenants,
    };
    return {
      settings: { tenants, idleSeconds, standing },
      rounds: levels,
      figures: figures(levels, perTenant),
      tables: [...levels.map((level) => processTable(level, tenants, idleSeconds)), syncerTable(levels)],
      plots: barChart({
        name: 'footprint',
        title: `memory with ${tenants} empty tenants`,
        label: 'MB',
        parts: ['private', 'shared'],
        bars: rowsOf(empty).map(([name, some]) => ({
          name: name.replaceAll('*', ''),
          values: [megabytes(some, 'private'), megabytes(some, 'shared')],
        })),
      }),
    };
  },
};

async function watch(lab: Lab, pods: number, seconds: number): Promise<Level> {
  await lab.waitUntilQuiet();
  lab.log(`footprint: watching ${pods === 0 ? 'empty tenants' : `${pods} pods`} for ${seconds} s`);
  const processes = (await lab.processes()).filter(({ group }) => group !== 'generator');
  const revisionBefore = await revision(lab);
  const from = performance.now();
  const level: Level = { pods, processes: await watchProcesses(processes, seconds * 1000, lab.signal) };
  const revisionAfter = await revision(lab);
  const minutes = (performance.now() - from) / 60_000;
  if (revisionBefore !== undefined && revisionAfter !== undefined)
    level.datastoreWritesPerMinute = (revisionAfter - revisionBefore) / minutes;
  const text = await lab.stack.syncerMetrics?.();
  if (text !== undefined) level.syncerHeapBytes = metricSum(text, 'nodejs_heap_size_used_bytes');
  return level;
}

/** etcd's revision, which every write increments. */
async function revision({ stack }: Lab): Promise<number | undefined> {
  const text = await stack.datastoreMetrics?.();
  return text === undefined ? undefined : metricSum(text, 'etcd_debugging_mvcc_current_revision');
}

type Figures = Pick<Footprint, 'private' | 'shared' | 'pss' | 'cpuSecondsPerMinute'>;

/** What each tenant costs as a whole. */
function tenantsOf(level: Level | undefined): Figures[] {
  const ofTenants = (level?.processes ?? []).filter(({ tenant }) => tenant !== undefined);
  return [...Map.groupBy(ofTenants, ({ tenant }) => tenant).values()].map(together);
}

/** Processes of tenants together by component, one tenant as a whole, and each of the others. */
function rowsOf(level: Level | undefined): [string, Figures[]][] {
  const processes = level?.processes ?? [];
  const ofTenants = processes.filter(({ tenant }) => tenant !== undefined);
  const whole = tenantsOf(level);
  return [
    ...[...Map.groupBy(ofTenants, ({ component }) => component)].map(
      ([component, all]): [string, Figures[]] => [`${component} of a tenant`, all],
    ),
    ...(whole.length > 0 ? [['**one tenant**', whole] satisfies [string, Figures[]]] : []),
    ...processes
      .filter(({ tenant }) => tenant === undefined)
      .map((each): [string, Figures[]] => [each.component, [each]]),
  ];
}

function processTable(level: Level, tenants: number, seconds: number): Table {
  const { pods, datastoreWritesPerMinute: writes } = level;
  const writesNote =
    writes === undefined
      ? []
      : [`Writes to the datastore: ${(writes / tenants).toFixed(1)} per minute for each tenant.`];
  return {
    title: `footprint: ${tenants} tenants, ${pods === 0 ? 'empty' : `${pods} pods at rest`}, over ${seconds} s`,
    columns: ['process', 'private, MB', 'shared, MB', 'proportional, MB', 'CPU, s per minute'],
    rows: rowsOf(level).map(([name, all]) => [name, ...cells(all)]),
    notes: [
      'Medians over tenants, CPU: means. Private: pages that nobody else maps. Shared: mostly program text, which is in memory once for all processes of one binary, the super cluster included.',
      ...writesNote,
    ],
  };
}

function syncerTable(levels: readonly Level[]): Table {
  return {
    title: 'footprint: the syncer',
    columns: ['pods', 'resident, MB', 'private, MB', 'heap, MB', 'CPU, s per minute'],
    rows: levels.map((level): Cell[] => {
      const syncer = level.processes.find(({ group }) => group === 'syncer');
      return [
        String(level.pods),
        (syncer?.rss ?? Number.NaN) / bytesPerMegabyte,
        (syncer?.private ?? Number.NaN) / bytesPerMegabyte,
        (level.syncerHeapBytes ?? Number.NaN) / bytesPerMegabyte,
        syncer?.cpuSecondsPerMinute,
      ];
    }),
    notes: [
      'After pods were made in this process, with what garbage that left; `restart` tells the same of a new one.',
    ],
  };
}

function figures(levels: readonly Level[], perTenant: Record<string, number>): Figure[] {
  const less = (name: string, unit: string, value: number | undefined) => figure(name, unit, [value]);
  return [
    ...less('one tenant, private', 'MB', perTenant['tenantPrivateMegabytes']),
    ...less('one tenant, CPU per minute', 's', perTenant['tenantCpuSecondsPerMinute']),
    ...less('one tenant, datastore writes per minute', 'writes', perTenant['tenantWritesPerMinute']),
    ...levels.flatMap(({ pods, processes }) => {
      const syncer = processes.find(({ group }) => group === 'syncer');
      return [
        ...less(`syncer with ${pods} pods, resident`, 'MB', syncer && syncer.rss / bytesPerMegabyte),
        ...less(`syncer with ${pods} pods, CPU per minute`, 's', syncer?.cpuSecondsPerMinute),
      ];
    }),
  ];
}

function together(processes: readonly Figures[]): Figures {
  const total = (field: keyof Figures): number => sum(processes.map((each) => each[field]));
  return {
    private: total('private'),
    shared: total('shared'),
    pss: total('pss'),
    cpuSecondsPerMinute: total('cpuSecondsPerMinute'),
  };
}

function megabytes(all: readonly Figures[], field: 'private' | 'shared' | 'pss'): number {
  return median(all.map((each) => each[field] / bytesPerMegabyte));
}

function cells(all: readonly Figures[]): Cell[] {
  return [
    megabytes(all, 'private'),
    megabytes(all, 'shared'),
    megabytes(all, 'pss'),
    mean(all.map(({ cpuSecondsPerMinute }) => cpuSecondsPerMinute)),
  ];
}
