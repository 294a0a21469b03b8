import { readFile, rm, writeFile } from 'node:fs/promises';
import { join } from 'node:path';
import type { Clock } from '../../../kube/index.ts';
import { lockHolder, withFileLock } from '../../binaries/index.ts';
import { alreadyRunning } from '../errors.ts';

/** Which process looks after the stack, for `down`. */
export interface Supervisor {
  pid: number;
  isDetached: boolean;
}

interface LockOptions {
  stateDir: string;
  clock: Clock;
  signal: AbortSignal;
}

const lockFile = (stateDir: string): string => join(stateDir, 'lock');
const supervisorFile = (stateDir: string): string => join(stateDir, 'supervisor.json');

/** Runs `work` as the one process that changes what runs in this state. Throws `AlreadyRunning` at once if another does. */
export async function withStateLock<T>(
  { stateDir, clock, signal }: LockOptions,
  work: () => Promise<T>,
): Promise<T> {
  const taken = new AbortController();
  const lock = {
    path: lockFile(stateDir),
    clock,
    signal: AbortSignal.any([signal, taken.signal]),
    onWait: (pid: number) => taken.abort(alreadyRunning(stateDir, pid)),
  };
  return withFileLock(lock, work);
}

/** As `withStateLock`, and `down` may ask this process to stop the stack. */
export function asSupervisor<T>(
  options: LockOptions & { isDetached: boolean },
  work: () => Promise<T>,
): Promise<T> {
  return withStateLock(options, async () => {
    const file = supervisorFile(options.stateDir);
    const self: Supervisor = { pid: process.pid, isDetached: options.isDetached };
    await writeFile(file, `${JSON.stringify(self)}\n`, { mode: 0o600 });
    try {
      return await work();
    } finally {
      await rm(file, { force: true });
    }
  });
}

/** Whether this process keeps others out: a supervisor on its way out does so to the last. */
export async function holdsStateLock(stateDir: string, pid: number, clock: Clock): Promise<boolean> {
  return (await lockHolder(lockFile(stateDir), clock)) === pid;
}

/** The living supervisor of this state. */
export async function findSupervisor(stateDir: string, clock: Clock): Promise<Supervisor | undefined> {
  const pid = await lockHolder(lockFile(stateDir), clock);
  if (pid === undefined) return undefined;
  const text = await readFile(supervisorFile(stateDir), 'utf8').catch(() => '');
  try {
    const supervisor = JSON.parse(text) as Supervisor;
    // Left behind by one that was killed; somebody else holds the lock, for a moment.
    return supervisor.pid === pid ? supervisor : undefined;
  } catch {
    return undefined;
  }
}
