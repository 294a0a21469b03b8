import { readdirSync, readFileSync, writeFileSync } from 'node:fs';
import { setPriority } from 'node:os';

/**
 * Gives a process a lower share of the processors while others want them: a niceness of 0 to 19 for all its threads
 * and, where Linux schedules each session as one group (sched_autogroup_enabled), for that group. Nothing is refused
 * and nothing fails: a process that has ended, or a system that knows less, is left as it is.
 */
export function lowerPriority(pid: number, niceness: number): void {
  attempt(() => writeFileSync(`/proc/${pid}/autogroup`, String(niceness)));
  // Threads inherit it: those that an early thread starts meanwhile are found by looking once more.
  const seen = new Set<number>();
  for (let before = -1; before !== seen.size; ) {
    before = seen.size;
    for (const thread of threadsOf(pid)) {
      if (seen.has(thread)) continue;
      seen.add(thread);
      attempt(() => setPriority(thread, niceness));
    }
  }
}

/** Ids that `setPriority` takes; the process alone where threads have none. */
function threadsOf(pid: number): number[] {
  try {
    return readdirSync(`/proc/${pid}/task`).map(Number);
  } catch {
    return [pid];
  }
}

function attempt(act: () => void): void {
  try {
    act();
  } catch {
    // It has ended, or the system does not let it be changed.
  }
}

/** Of this process's first thread, which is the one that starts others; see PR_SET_TIMERSLACK in prctl(2). */
const ownSlack = '/proc/self/timerslack_ns';
const nanosecondsPerMs = 1_000_000;

/**
 * What `start` starts, before it returns, is woken up to `ms` later than it has asked for by a timer, so that Linux wakes
 * it once for all timers of that time. Messages, signals and locks wake it at once as before. Nothing is refused and
 * nothing fails where the system knows no such thing. Only from the first thread of a process.
 */
export function withTimerSlack<T>(ms: number, start: () => T, file = ownSlack): T {
  const before = readSlack(file);
  if (before === undefined) return start();
  writeSlack(file, String(ms * nanosecondsPerMs));
  try {
    return start();
  } finally {
    writeSlack(file, before);
  }
}

function writeSlack(file: string, nanoseconds: string): void {
  try {
    writeFileSync(file, nanoseconds);
  } catch {
    // It is read only here: what is started is woken as always.
  }
}

function readSlack(file: string): string | undefined {
  try {
    return readFileSync(file, 'utf8');
  } catch {
    return undefined;
  }
}
