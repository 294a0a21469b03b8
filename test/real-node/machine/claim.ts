import { mkdir, readdir, readFile, rm, writeFile } from 'node:fs/promises';
import { networkInterfaces } from 'node:os';
import { join } from 'node:path';
import { identify, isAlive, type ProcessIdentity } from '../../harness/processes.ts';

/** What one cluster holds on this machine, so that two never share it and the next run finds it. */
export interface Claim {
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
export async function makeClaim(directory: string): Promise<Claim> {
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
      await writeFile(fileOf(number), JSON.stringify(claim), { flag: 'wx' });
      return claim;
    } catch (error) {
      if ((error as NodeJS.ErrnoException).code !== 'EEXIST') throw error;
    }
  }
  throw new Error('no /24 of 172.31.0.0/16 is free for a bridge: see "ip address" and /run/skerry-real-node');
}

/** All claims on this machine; `isLive` says whether somebody looks after the cluster. */
export async function listClaims(): Promise<(Claim & { isLive: boolean })[]> {
  const names = await readdir(root).catch(() => []);
  const claims: (Claim & { isLive: boolean })[] = [];
  for (const name of names.filter((each) => each.startsWith('cluster-'))) {
    const text = await readFile(join(root, name), 'utf8').catch(() => '');
    if (text === '') continue;
    const claim = JSON.parse(text) as Claim;
    claims.push({ ...claim, isLive: isAlive(claim.keeper) });
  }
  return claims;
}

export async function dropClaim({ number }: Claim): Promise<void> {
  await rm(fileOf(number), { force: true });
}

/** A file beside the claims, of what is the whole machine's. */
export function machineFile(name: string): string {
  return join(root, name);
}

function fileOf(number: number): string {
  return join(root, `cluster-${number}.json`);
}

function addresses(): string[] {
  return Object.values(networkInterfaces()).flatMap((all) => (all ?? []).map(({ address }) => address));
}
