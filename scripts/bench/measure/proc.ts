import { readFile } from 'node:fs/promises';

/** Memory of one process in bytes. Pages that several processes map are shared, all others private. */
export interface Memory {
  rss: number;
  /** Resident, with each shared page counted in equal parts for all who map it. */
  pss: number;
  private: number;
  shared: number;
}

/** CPU time of the machine since boot, over all cores. */
export interface MachineTime {
  busySeconds: number;
  /** Taken away by the hypervisor. */
  stolenSeconds: number;
}

// USER_HZ: the unit of these files, the same on every Linux that Node runs on.
const ticksPerSecond = 100;
const bytesPerKilobyte = 1024;

/** User and system time of all threads, in seconds; undefined where there is no such process or no /proc. */
export async function cpuSeconds(pid: number): Promise<number | undefined> {
  const stat = await readOrUndefined(`/proc/${pid}/stat`);
  return stat === undefined ? undefined : parseProcessTime(stat);
}

export async function memoryOf(pid: number): Promise<Memory | undefined> {
  const rollup = await readOrUndefined(`/proc/${pid}/smaps_rollup`);
  return rollup === undefined ? undefined : parseMemory(rollup);
}

export async function machineTime(): Promise<MachineTime | undefined> {
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

export function parseProcessTime(stat: string): number {
  const fields = fieldsOf(stat);
  return (Number(fields[11]) + Number(fields[12])) / ticksPerSecond;
}

/** From the third field on: the second is a name in parentheses that may itself contain both. */
function fieldsOf(stat: string): string[] {
  return stat.slice(stat.lastIndexOf(')') + 2).split(' ');
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
