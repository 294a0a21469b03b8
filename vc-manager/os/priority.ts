import { readdirSync, writeFileSync } from 'node:fs';
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
