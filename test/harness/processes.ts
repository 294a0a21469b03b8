import { execFileSync } from 'node:child_process';
import { readdirSync, readFileSync } from 'node:fs';
import { readFile } from 'node:fs/promises';
import { join } from 'node:path';
import { poll } from './poll.ts';

/** A process that cannot be mistaken for a later one with the same number. */
export interface ProcessIdentity {
  readonly pid: number;
  readonly startTime: string;
}

/** Undefined if there is none with this number, or only a zombie. */
export function identify(pid: number): ProcessIdentity | undefined {
  const startTime = process.platform === 'linux' ? startTimeFromProc(pid) : startTimeFromPs(pid);
  return startTime === undefined ? undefined : { pid, startTime };
}

export function isAlive(identity: ProcessIdentity): boolean {
  return identify(identity.pid)?.startTime === identity.startTime;
}

/** Sends a signal to exactly this process; false if it is gone. */
export function send(identity: ProcessIdentity, signal: NodeJS.Signals): boolean {
  return isAlive(identity) && process.kill(identity.pid, signal);
}

export async function kill(identity: ProcessIdentity): Promise<void> {
  send(identity, 'SIGKILL');
  await poll(`process ${identity.pid} to end`, () => !isAlive(identity));
}

interface HeldComponent {
  stateDir: string;
  /** Of the tenant. */
  id: string;
  component: string;
  /** The one that runs already, beside which another one is to be held; absent: whichever runs. */
  beside?: ProcessIdentity;
}

/** Has no step end that waits for this component of a tenant: its process stands still. Resolves to what lets it go on. */
export async function suspendComponent({
  stateDir,
  id,
  component,
  beside,
}: HeldComponent): Promise<() => void> {
  const held: ProcessIdentity[] = [];
  const look = async (): Promise<boolean> => {
    const found = (await componentProcesses(stateDir, { id }, component)).findLast(
      (each) => each.startTime !== beside?.startTime || each.pid !== beside.pid,
    );
    if (found === undefined) return false;
    // Looked at again: another one may have taken its place meanwhile.
    if (held.some(({ startTime }) => startTime === found.startTime)) return true;
    if (send(found, 'SIGSTOP')) held.push(found);
    return false;
  };
  await poll(`a ${component} of ${id} that stands still`, look);
  return () => {
    for (const process of held) send(process, 'SIGCONT');
  };
}

/** The running process of a component that was started last, by its record in the state directory. */
export async function componentProcess(
  stateDir: string,
  controlPlane: 'stack' | { id: string },
  component: string,
): Promise<ProcessIdentity | undefined> {
  return (await componentProcesses(stateDir, controlPlane, component)).at(-1);
}

/**
 * Those that run of a component, in the order of their start: by their records in the state directory (`stack`, or a
 * tenant's id below `control-planes`). There are two while one takes the place of the other.
 */
async function componentProcesses(
  stateDir: string,
  controlPlane: 'stack' | { id: string },
  component: string,
): Promise<ProcessIdentity[]> {
  const directory = controlPlane === 'stack' ? ['stack'] : ['control-planes', controlPlane.id];
  const found: { startedAt: string; process: ProcessIdentity }[] = [];
  for (const slot of [component, `${component}-beside`]) {
    const file = join(stateDir, ...directory, 'run', `${slot}.json`);
    const text = await readFile(file, 'utf8').catch(() => undefined);
    if (text === undefined) continue;
    const { pid, startedAt } = JSON.parse(text) as { pid: number; startedAt: string };
    const process = identify(pid);
    if (process !== undefined) found.push({ startedAt, process });
  }
  return found.sort((a, b) => (a.startedAt < b.startedAt ? -1 : 1)).map(({ process }) => process);
}

/** Processes that belong to a state directory, by their mark or their command line: pid to what they are. Linux only; else empty. */
export function processesOf(stateDir: string): Map<number, string> {
  const found = new Map<number, string>();
  if (process.platform !== 'linux') return found;
  for (const entry of readdirSync('/proc')) {
    const pid = Number(entry);
    if (!Number.isInteger(pid) || pid === process.pid || identify(pid) === undefined) continue;
    const mark = fieldsOf(`/proc/${pid}/environ`).find((field) =>
      field.startsWith(`SKERRY_COMPONENT=${stateDir}/`),
    );
    const args = fieldsOf(`/proc/${pid}/cmdline`);
    if (mark !== undefined) found.set(pid, mark.slice('SKERRY_COMPONENT='.length + stateDir.length + 1));
    else if (args.some((arg) => arg === stateDir || arg.includes(`${stateDir}/`)))
      found.set(pid, args.join(' '));
  }
  return found;
}

function fieldsOf(file: string): string[] {
  try {
    return readFileSync(file, 'utf8').split('\0');
  } catch {
    return [];
  }
}

function startTimeFromProc(pid: number): string | undefined {
  let stat: string;
  try {
    stat = readFileSync(`/proc/${pid}/stat`, 'utf8');
  } catch {
    return undefined;
  }
  // The name, in parentheses, may itself hold spaces and parentheses.
  const fields = stat.slice(stat.lastIndexOf(')') + 2).split(' ');
  return fields[0] === 'Z' || fields[0] === 'X' ? undefined : fields[19];
}

function startTimeFromPs(pid: number): string | undefined {
  try {
    const [state = '', ...start] = execFileSync('ps', ['-o', 'stat=,lstart=', '-p', String(pid)], {
      encoding: 'utf8',
    })
      .trim()
      .split(/\s+/);
    return state.startsWith('Z') || start.length === 0 ? undefined : start.join(' ');
  } catch {
    return undefined;
  }
}
