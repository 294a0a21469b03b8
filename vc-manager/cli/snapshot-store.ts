import { readFile } from 'node:fs/promises';
import { join } from 'node:path';
import { identityToRecipient } from 'age-encryption';
import type { SnapshotServices } from '../operator/snapshots.ts';
import { openStore } from '../snapshot/open-store.ts';
import type { SnapshotStore } from '../snapshot/store.ts';
import type { Cli, GlobalFlags } from './context.ts';
import { invalidArgument } from './errors.ts';
import { stateChoice } from './state-directory.ts';

export interface SnapshotFlags extends GlobalFlags {
  snapshotStore?: string;
}

export const snapshotStoreFlag = '--snapshot-store <place>';

/** Where the local stack keeps snapshots. */
export function snapshotsDirectory(stateDir: string): string {
  return join(stateDir, 'snapshots');
}

/** The store of the flags; that of the local stack by default. */
export async function storeOf(cli: Cli, flags: SnapshotFlags): Promise<SnapshotStore> {
  const place = flags.snapshotStore ?? snapshotsDirectory(stateChoice(cli.env, flags).directory);
  return openStore(place, cli.env);
}

interface KeyFlags {
  snapshotRecipient?: string[];
  snapshotIdentityFile?: string;
}

const recipient = /^age1[a-z0-9]{20,4000}$/;

/** Throws `InvalidArgument` for what is no recipient or identity of age. */
export async function snapshotKeys({
  snapshotRecipient: recipients = [],
  snapshotIdentityFile: file,
}: KeyFlags): Promise<Pick<SnapshotServices, 'recipients' | 'identities'>> {
  const wrong = recipients.find((each) => !recipient.test(each));
  if (wrong !== undefined)
    throw invalidArgument(`"${wrong}" is no recipient of age: "age-keygen" prints one, it begins with age1`);
  if (file === undefined) return { recipients, identities: [] };
  const text = await readFile(file, 'utf8');
  const identities = text
    .split('\n')
    .map((line) => line.trim())
    .filter((line) => line !== '' && !line.startsWith('#'));
  try {
    for (const each of identities) await identityToRecipient(each);
  } catch {
    throw invalidArgument(`${file} holds something that is no identity of age, as "age-keygen" writes it`);
  }
  if (identities.length === 0) throw invalidArgument(`${file} holds no identity of age`);
  return { recipients, identities };
}
