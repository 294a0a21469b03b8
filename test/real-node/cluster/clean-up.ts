import { existsSync } from 'node:fs';
import { readdir, readFile, rm } from 'node:fs/promises';
import { join } from 'node:path';
import { poll } from '../../harness/poll.ts';
import { identify, kill } from '../../harness/processes.ts';
import { runCli } from '../../harness/stack.ts';
import {
  type ClusterClaim,
  dropClaim,
  listClaims,
  removeCgroup,
  restoreSysctls,
} from '../machine/machine.ts';
import { Network } from '../machine/network.ts';
import { markVariable } from '../node/node-process.ts';

export function cgroupOf({ number }: Pick<ClusterClaim, 'number'>): string {
  return `skerry-${number}`;
}

/** Removes all that a cluster has or had on this machine, whatever state it was left in. */
export async function cleanUp(claim: ClusterClaim): Promise<void> {
  const { directory, number } = claim;
  const stateDir = join(directory, 'state');
  await Promise.all([
    endNodes(directory),
    existsSync(stateDir) ? runCli(stateDir, ['down', '--purge', '--state-dir', stateDir]) : undefined,
  ]);
  await new Network(number).down();
  await poll('the cgroups of the nodes to be empty', () => isRemoved(cgroupOf(claim)));
  await rm(directory, { recursive: true, force: true });
  await dropClaim(claim);
  if ((await listClaims()).length === 0) await restoreSysctls();
}

/** Removes what runs left behind whose keeper was killed. */
export async function cleanUpAbandoned(tell: (line: string) => void): Promise<void> {
  for (const claim of await listClaims()) {
    if (claim.isLive) continue;
    tell(`removing what a killed run left in ${claim.directory}`);
    await cleanUp(claim);
  }
}

/** A node's first process ends last, when the kernel has ended all others in it. */
async function endNodes(directory: string): Promise<void> {
  for (const pid of await marked(directory)) {
    const found = identify(pid);
    if (found !== undefined) await kill(found);
  }
  await poll('the processes of the nodes to end', async () => (await marked(directory)).length === 0);
}

async function marked(directory: string): Promise<number[]> {
  const found: number[] = [];
  for (const entry of await readdir('/proc')) {
    const pid = Number(entry);
    if (!Number.isInteger(pid) || pid === process.pid) continue;
    const environment = await readFile(`/proc/${pid}/environ`, 'utf8').catch(() => '');
    const value = environment.split('\0').find((field) => field.startsWith(`${markVariable}=${directory}/`));
    if (value !== undefined && identify(pid) !== undefined) found.push(pid);
  }
  return found;
}

async function isRemoved(cgroup: string): Promise<boolean> {
  try {
    await removeCgroup(cgroup);
    return true;
  } catch (error) {
    if ((error as NodeJS.ErrnoException).code === 'EBUSY') return false;
    throw error;
  }
}
