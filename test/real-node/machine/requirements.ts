import { accessSync, constants, existsSync } from 'node:fs';
import { delimiter, join } from 'node:path';

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
