import { randomUUID } from 'node:crypto';
import { readFile, rm, stat, writeFile } from 'node:fs/promises';
import type { Clock } from '../../kube/index.ts';
import { identify, isAlive, isComparable } from './process-identity.ts';

interface FileLockOptions {
  path: string;
  clock: Clock;
  signal: AbortSignal;
  /** Called on every look while another process holds the lock. */
  onWait?: (holderPid: number, waitedMs: number) => void;
  pollMs?: number;
}

interface Holder {
  pid: number;
  /** Undefined in a lock that another version of Skerry has written in its own way. */
  start: string | undefined;
  token: string | undefined;
}

/** An empty lock file belongs to a process between creating and writing it, or to one that died there. */
const emptyLockLifetimeMs = 10_000;

/**
 * Runs `work` while no other process (nor another caller in this one) runs work under the same path. A lock
 * whose process is gone is taken over. This saves double work; it is not what keeps files whole: two machines
 * that share the directory do not see each other's processes, and still install by atomic rename and verify by
 * hash.
 */
export async function withFileLock<T>(options: FileLockOptions, work: () => Promise<T>): Promise<T> {
  const token = await acquire(options);
  try {
    return await work();
  } finally {
    const text = await readFile(options.path, 'utf8').catch(() => '');
    if (parseHolder(text)?.token === token) await rm(options.path, { force: true });
  }
}

/** Pid of the living process that holds the lock, 0 if the file is still empty; undefined when the lock is free. */
export async function lockHolder(path: string, clock: Clock): Promise<number | undefined> {
  const { state, pid } = await inspect(path, clock);
  return state === 'held' ? pid : undefined;
}

async function acquire({ path, clock, signal, onWait, pollMs = 200 }: FileLockOptions): Promise<string> {
  const token = randomUUID();
  const holder: Holder = {
    pid: process.pid,
    start: (await identify(process.pid))?.startTime ?? '',
    token,
  };
  const since = clock.monotonic();
  for (;;) {
    signal.throwIfAborted();
    try {
      await writeFile(path, JSON.stringify(holder), { flag: 'wx' });
      return token;
    } catch (error) {
      if ((error as NodeJS.ErrnoException).code !== 'EEXIST') throw error;
    }
    const other = await inspect(path, clock);
    if (other.state === 'free') continue;
    if (other.state === 'abandoned' && (await removeAbandoned(path, clock))) continue;
    onWait?.(other.pid, clock.monotonic() - since);
    await clock.sleep(pollMs, signal);
  }
}

/** An abandoned lock stays abandoned, so any process may remove it. The pid is 0 where it is unknown. */
async function inspect(
  path: string,
  clock: Clock,
): Promise<{ state: 'free' | 'held' | 'abandoned'; pid: number }> {
  const text = await readFile(path, 'utf8').catch(() => undefined);
  if (text === undefined) return { state: 'free', pid: 0 };
  const holder = parseHolder(text);
  const alive = holder === undefined ? await isYoung(path, clock) : await isRunning(holder);
  return { state: alive ? 'held' : 'abandoned', pid: holder?.pid ?? 0 };
}

/** One whose start cannot be read counts as running while any process has its number: to wait is safer than to work twice. */
async function isRunning({ pid, start }: Holder): Promise<boolean> {
  if (start === undefined || !isComparable(start)) return (await identify(pid)) !== undefined;
  return isAlive({ pid, startTime: start });
}

/**
 * Removes an abandoned lock. Under a guard and after a second look, because the lock that the first look saw may
 * have been replaced by that of a living process.
 * @returns false when another process is at it
 */
async function removeAbandoned(path: string, clock: Clock): Promise<boolean> {
  const guard = `${path}.takeover`;
  try {
    await writeFile(guard, '', { flag: 'wx' });
  } catch (error) {
    if ((error as NodeJS.ErrnoException).code !== 'EEXIST') throw error;
    if (!(await isYoung(guard, clock))) await rm(guard, { force: true });
    return false;
  }
  try {
    if ((await inspect(path, clock)).state === 'abandoned') await rm(path, { force: true });
    return true;
  } finally {
    await rm(guard, { force: true });
  }
}

async function isYoung(path: string, clock: Clock): Promise<boolean> {
  const found = await stat(path).catch(() => undefined);
  return found !== undefined && clock.now() - found.mtimeMs < emptyLockLifetimeMs;
}

function parseHolder(content: string): Holder | undefined {
  try {
    const holder = JSON.parse(content) as Partial<Holder> | null;
    const { pid, start, token } = holder ?? {};
    if (typeof pid !== 'number') return undefined;
    const text = (value: unknown): string | undefined => (typeof value === 'string' ? value : undefined);
    return { pid, start: text(start), token: text(token) };
  } catch {
    return undefined;
  }
}
