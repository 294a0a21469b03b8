import { createReadStream } from 'node:fs';
import { readFile, stat } from 'node:fs/promises';
import { basename, join } from 'node:path';
import { identityToRecipient } from 'age-encryption';
import type { SnapshotServices } from '../operator/snapshots.ts';
import { openStore } from '../snapshot/open-store.ts';
import { isSnapshotName, type SnapshotStore, snapshotSuffix } from '../snapshot/store.ts';
import type { Cli, GlobalFlags } from './context.ts';
import { invalidArgument } from './errors.ts';
import { stateChoice } from './state-directory.ts';
import type { VirtualClusterRef } from './virtual-clusters.ts';

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

/** The name in the store, into which a file is copied first. */
export async function snapshotFileName(
  cli: Cli,
  flags: SnapshotFlags & { from: string },
  { namespace, name }: VirtualClusterRef,
): Promise<string> {
  const { from } = flags;
  const isFile = await stat(from).then(
    (found) => found.isFile(),
    () => false,
  );
  if (!isFile) {
    if (isSnapshotName(from)) return from;
    throw invalidArgument(
      `"${from}" is neither a file nor the name of a snapshot, NAMESPACE/NAME/FILE${snapshotSuffix}`,
    );
  }
  const stem = basename(from, snapshotSuffix)
    .replaceAll(/[^A-Za-z0-9.-]/g, '-')
    .replace(/^[^A-Za-z0-9]+/, '');
  // Never the name of one that the manager has taken.
  const copied = `${namespace}/${name}/copied-${stem.slice(0, 80) || 'file'}${snapshotSuffix}`;
  const store = await storeOf(cli, flags);
  await store.write(copied, createReadStream(from), { signal: cli.signal });
  return copied;
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
