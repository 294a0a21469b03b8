import { existsSync } from 'node:fs';
import { mkdir, readdir, readFile, rmdir, writeFile } from 'node:fs/promises';
import { join } from 'node:path';

const mount = '/sys/fs/cgroup';
/** Of version 1, each a hierarchy of its own, as far as the machine has it. */
const controllers = ['cpu', 'cpuacct', 'cpuset', 'memory', 'devices', 'freezer', 'blkio', 'pids', 'systemd'];

/** With version 2 there is one hierarchy, and its controllers are named in a file. */
const isUnified = existsSync(join(mount, 'cgroup.controllers'));

function hierarchies(): string[] {
  if (isUnified) return [mount];
  return controllers.map((name) => join(mount, name)).filter((path) => existsSync(path));
}

/** Makes `/<name>` in every hierarchy, for a kubelet to put its pods below. */
export async function makeCgroup(name: string): Promise<void> {
  for (const hierarchy of hierarchies()) {
    let path = hierarchy;
    for (const part of name.split('/')) {
      const parent = path;
      path = join(parent, part);
      await mkdir(path, { recursive: true });
      // A new set has no processors and no memory, and takes no process.
      if (hierarchy.endsWith('/cpuset')) {
        for (const file of ['cpuset.cpus', 'cpuset.mems']) {
          await writeFile(join(path, file), (await readFile(join(parent, file), 'utf8')).trim());
        }
      }
    }
  }
}

/** Removes `/<name>` and all below it; the processes in it must have ended. */
export async function removeCgroup(name: string): Promise<void> {
  // On a machine with both versions runc leaves directories in the second one, too.
  for (const hierarchy of [...hierarchies(), join(mount, 'unified')]) await removeTree(join(hierarchy, name));
}

async function removeTree(path: string): Promise<void> {
  const entries = await readdir(path, { withFileTypes: true }).catch(() => undefined);
  if (entries === undefined) return;
  for (const entry of entries) if (entry.isDirectory()) await removeTree(join(path, entry.name));
  // Another run may be clearing up after the same one.
  await rmdir(path).catch((error: NodeJS.ErrnoException) => {
    if (error.code !== 'ENOENT') throw error;
  });
}
