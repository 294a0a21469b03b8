import { readFile } from 'node:fs/promises';
import { execa } from 'execa';

/**
 * A word that stays the same as long as the process lives and differs for a later process with the same
 * number: when it was started. Undefined when there is no such process, or only what is left of one.
 */
export async function startOf(pid: number): Promise<string | undefined> {
  if (process.platform === 'linux') {
    const text = await readFile(`/proc/${pid}/stat`, 'utf8').catch(() => undefined);
    if (text === undefined) return undefined;
    // The second field, the command's name, may itself hold spaces and parentheses.
    const fields = text.slice(text.lastIndexOf(')') + 2).split(' ');
    return fields[0] === 'Z' || fields[0] === 'X' ? undefined : fields[19];
  }
  const { exitCode, stdout } = await execa('ps', ['-o', 'lstart=', '-p', String(pid)], { reject: false });
  const start = stdout.trim().replaceAll(/\s+/g, '-');
  return exitCode === 0 && start !== '' ? start : undefined;
}
