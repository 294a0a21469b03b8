import { readFileSync, writeFileSync } from 'node:fs';

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
