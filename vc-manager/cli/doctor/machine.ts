import { type Finding, missing, ok, warn } from './check.ts';

const gigabyte = 1_000_000_000;

/** Super cluster, manager, syncer and two tenants were measured at about 1.3 GB. */
const neededMemory = 1.5 * gigabyte;
const neededPerTenant = 0.15 * gigabyte;

export function checkPlatform(platform: string, arch: string): Finding {
  const name = 'operating system';
  const detail = `${platform}/${arch}`;
  if (platform === 'linux' || platform === 'darwin') return ok(name, detail);
  const remedy = platform === 'win32' ? 'run Skerry inside WSL' : 'run Skerry on Linux or macOS';
  return missing(name, `${detail} is not supported`, remedy);
}

export function checkNode(version: string): Finding {
  const [major = 0, minor = 0] = version.split('.').map(Number);
  if (major > 22 || (major === 22 && minor >= 18)) return ok('Node.js', version);
  return missing(
    'Node.js',
    `${version} is too old`,
    'install Node.js 22.18 or newer, or run "npm ci", which brings one along',
  );
}

export function checkMemory(availableBytes: number, tenants: number): Finding {
  const name = 'memory';
  const detail = `${inGigabytes(availableBytes)} available`;
  const needed = neededMemory + tenants * neededPerTenant;
  if (availableBytes >= needed) return ok(name, detail);
  return warn(
    name,
    `${detail}, about ${inGigabytes(needed)} are needed`,
    'end other programs, or start with fewer tenants: vc-manager up --tenants 0',
  );
}

export function checkDisk(what: string, directory: string, freeBytes: number, neededBytes: number): Finding {
  const name = `disk space for ${what}`;
  const detail = `${inGigabytes(freeBytes)} free for ${directory}`;
  if (freeBytes >= neededBytes) return ok(name, detail);
  return missing(
    name,
    `${detail}, ${inGigabytes(neededBytes)} are needed`,
    `free space there, or use another place (${what === 'binaries' ? 'SKERRY_CACHE' : '--state-dir'})`,
  );
}

export function checkInotify(instances: number | undefined): Finding {
  const name = 'inotify instances';
  // Absent where the system has none to limit.
  if (instances === undefined) return ok(name, 'not limited');
  if (instances >= 512) return ok(name, `${instances} allowed`);
  return warn(
    name,
    `${instances} allowed, which is used up by about ${Math.floor(instances / inotifyPerControlPlane)} control planes`,
    'sudo sysctl fs.inotify.max_user_instances=8192',
  );
}

/** Counted on Kubernetes 1.36: what a tenant's kube-apiserver watches its files with. */
const inotifyPerControlPlane = 7;

export function checkOpenFiles(hardLimit: number | undefined): Finding {
  const name = 'open files';
  if (hardLimit === undefined) return ok(name, 'not limited');
  if (hardLimit >= 8_192) return ok(name, `${hardLimit} allowed`);
  return warn(
    name,
    `${hardLimit} allowed`,
    'raise the hard limit: ulimit -Hn 65536, or LimitNOFILE of the service',
  );
}

function inGigabytes(bytes: number): string {
  return `${(bytes / gigabyte).toFixed(1)} GB`;
}
