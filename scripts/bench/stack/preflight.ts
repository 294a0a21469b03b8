import { readFile } from 'node:fs/promises';

export interface Limits {
  /** Undefined: this system has no such limit, or does not tell. */
  inotifyInstances?: number;
  availableBytes?: number;
}

const gigabyte = 1_000_000_000;
/** Super cluster, manager, syncer and load generator. */
const bytesAtLeast = 1.8 * gigabyte;
const bytesPerTenant = 0.2 * gigabyte;
/** What a kube-apiserver watches its files with, and some for all else. */
const inotifyPerTenant = 7;
const inotifyAtLeast = 64;

/** What would stop a run of so many tenants in its middle: throws for what certainly will, returns what may. */
export function preflight(tenants: number, { inotifyInstances, availableBytes }: Limits): string[] {
  const instances = inotifyAtLeast + tenants * inotifyPerTenant;
  if (inotifyInstances !== undefined && inotifyInstances < instances) {
    throw new Error(
      `${tenants} tenants need about ${instances} inotify instances, ${inotifyInstances} are allowed: sudo sysctl fs.inotify.max_user_instances=8192, or fewer --tenants`,
    );
  }
  const bytes = bytesAtLeast + tenants * bytesPerTenant;
  if (availableBytes !== undefined && availableBytes < bytes)
    return [
      `${tenants} tenants need about ${inGigabytes(bytes)} of memory, ${inGigabytes(availableBytes)} are available: give fewer --tenants if it does not go well`,
    ];
  return [];
}

export async function limitsOfMachine(): Promise<Limits> {
  const inotify = Number(await readOrEmpty('/proc/sys/fs/inotify/max_user_instances'));
  const kilobytes = /^MemAvailable:\s+(\d+) kB$/m.exec(await readOrEmpty('/proc/meminfo'))?.[1];
  return {
    ...(inotify > 0 ? { inotifyInstances: inotify } : {}),
    ...(kilobytes === undefined ? {} : { availableBytes: Number(kilobytes) * 1024 }),
  };
}

async function readOrEmpty(file: string): Promise<string> {
  try {
    return await readFile(file, 'utf8');
  } catch {
    return '';
  }
}

function inGigabytes(bytes: number): string {
  return `${(bytes / gigabyte).toFixed(1)} GB`;
}
