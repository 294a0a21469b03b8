import { execFile } from 'node:child_process';
import { readFileSync } from 'node:fs';
import { promisify } from 'node:util';

/** The processes among `pids` whose environment holds the variable, with its value. Linux only; else empty. */
export function processesWithVariable(variable: string, pids: Iterable<number>): Map<number, string> {
  const found = new Map<number, string>();
  const prefix = `${variable}=`;
  for (const pid of pids) {
    const entry = readText(`/proc/${pid}/environ`)
      ?.split('\0')
      .find((variableEntry) => variableEntry.startsWith(prefix));
    if (entry !== undefined) found.set(pid, entry.slice(prefix.length));
  }
  return found;
}

/** The process that leads the session of this one; Linux only, else undefined. */
export function sessionOf(pid: number): number | undefined {
  const session = statFields(pid)?.[3];
  return session === undefined ? undefined : Number(session);
}

/** Unit of times in /proc, on every Linux (`USER_HZ`). */
export const ticksPerSecond = 100;

/** Processor time of all its threads, in user mode and in the kernel; Linux only, else undefined. Seconds. */
export function cpuSeconds(pid: number): number | undefined {
  const fields = statFields(pid);
  return fields && (Number(fields[11]) + Number(fields[12])) / ticksPerSecond;
}

function statFields(pid: number): string[] | undefined {
  const stat = readText(`/proc/${pid}/stat`);
  return stat === undefined ? undefined : fieldsOf(stat);
}

/** Of proc_pid_stat(5), from the third on: the second is a name in parentheses that may itself contain both. */
export function fieldsOf(stat: string): string[] {
  return stat.slice(stat.lastIndexOf(')') + 2).split(' ');
}

/** Undefined where it cannot be read: processes come and go. */
function readText(path: string): string | undefined {
  try {
    return readFileSync(path, 'utf8');
  } catch {
    return undefined;
  }
}

/** A process that cannot be mistaken for a later one with the same number. */
export interface ProcessIdentity {
  pid: number;
  /** Opaque; equal only for one and the same process. */
  startTime: string;
}

const run = promisify(execFile);

/** The identity of a running process; undefined if there is none, or only a zombie. */
export async function identify(pid: number): Promise<ProcessIdentity | undefined> {
  const startTime = process.platform === 'linux' ? linuxStartTime(pid) : await psStartTime(pid);
  return startTime === undefined ? undefined : { pid, startTime };
}

/** Whether the very process still runs. */
export async function isAlive(identity: ProcessIdentity): Promise<boolean> {
  return (await identify(identity.pid))?.startTime === identity.startTime;
}

/** Whether a stored `startTime` has the format that this version writes. */
export function isComparable(startTime: string): boolean {
  if (process.platform === 'linux') return /^[0-9a-f-]{36}:[0-9]+$/.test(startTime);
  return !Number.isNaN(Date.parse(startTime));
}

/**
 * Sends a signal if, and only if, the pid still belongs to the process. With `group`, to all processes
 * of its session too. Resolves to whether there was a process to send it to.
 */
export async function sendSignal(
  identity: ProcessIdentity,
  signal: NodeJS.Signals,
  options: { group?: boolean } = {},
): Promise<boolean> {
  if (!(await isAlive(identity))) return false;
  try {
    process.kill(options.group ? -identity.pid : identity.pid, signal);
    return true;
  } catch (error) {
    if ((error as NodeJS.ErrnoException).code === 'ESRCH') return false;
    throw error;
  }
}

// Ticks since boot, field 22 of stat: pid reuse changes it, and the boot's own id keeps two boots apart.
function linuxStartTime(pid: number): string | undefined {
  const fields = statFields(pid);
  if (fields === undefined || hasEnded(fields)) return undefined;
  const boot = readText('/proc/sys/kernel/random/boot_id')?.trim() ?? '';
  return `${boot}:${fields[19]}`;
}

/**
 * By the fields of stat from the third on. The first thread may be a zombie while others, counted in field
 * 20, still hold the process's ports and files.
 */
export function hasEnded(fields: readonly string[]): boolean {
  return fields[0] === 'X' || (fields[0] === 'Z' && Number(fields[17]) <= 1);
}

async function psStartTime(pid: number): Promise<string | undefined> {
  try {
    const { stdout } = await run('ps', ['-o', 'stat=,lstart=', '-p', String(pid)], {
      env: { PATH: process.env['PATH'], LC_ALL: 'C' },
    });
    const [state, ...start] = stdout.trim().split(/\s+/);
    return state === undefined || state.startsWith('Z') || start.length === 0 ? undefined : start.join(' ');
  } catch {
    return undefined;
  }
}
