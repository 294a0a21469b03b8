import { readFileSync } from 'node:fs';
import { arch, availableParallelism, cpus, loadavg, platform, release, totalmem } from 'node:os';

/** Where and when something was measured. */
export interface Machine {
  at: string;
  cpu: string;
  cores: number;
  memoryGigabytes: number;
  system: string;
  node: string;
  /** Of the sources; undefined outside of a checkout. */
  commit?: string;
  loadBefore: number;
}

export function describeMachine(root: string, now: Date): Machine {
  const commit = commitOf(root);
  return {
    at: now.toISOString(),
    cpu: cpus()[0]?.model.trim() || 'unknown',
    cores: availableParallelism(),
    memoryGigabytes: Math.round(totalmem() / 1e9),
    system: `${platform()} ${release()} ${arch()}`,
    node: process.versions.node,
    ...(commit === undefined ? {} : { commit }),
    loadBefore: loadavg()[0] ?? 0,
  };
}

function commitOf(root: string): string | undefined {
  try {
    const head = readFileSync(`${root}/.git/HEAD`, 'utf8').trim();
    const ref = /^ref: (.*)$/.exec(head)?.[1];
    return ref === undefined ? head : readFileSync(`${root}/.git/${ref}`, 'utf8').trim();
  } catch {
    return undefined;
  }
}
