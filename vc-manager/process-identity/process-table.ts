import { readFileSync } from 'node:fs';

/** Those of the processes whose environment holds the variable, with its value. Linux only; else empty. */
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

// From the third field on: the second is the program's name in parentheses and may itself contain
// spaces and parentheses.
export function statFields(pid: number): string[] | undefined {
  const stat = readText(`/proc/${pid}/stat`);
  return stat?.slice(stat.lastIndexOf(')') + 2).split(' ');
}

/** Undefined where it cannot be read: processes come and go. */
export function readText(path: string): string | undefined {
  try {
    return readFileSync(path, 'utf8');
  } catch {
    return undefined;
  }
}
