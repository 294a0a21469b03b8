import { randomUUID } from 'node:crypto';
import { chmod, mkdir, open, rename, rm, stat, writeFile } from 'node:fs/promises';
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

/** Of a directory: what was made or renamed in it is on the disk then. */
export async function syncToDisk(path: string): Promise<void> {
  const handle = await open(path, 'r');
  try {
    await handle.sync();
  } finally {
    await handle.close();
  }
}

/** Writes a file in one step: a reader sees the old one or the new one. Makes its directory, for this user alone. */
export async function replaceFile(path: string, content: string, mode = 0o600): Promise<void> {
  await makeDirectory(dirname(path), 0o700);
  const temporary = `${path}.${randomUUID()}.tmp`;
  try {
    await writeFile(temporary, content, { mode });
    // The mode given at creation is narrowed by the umask.
    await chmod(temporary, mode);
    await rename(temporary, path);
  } catch (error) {
    await rm(temporary, { force: true });
    throw error;
  }
}
