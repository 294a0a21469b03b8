import { readFileSync, writeFileSync } from 'node:fs';

/** Of this process's first thread, which is the one that starts others; see PR_SET_TIMERSLACK in prctl(2). */
const ownSlack = '/proc/self/timerslack_ns';
const nanosecondsPerMs = 1_000_000;

/**
 * What `start` starts, before it returns, is woken up to `ms` later than it has asked for by a timer, so that Linux wakes
 * it once for all timers of that time. Messages, signals and locks wake it at once as before. Nothing is refused and
 * nothing fails where the system knows no such thing. Only from the first thread of a process.
 */
export function withTimerSlack<T>(ms: number, start: () => T): T {
  const before = readSlack();
  if (before === undefined) return start();
  writeSlack(String(ms * nanosecondsPerMs));
  try {
    return start();
  } finally {
    writeSlack(before);
  }
}

function writeSlack(nanoseconds: string): void {
  try {
    writeFileSync(ownSlack, nanoseconds);
  } catch {
    // It is read only here: what is started is woken as always.
  }
}

function readSlack(): string | undefined {
  try {
    return readFileSync(ownSlack, 'utf8');
  } catch {
    return undefined;
  }
}
