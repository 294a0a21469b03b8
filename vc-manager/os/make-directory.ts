import { mkdir, stat } from 'node:fs/promises';
import { dirname, resolve } from 'node:path';

/**
 * Makes a directory and those above it, as `mkdir -p` does; those that exist stay as they are. Not by the
 * `recursive` of Node.js, which never returns where a directory exists in which none can be made: /proc.
 */
export async function makeDirectory(path: string, mode = 0o777): Promise<void> {
  const directory = resolve(path);
  try {
    await mkdir(directory, { mode });
  } catch (error) {
    if (await isDirectory(directory)) return;
    const parent = dirname(directory);
    if (!isMissing(error) || parent === directory) throw error;
    await makeDirectory(parent, mode);
    await mkdir(directory, { mode }).catch(async (again: unknown) => {
      if (!(await isDirectory(directory))) throw again;
    });
  }
}

async function isDirectory(path: string): Promise<boolean> {
  return (await stat(path).catch(() => undefined))?.isDirectory() === true;
}

function isMissing(error: unknown): boolean {
  return (error as NodeJS.ErrnoException).code === 'ENOENT';
}
