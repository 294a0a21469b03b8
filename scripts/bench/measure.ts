import { readFile } from 'node:fs/promises';
import { loadavg } from 'node:os';
import { systemClock } from '../../kube/index.ts';
import { noBinaries } from '../../vc-manager/cli/drivers.ts';
import { controlPlanesDirectory } from '../../vc-manager/cli/state-directory.ts';
import { stackId } from '../../vc-manager/cli/up/stop.ts';
import { ProcessDriver } from '../../vc-manager/drivers/process/process-driver.ts';
import { cpuSeconds, fieldsOf, ticksPerSecond } from '../../vc-manager/os/process-identity.ts';

/** Groups of processes whose CPU is added up. */
export const processGroups = [
  'super cluster',
  'simulated nodes',
  'tenants',
  'syncer',
  'manager',
  'gateway',
  'generator',
] as const;

export type ProcessGroup = (typeof processGroups)[number];

export interface BenchProcess {
  pid: number;
  group: ProcessGroup;
  /** Name of the component, such as `kube-apiserver`. */
  component: string;
  /** Id of the control plane, for components of tenants. */
  tenant?: string;
}

const groupOfComponent: Readonly<Record<string, ProcessGroup>> = {
  kwok: 'simulated nodes',
  'simulated-storage': 'simulated nodes',
  datastore: 'tenants',
  'vc-syncer': 'syncer',
  'vc-manager': 'manager',
  'vc-gateway': 'gateway',
};

/** Every process of the stack whose state lies in a directory, as its run records say. */
export async function listStackProcesses(stateDir: string): Promise<BenchProcess[]> {
  const stack = new ProcessDriver({ root: stateDir, binaries: noBinaries });
  const tenants = new ProcessDriver({ root: controlPlanesDirectory(stateDir), binaries: noBinaries });
  const processes = (await running(stack, stackId)).map(
    (each): BenchProcess => ({ ...each, group: groupOfComponent[each.component] ?? 'super cluster' }),
  );
  for (const tenant of await tenants.list()) {
    for (const each of await running(tenants, tenant)) {
      processes.push({ ...each, group: 'tenants', tenant });
    }
  }
  return processes;
}

async function running(driver: ProcessDriver, id: string): Promise<{ component: string; pid: number }[]> {
  const { components } = await driver.observe(id);
  return components.flatMap(({ name, pid }) => (pid === undefined ? [] : [{ component: name, pid }]));
}

/** CPU used by some work. Groups without visible processes are absent. */
export interface Usage {
  elapsedSeconds: number;
  cpuSeconds: Partial<Record<ProcessGroup, number>>;
  /** The same by `<group>/<component>`. */
  componentSeconds: Record<string, number>;
  /** CPU time of everything else on this machine, and what the hypervisor took. */
  othersSeconds?: number;
  stolenSeconds?: number;
  /** One-minute load average at the end. */
  load: number;
}

type ListProcesses = () => Promise<BenchProcess[]>;

interface UsageSample {
  at: number;
  processes: Map<number, { group: ProcessGroup; component: string; seconds: number }>;
  machine: Awaited<ReturnType<typeof machineTime>>;
}

/** CPU time by group of processes between two moments. */
export class UsageMeter {
  readonly #list: ListProcesses;
  #start: UsageSample | undefined;

  constructor(list: ListProcesses) {
    this.#list = list;
  }

  async start(): Promise<void> {
    this.#start = await this.#sample();
  }

  /** Since `start`. A process that has ended meanwhile is not counted, one that is new counts from its birth. */
  async stop(): Promise<Usage> {
    const start = this.#start;
    if (start === undefined) throw new Error('this meter was not started');
    const end = await this.#sample();
    const byGroup: Partial<Record<ProcessGroup, number>> = {};
    const componentSeconds: Record<string, number> = {};
    let ours = 0;
    for (const [pid, { group, component, seconds }] of end.processes) {
      const spent = seconds - (start.processes.get(pid)?.seconds ?? 0);
      byGroup[group] = (byGroup[group] ?? 0) + spent;
      const key = `${group}/${component}`;
      componentSeconds[key] = (componentSeconds[key] ?? 0) + spent;
      ours += spent;
    }
    const usage: Usage = {
      elapsedSeconds: (end.at - start.at) / 1000,
      cpuSeconds: byGroup,
      componentSeconds,
      load: loadavg()[0] ?? 0,
    };
    if (start.machine !== undefined && end.machine !== undefined) {
      const busy = end.machine.busySeconds - start.machine.busySeconds;
      usage.othersSeconds = Math.max(0, busy - ours);
      usage.stolenSeconds = end.machine.stolenSeconds - start.machine.stolenSeconds;
    }
    return usage;
  }

  async #sample(): Promise<UsageSample> {
    const processes: UsageSample['processes'] = new Map();
    for (const { pid, group, component } of await this.#list()) {
      const seconds = cpuSeconds(pid);
      if (seconds !== undefined) processes.set(pid, { group, component, seconds });
    }
    return { at: performance.now(), processes, machine: await machineTime() };
  }
}

/** Of all groups together; undefined when none could be seen. */
export function totalCpuSeconds(usage: Usage): number | undefined {
  const seconds = processGroups.flatMap((group) => usage.cpuSeconds[group] ?? []);
  return seconds.length === 0 ? undefined : seconds.reduce((sum, each) => sum + each, 0);
}

/** Memory of one process in bytes. Pages that several processes map are shared, all others private. */
export interface Memory {
  rss: number;
  /** Resident, with each shared page counted in equal parts for all who map it. */
  pss: number;
  private: number;
  shared: number;
}

/** A process at rest. */
export interface Footprint extends BenchProcess, Memory {
  cpuSecondsPerMinute: number;
}

/** CPU of each process over so long, and its memory at the end; without those that have ended. */
export async function watchProcesses(
  processes: readonly BenchProcess[],
  ms: number,
  signal: AbortSignal,
): Promise<Footprint[]> {
  const before = new Map<number, number>();
  for (const { pid } of processes) before.set(pid, cpuSeconds(pid) ?? Number.NaN);
  const from = performance.now();
  await systemClock.sleep(ms, signal);
  const minutes = (performance.now() - from) / 60_000;
  const footprints: Footprint[] = [];
  for (const process of processes) {
    const memory = await memoryOf(process.pid);
    const after = cpuSeconds(process.pid) ?? Number.NaN;
    if (memory === undefined) continue;
    const spent = after - (before.get(process.pid) ?? Number.NaN);
    footprints.push({ ...process, ...memory, cpuSecondsPerMinute: spent / minutes });
  }
  return footprints;
}

/** CPU time of the machine since boot, over all cores. */
interface MachineTime {
  busySeconds: number;
  /** Taken away by the hypervisor. */
  stolenSeconds: number;
}

const bytesPerKilobyte = 1024;

export async function memoryOf(pid: number): Promise<Memory | undefined> {
  const rollup = await readOrUndefined(`/proc/${pid}/smaps_rollup`);
  return rollup === undefined ? undefined : parseMemory(rollup);
}

/** Resident bytes; cheaper to ask for than `memoryOf`. */
export async function residentBytes(pid: number): Promise<number | undefined> {
  const status = await readOrUndefined(`/proc/${pid}/status`);
  const kilobytes = /^VmRSS:\s+(\d+) kB$/m.exec(status ?? '')?.[1];
  return kilobytes === undefined ? undefined : Number(kilobytes) * bytesPerKilobyte;
}

async function machineTime(): Promise<MachineTime | undefined> {
  const stat = await readOrUndefined('/proc/stat');
  return stat === undefined ? undefined : parseMachineTime(stat);
}

/** Milliseconds since the process was started, to a hundredth of a second. */
export async function ageMs(pid: number): Promise<number | undefined> {
  const [stat, uptime] = [await readOrUndefined(`/proc/${pid}/stat`), await readOrUndefined('/proc/uptime')];
  return stat === undefined || uptime === undefined ? undefined : parseAge(stat, uptime);
}

export function parseAge(stat: string, uptime: string): number {
  return Number(uptime.split(' ')[0]) * 1000 - (Number(fieldsOf(stat)[19]) * 1000) / ticksPerSecond;
}

export function parseMemory(rollup: string): Memory {
  const field = (name: string): number => {
    const kilobytes = new RegExp(`^${name}:\\s+(\\d+) kB$`, 'm').exec(rollup)?.[1];
    return Number(kilobytes ?? 0) * bytesPerKilobyte;
  };
  return {
    rss: field('Rss'),
    pss: field('Pss'),
    private: field('Private_Clean') + field('Private_Dirty'),
    shared: field('Shared_Clean') + field('Shared_Dirty'),
  };
}

export function parseMachineTime(stat: string): MachineTime {
  const fields = /^cpu\s+(.*)$/m.exec(stat)?.[1]?.split(' ').map(Number) ?? [];
  const [user = 0, nice = 0, system = 0, , , irq = 0, softirq = 0, steal = 0] = fields;
  return {
    busySeconds: (user + nice + system + irq + softirq) / ticksPerSecond,
    stolenSeconds: steal / ticksPerSecond,
  };
}

async function readOrUndefined(path: string): Promise<string | undefined> {
  try {
    return await readFile(path, 'utf8');
  } catch {
    return undefined;
  }
}

/** The sum of all series of a metric that have these labels; 0 when there is none. */
export function metricSum(
  text: string,
  name: string,
  matches: (labels: ReadonlyMap<string, string>) => boolean = () => true,
): number {
  let sum = 0;
  for (const [labels, value] of metricSeries(text, name)) if (matches(labels)) sum += value;
  return sum;
}

/** The series of one metric: labels and value. */
export function* metricSeries(text: string, name: string): Generator<[ReadonlyMap<string, string>, number]> {
  const line = new RegExp(`^${name}(?:\\{(.*)\\})? (\\S+)$`, 'gm');
  for (const [, labelText = '', value] of text.matchAll(line)) {
    const labels = [...labelText.matchAll(/(\w+)="([^"]*)"/g)].map(
      ([, key = '', label = '']) => [key, label] as const,
    );
    yield [new Map(labels), Number(value)];
  }
}

/** What the syncer has done so far, or within some time: the sums that are in its metrics. */
export type SyncerWork = Readonly<Record<string, number>>;

/** Times that the syncer's metrics sum up. */
export const syncerTimes = {
  wait: 'skerry_syncer_queue_wait_seconds',
  service: 'skerry_syncer_service_seconds',
} as const;

/**
 * From Prometheus' text: calls as `call/<side>/<verb>/<resource>/<ok|refused>`, times as
 * `<metric>_<sum|count>/<kind>`, both over all tenants and status codes.
 */
export function parseSyncerWork(text: string): SyncerWork {
  const work: Record<string, number> = {};
  const add = (key: string, value: number): void => {
    work[key] = (work[key] ?? 0) + value;
  };
  for (const [labels, value] of metricSeries(text, 'skerry_syncer_api_calls_total')) {
    const outcome = labels.get('code')?.startsWith('2') ? 'ok' : 'refused';
    add(`call/${labels.get('side')}/${labels.get('verb')}/${labels.get('resource')}/${outcome}`, value);
  }
  for (const metric of Object.values(syncerTimes).flatMap((name) => [`${name}_sum`, `${name}_count`])) {
    for (const [labels, value] of metricSeries(text, metric)) add(`${metric}/${labels.get('kind')}`, value);
  }
  return work;
}

export function workBetween(before: SyncerWork, after: SyncerWork): SyncerWork {
  return Object.fromEntries(Object.entries(after).map(([key, value]) => [key, value - (before[key] ?? 0)]));
}
