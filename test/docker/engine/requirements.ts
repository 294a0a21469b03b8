import { isOnPath } from '../../real-node/machine/requirements.ts';

/** Program to the Debian package that has it. */
const programs: Readonly<Record<string, string>> = {
  dockerd: 'docker.io',
  docker: 'docker.io',
  containerd: 'containerd',
  runc: 'runc',
  unshare: 'util-linux',
  setpriv: 'util-linux',
  go: 'golang, to build Docker Compose',
  // Of which images are made.
  'redis-server': 'redis-server',
  npm: 'npm',
  gcc: 'gcc and libc6-dev',
  make: 'make',
  bzip2: 'bzip2',
  'apt-get': 'apt, of Debian or Ubuntu',
};

/** Why this machine cannot run a Docker engine of the tests' own; undefined when it can. */
export function whyNoEngine(env: Readonly<Record<string, string | undefined>>): string | undefined {
  if (process.platform !== 'linux') return 'a Docker engine of our own needs Linux';
  if (process.getuid?.() !== 0) return 'a Docker engine of our own needs root';
  const missing = Object.keys(programs).filter((name) => !isOnPath(name, env));
  if (missing.length === 0) return undefined;
  return `missing: ${[...new Set(missing.map((name) => programs[name]))].join(', ')}`;
}
