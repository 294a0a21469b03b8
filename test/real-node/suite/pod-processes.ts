import { readdirSync, readFileSync } from 'node:fs';
import { identify, type ProcessIdentity } from '../../harness/processes.ts';

/** The process of a pod's container that runs this program, as this machine sees it. */
export function processOfPod(podUid: string, program: string): ProcessIdentity {
  for (const entry of readdirSync('/proc')) {
    const pid = Number(entry);
    if (!Number.isInteger(pid)) continue;
    if (!read(`/proc/${pid}/cgroup`).includes(podUid)) continue;
    const [command = ''] = read(`/proc/${pid}/cmdline`).split('\0');
    const found = command.split('/').at(-1) === program ? identify(pid) : undefined;
    if (found !== undefined) return found;
  }
  throw new Error(`no process of pod ${podUid} runs ${program}`);
}

/** Memory that only this process has and that no file stands behind, in bytes: program text is shared by all tenants. */
export function privateMemoryOf({ pid }: ProcessIdentity): number {
  const kilobytes = /^Private_Dirty:\s+(\d+) kB/m.exec(read(`/proc/${pid}/smaps_rollup`))?.[1];
  return Number(kilobytes ?? 0) * 1024;
}

function read(path: string): string {
  try {
    return readFileSync(path, 'utf8');
  } catch {
    return '';
  }
}
