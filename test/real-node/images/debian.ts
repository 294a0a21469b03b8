import { appendFile, rm } from 'node:fs/promises';
import { join } from 'node:path';
import type { Cache } from '../build/cache.ts';
import { run } from '../machine/run.ts';
import { type LayerEntry, tree } from './layer.ts';

export const debianRelease = 'bookworm';
const packages = ['curl', 'dnsutils', 'iproute2', 'iptables', 'netcat-openbsd'];
/** What nobody reads in a container. */
const ballast = [
  'var/cache/apt',
  'var/lib/apt/lists',
  'usr/share/doc',
  'usr/share/man',
  'usr/share/locale',
  'usr/share/info',
  'var/log',
];

export interface DebianOptions {
  /** Lines of /etc/passwd and /etc/group. */
  users: readonly string[];
  groups: readonly string[];
}

/** A small Debian with what upstream's tests call in a container. `target` must outlive the layer's use. */
export async function debianLayer(
  cache: Cache,
  target: string,
  { users, groups }: DebianOptions,
): Promise<LayerEntry[]> {
  cache.tell(`debootstrap ${debianRelease} with ${packages.join(', ')}`);
  const include = `--include=${packages.join(',')}`;
  await run(
    'debootstrap',
    ['--variant=minbase', include, debianRelease, target, await debianMirror(cache.env)],
    {
      signal: cache.signal,
    },
  );
  for (const path of ballast) await rm(join(target, path), { recursive: true, force: true });
  await appendFile(join(target, 'etc/passwd'), users.map((line) => `${line}\n`).join(''));
  await appendFile(join(target, 'etc/group'), groups.map((line) => `${line}\n`).join(''));
  const entries = await tree(target);
  // The runtime brings its own, and of the bootstrap's only device nodes and mount points are there.
  return entries.filter(({ path }) => !/^(dev|proc|sys)\//.test(path));
}

/** SKERRY_DEBIAN_MIRROR, or where this machine's own packages of that release come from. */
export async function debianMirror(env: Cache['env']): Promise<string> {
  if (env['SKERRY_DEBIAN_MIRROR']) return env['SKERRY_DEBIAN_MIRROR'];
  const format = '$(CODENAME) $(REPO_URI)';
  const targets = await run('apt-get', ['indextargets', '--format', format, 'Created-By: Packages']);
  const mirror = targets
    .split('\n')
    .map((line) => line.split(' '))
    .find(([codename]) => codename === debianRelease)?.[1];
  if (mirror === undefined) {
    throw new Error(
      `this machine has no packages of Debian ${debianRelease}: name a mirror in SKERRY_DEBIAN_MIRROR`,
    );
  }
  return mirror.replace(/\/$/, '');
}
