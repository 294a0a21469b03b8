import { createHash } from 'node:crypto';
import { createReadStream } from 'node:fs';
import { readFile, stat } from 'node:fs/promises';
import { basename, join } from 'node:path';
import { Readable } from 'node:stream';
import { identityToRecipient } from 'age-encryption';
import type { VirtualCluster } from '../../api/virtual-cluster.ts';
import { refuseNewer, refuseOther } from '../operator/snapshot-files.ts';
import type { SnapshotServices } from '../operator/snapshots.ts';
import { readArchive, type SnapshotHeader } from '../snapshot/archive.ts';
import { SnapshotError, snapshotNotFound } from '../snapshot/errors.ts';
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

/** Counts what it passes on: what has the same number and digest elsewhere is the same. */
export class Measured {
  readonly #digest = createHash('sha256');
  #bytes = 0;

  async *pass(content: AsyncIterable<Buffer | string>): AsyncGenerator<Buffer> {
    for await (const each of content) {
      const chunk = typeof each === 'string' ? Buffer.from(each) : each;
      this.#digest.update(chunk);
      this.#bytes += chunk.length;
      yield chunk;
    }
  }

  /** When all of it has passed, and once. */
  summary(): string {
    return `${this.#bytes} bytes, sha256 ${this.#digest.digest('hex')}`;
  }
}

/** What was copied into the store. */
interface Added {
  name: string;
  /** Bytes and digest, for people. */
  summary: string;
  /** Whether it is whole could not be seen. */
  isEncrypted: boolean;
}

/** The name in the store, into which a file is copied first. Throws SnapshotError for one that is not whole. */
export async function snapshotFileName(
  cli: Cli,
  flags: SnapshotFlags & { from: string },
  ref: VirtualClusterRef,
): Promise<string> {
  const { from } = flags;
  if (await isFile(from)) return (await addFile(cli, flags, ref, from)).name;
  if (isSnapshotName(from)) return from;
  throw invalidArgument(
    `"${from}" is neither a file nor the name of a snapshot, NAMESPACE/NAME/FILE${snapshotSuffix}`,
  );
}

/** Copies a file, or standard input for `-`, into the store. Throws SnapshotError for what is none, or not whole. */
export async function addSnapshot(
  cli: Cli,
  flags: SnapshotFlags,
  ref: VirtualClusterRef,
  from: string,
): Promise<Added> {
  if (from === '-') return addInput(cli, flags, ref);
  if (!(await isFile(from))) throw invalidArgument(`"${from}" is no file, and "-" is standard input`);
  return addFile(cli, flags, ref, from);
}

async function addFile(
  cli: Cli,
  flags: SnapshotFlags,
  { namespace, name }: VirtualClusterRef,
  from: string,
): Promise<Added> {
  const header = await headerOf(createReadStream(from), from, { isWhole: true });
  const stem = basename(from, snapshotSuffix)
    .replaceAll(/[^A-Za-z0-9.-]/g, '-')
    .replace(/^[^A-Za-z0-9]+/, '');
  const copied = copiedName({ namespace, name }, stem.slice(0, 80) || 'file');
  const store = await storeOf(cli, flags);
  const measured = new Measured();
  const content = Readable.from(measured.pass(createReadStream(from)), { objectMode: false });
  await store.write(copied, content, { signal: cli.signal });
  return { name: copied, summary: measured.summary(), isEncrypted: header === undefined };
}

/** Never the name of one that the manager has taken. */
function copiedName({ namespace, name }: VirtualClusterRef, stem: string): string {
  return `${namespace}/${name}/copied-${stem}${snapshotSuffix}`;
}

/** Throws SnapshotError for what is none, or not whole, of which nothing stays. */
async function addInput(cli: Cli, flags: SnapshotFlags, ref: VirtualClusterRef): Promise<Added> {
  const { signal, clock, stdin } = cli;
  if (stdin === undefined || stdin.isTTY === true)
    throw invalidArgument('nothing comes on standard input: append "< FILE"');
  // It cannot be read twice, so that it is judged when it is there.
  const copied = copiedName(ref, new Date(clock.now()).toISOString().replaceAll(':', '-'));
  const store = await storeOf(cli, flags);
  const measured = new Measured();
  await store.write(copied, Readable.from(measured.pass(stdin), { objectMode: false }), { signal });
  try {
    const content = await store.read(copied, { signal });
    const header = await headerOf(content, 'standard input', { isWhole: true });
    return { name: copied, summary: measured.summary(), isEncrypted: header === undefined };
  } catch (error) {
    await store.remove(copied, { signal });
    throw error;
  }
}

/**
 * Undefined for one that is encrypted: the manager may have what opens it. `isWhole`: read to the end. Throws SnapshotError
 * for what is none, or not whole.
 */
async function headerOf(
  content: Readable,
  name: string,
  { isWhole = false } = {},
): Promise<SnapshotHeader | undefined> {
  try {
    const { header, entries } = await readArchive(content, { name });
    if (isWhole) for await (const _ of entries);
    return header;
  } catch (error) {
    if (error instanceof SnapshotError && error.code === 'SnapshotEncrypted') return undefined;
    throw error;
  } finally {
    content.destroy();
  }
}

/**
 * What a snapshot is of, in words, as far as it can be read from here. Throws SnapshotError for one that the manager would
 * not put this tenant back to.
 */
export async function describeSnapshot(
  cli: Cli,
  flags: SnapshotFlags & { from: string },
  { metadata, status }: VirtualCluster,
): Promise<string> {
  const { from } = flags;
  const { signal } = cli;
  const header = await headerOf(await contentOf(), from, { isWhole: true });
  if (header === undefined) return `${from}, which is encrypted, so that only the manager can judge it`;
  const { namespace, name, takenAt, kubernetes } = header;
  refuseNewer(from, header, status?.version ?? kubernetes);
  refuseOther(from, header, status?.identities?.tenant);

  async function contentOf(): Promise<Readable> {
    if (await isFile(from)) return createReadStream(from);
    const store = await storeOf(cli, flags);
    // The manager looks for no others.
    if (!from.startsWith(`${metadata.namespace}/`)) throw snapshotNotFound(from, store.location);
    return store.read(from, { signal });
  }
  return `${from}, taken of ${namespace}/${name} at ${takenAt} with Kubernetes ${kubernetes}`;
}

async function isFile(path: string): Promise<boolean> {
  return stat(path).then(
    (found) => found.isFile(),
    () => false,
  );
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
