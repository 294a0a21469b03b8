import { readFile, rm, writeFile } from 'node:fs/promises';
import { machineFile } from './claim.ts';

/** Kubelet changes the first of these for the whole machine, as it takes the machine for its own. */
const changed = [
  'vm.overcommit_memory',
  'vm.panic_on_oom',
  'kernel.panic',
  'kernel.panic_on_oops',
  'kernel.keys.root_maxkeys',
  'kernel.keys.root_maxbytes',
  'fs.inotify.max_user_instances',
];
/** A second containerd finds no instance left with the default of 128, and tells so by a missing plugin only. */
const inotifyInstances = 8192;
const saved = machineFile('sysctls.json');

/** Remembers what was set before the first cluster, and sets what nodes need. */
export async function prepareSysctls(): Promise<void> {
  const values: Record<string, string> = {};
  for (const name of changed) {
    const value = await readFile(fileOf(name), 'utf8').catch(() => undefined);
    if (value !== undefined) values[name] = value.trim();
  }
  await writeFile(saved, JSON.stringify(values), { flag: 'wx' }).catch((error: NodeJS.ErrnoException) => {
    if (error.code !== 'EEXIST') throw error;
  });
  if (Number(values['fs.inotify.max_user_instances']) < inotifyInstances) {
    await writeFile(fileOf('fs.inotify.max_user_instances'), String(inotifyInstances));
  }
}

/** To be called when the last cluster is gone. */
export async function restoreSysctls(): Promise<void> {
  const text = await readFile(saved, 'utf8').catch(() => undefined);
  if (text === undefined) return;
  for (const [name, value] of Object.entries(JSON.parse(text) as Record<string, string>)) {
    await writeFile(fileOf(name), value);
  }
  await rm(saved);
}

function fileOf(name: string): string {
  return `/proc/sys/${name.replaceAll('.', '/')}`;
}
