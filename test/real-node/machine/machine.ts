import { accessSync, constants, existsSync } from 'node:fs';
import { mkdir, readdir, readFile, rm, rmdir, writeFile } from 'node:fs/promises';
import { networkInterfaces } from 'node:os';
import { delimiter, join } from 'node:path';
import { execa } from 'execa';
import { identify, isAlive, type ProcessIdentity } from '../../harness/processes.ts';

/** Runs a program and gives what it printed; throws with its words when it fails. */
export async function run(
  command: string,
  args: readonly string[],
  { signal, env }: { signal?: AbortSignal; env?: Record<string, string> } = {},
): Promise<string> {
  const result = await execa(command, args, {
    reject: false,
    stdin: 'ignore',
    ...(signal && { cancelSignal: signal }),
    ...(env && { env }),
  });
  signal?.throwIfAborted();
  if (result.failed) {
    throw new Error(
      `${command} ${args.join(' ')} failed: ${result.stderr || result.stdout || result.shortMessage}`,
    );
  }
  return result.stdout;
}

/** Program to the Debian package that has it. */
const programs: Readonly<Record<string, string>> = {
  runc: 'runc',
  nft: 'nftables',
  iptables: 'iptables',
  ip: 'iproute2',
  nsenter: 'util-linux',
  unshare: 'util-linux',
  setpriv: 'util-linux',
  gcc: 'gcc and libc6-dev',
  go: 'golang, of the version that Kubernetes asks for',
  debootstrap: 'debootstrap',
  make: 'make',
  bzip2: 'bzip2',
  'apt-get': 'apt, of Debian or Ubuntu',
};
const cniPlugins = '/usr/lib/cni/bridge';

/** Why this machine cannot run real nodes; undefined when it can. */
export function whyNot(env: Readonly<Record<string, string | undefined>>): string | undefined {
  if (process.platform !== 'linux') return 'real nodes need Linux';
  if (process.getuid?.() !== 0) return 'real nodes need root: namespaces, mounts and links are made';
  const missing = Object.keys(programs).filter((name) => !isOnPath(name, env));
  const packages = new Set(missing.map((name) => programs[name]));
  if (!existsSync(cniPlugins)) packages.add('containernetworking-plugins');
  if (packages.size > 0) return `missing: ${[...packages].join(', ')}`;
  return undefined;
}

/** Whether there is such a program. */
export function isOnPath(name: string, env: Readonly<Record<string, string | undefined>>): boolean {
  return (env['PATH'] ?? '').split(delimiter).some((directory) => {
    try {
      accessSync(join(directory, name), constants.X_OK);
      return true;
    } catch {
      return false;
    }
  });
}

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

/** What one cluster holds on this machine, so that two never share it and the next run finds it. */
export interface ClusterClaim {
  /** Everything of the cluster that is a file. */
  directory: string;
  /** 0..255; all its addresses and names follow from it. */
  number: number;
  keeper: ProcessIdentity;
}

/** Emptied when the machine starts, as are the links and settings that it tells of. */
const root = '/run/skerry-real-node';

/**
 * A number that no other cluster has and whose addresses no link has. The same directory gets the same number
 * where it is free.
 */
export async function makeClaim(directory: string): Promise<ClusterClaim> {
  const keeper = identify(process.pid);
  if (keeper === undefined) throw new Error('this process does not find itself in /proc');
  await mkdir(root, { recursive: true });
  const first = [...directory].reduce((sum, letter) => (sum * 31 + letter.charCodeAt(0)) % 256, 7);
  const taken = addresses();
  for (let step = 0; step < 256; step++) {
    const number = (first + step) % 256;
    if (taken.some((address) => address.startsWith(`172.31.${number}.`))) continue;
    const claim = { directory, number, keeper };
    try {
      await writeFile(claimFile(number), JSON.stringify(claim), { flag: 'wx' });
      return claim;
    } catch (error) {
      if ((error as NodeJS.ErrnoException).code !== 'EEXIST') throw error;
    }
  }
  throw new Error('no /24 of 172.31.0.0/16 is free for a bridge: see "ip address" and /run/skerry-real-node');
}

/** All claims on this machine; `isLive` says whether somebody looks after the cluster. */
export async function listClaims(): Promise<(ClusterClaim & { isLive: boolean })[]> {
  const names = await readdir(root).catch(() => []);
  const claims: (ClusterClaim & { isLive: boolean })[] = [];
  for (const name of names.filter((each) => each.startsWith('cluster-'))) {
    const text = await readFile(join(root, name), 'utf8').catch(() => '');
    if (text === '') continue;
    const claim = JSON.parse(text) as ClusterClaim;
    claims.push({ ...claim, isLive: isAlive(claim.keeper) });
  }
  return claims;
}

export async function dropClaim({ number }: ClusterClaim): Promise<void> {
  await rm(claimFile(number), { force: true });
}

/** A file beside the claims, of what is the whole machine's. */
function machineFile(name: string): string {
  return join(root, name);
}

function claimFile(number: number): string {
  return join(root, `cluster-${number}.json`);
}

function addresses(): string[] {
  return Object.values(networkInterfaces()).flatMap((all) => (all ?? []).map(({ address }) => address));
}

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
    const value = await readFile(sysctlFile(name), 'utf8').catch(() => undefined);
    if (value !== undefined) values[name] = value.trim();
  }
  await writeFile(saved, JSON.stringify(values), { flag: 'wx' }).catch((error: NodeJS.ErrnoException) => {
    if (error.code !== 'EEXIST') throw error;
  });
  if (Number(values['fs.inotify.max_user_instances']) < inotifyInstances) {
    await writeFile(sysctlFile('fs.inotify.max_user_instances'), String(inotifyInstances));
  }
}

/** To be called when the last cluster is gone. */
export async function restoreSysctls(): Promise<void> {
  const text = await readFile(saved, 'utf8').catch(() => undefined);
  if (text === undefined) return;
  for (const [name, value] of Object.entries(JSON.parse(text) as Record<string, string>)) {
    await writeFile(sysctlFile(name), value);
  }
  await rm(saved);
}

function sysctlFile(name: string): string {
  return `/proc/sys/${name.replaceAll('.', '/')}`;
}
