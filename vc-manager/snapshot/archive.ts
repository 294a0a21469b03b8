import { createHash } from 'node:crypto';
import { Readable } from 'node:stream';
import { createGunzip, createGzip } from 'node:zlib';
import { Decrypter, Encrypter } from 'age-encryption';
import { z } from 'zod';
import { messageOf } from '../../kube/index.ts';
import { damaged, notASnapshot, snapshotEncrypted, snapshotTooNew } from './errors.ts';
import type { PlainEntry } from './secretbox.ts';

/*
 * A snapshot is lines of JSON, compressed with gzip and, when there are recipients, encrypted with age
 * (age-encryption.org/v1): a header, an entry of the datastore on each line, and a last line by which one that was cut
 * short or changed is known. `age -d -i IDENTITY FILE | gunzip` shows it.
 */

const format = 'skerry-snapshot';
const formatVersion = 1;

const headerSchema = z.object({
  format: z.literal(format),
  formatVersion: z.int().min(1),
  /** Of the VirtualCluster. */
  namespace: z.string().max(63),
  name: z.string().max(63),
  id: z.string().max(20),
  /** UID of its kube-system namespace. */
  identity: z.string().max(64),
  /** Version that has written the entries. */
  kubernetes: z.string().max(32),
  serviceCIDR: z.string().max(64),
  /** Of the datastore. */
  revision: z.int().min(0),
  takenAt: z.iso.datetime(),
  /** Authorities and token key by file name; only in one that is encrypted, and only where that was asked for. */
  certificates: z.record(z.string().max(64), z.string().max(16_384)).optional(),
});

export type SnapshotHeader = Omit<z.infer<typeof headerSchema>, 'format' | 'formatVersion'>;

const entrySchema = z
  .tuple([z.string().min(1), z.base64()])
  .or(z.tuple([z.string().min(1), z.base64(), z.literal(1)]));
const endSchema = z.strictObject({ entries: z.int().min(0), sha256: z.string().length(64) });

/** etcd takes requests of 1.5 MiB, and Base64 makes four bytes of three. */
const longestLine = 4 * 1024 * 1024;

/** The bytes of a snapshot, as they are read from the datastore. `recipients` of age: `age1...`. */
export async function writeArchive(
  header: SnapshotHeader,
  entries: AsyncIterable<PlainEntry>,
  { recipients = [], onEntry }: { recipients?: readonly string[]; onEntry?: (bytes: number) => void } = {},
): Promise<Readable> {
  async function* lines(): AsyncGenerator<string> {
    const digest = createHash('sha256');
    let count = 0;
    const counted = (line: string): string => {
      digest.update(line);
      return line;
    };
    yield counted(`${JSON.stringify({ format, formatVersion, ...header })}\n`);
    for await (const { key, value, isSecret } of entries) {
      const text = Buffer.from(value.buffer, value.byteOffset, value.length).toString('base64');
      count++;
      onEntry?.(key.length + value.length);
      yield counted(`${JSON.stringify(isSecret ? [key, text, 1] : [key, text])}\n`);
    }
    yield `${JSON.stringify({ entries: count, sha256: digest.digest('hex') })}\n`;
  }
  const source = Readable.from(lines(), { objectMode: false, highWaterMark: 64 * 1024 });
  const gzip = createGzip();
  source.once('error', (error) => gzip.destroy(error));
  gzip.once('close', () => source.destroy());
  source.pipe(gzip);
  if (recipients.length === 0) return gzip;
  const encrypter = new Encrypter();
  for (const each of recipients) encrypter.addRecipient(each);
  const web = Readable.toWeb(gzip) as ReadableStream<Uint8Array>;
  return Readable.fromWeb((await encrypter.encrypt(web)) as Parameters<typeof Readable.fromWeb>[0]);
}

export interface Archive {
  readonly header: SnapshotHeader;
  /** Throws `SnapshotDamaged` at the latest behind the last entry: only one that was read to its end is whole. */
  readonly entries: AsyncIterable<PlainEntry>;
  /** For one whose entries are not read to their end. */
  close(): void;
}

interface ReadOptions {
  /** For messages. */
  readonly name: string;
  /** Of age: `AGE-SECRET-KEY-...`. */
  readonly identities?: readonly string[];
}

/** Reads the header. Throws SnapshotError when it is no snapshot, a damaged one, or one that cannot be decrypted. */
export async function readArchive(
  source: Readable,
  { name, identities = [] }: ReadOptions,
): Promise<Archive> {
  // What breaks on the way from the store says nothing about the snapshot.
  let broken: Error | undefined;
  source.once('error', (error) => {
    broken = error;
  });
  const orBroken = (error: unknown): never => {
    throw broken ?? error;
  };
  const lines = linesOf(await opened(source, name, identities).catch(orBroken), name);
  const nextLine = (): Promise<IteratorResult<string, undefined>> => lines.next().catch(orBroken);
  const digest = createHash('sha256');
  let first: IteratorResult<string, undefined>;
  let header: SnapshotHeader;
  try {
    first = await nextLine();
    if (first.done === true) throw damaged(name, 'it is empty');
    header = headerOf(first.value, name);
  } catch (error) {
    source.destroy();
    throw error;
  }
  digest.update(`${first.value}\n`);
  async function* entries(): AsyncGenerator<PlainEntry> {
    let count = 0;
    for (;;) {
      const { done, value: line } = await nextLine();
      if (done === true) throw damaged(name, 'it is cut short');
      const read = parsed(line);
      const end = endSchema.safeParse(read);
      if (end.success) {
        if (end.data.entries !== count || end.data.sha256 !== digest.digest('hex'))
          throw damaged(name, 'its checksum is wrong');
        if ((await nextLine()).done !== true) throw damaged(name, 'something follows its end');
        return;
      }
      const entry = entrySchema.safeParse(read);
      if (!entry.success) throw damaged(name, `line ${count + 2} is no entry`);
      const [key, text, secret] = entry.data;
      digest.update(`${line}\n`);
      count++;
      yield { key, value: Buffer.from(text, 'base64'), isSecret: secret === 1 };
    }
  }
  return { header, entries: entries(), close: () => void source.destroy() };
}

function headerOf(line: string, name: string): SnapshotHeader {
  const read = parsed(line) as { format?: unknown; formatVersion?: unknown } | undefined;
  if (read?.format !== format) throw notASnapshot(name, 'it does not begin like one');
  if (typeof read.formatVersion === 'number' && read.formatVersion > formatVersion)
    throw snapshotTooNew(
      name,
      `it has format ${read.formatVersion}, and this manager knows ${formatVersion}`,
    );
  const header = headerSchema.safeParse(read);
  if (!header.success) throw damaged(name, 'its header is not complete');
  const { format: _, formatVersion: __, ...rest } = header.data;
  return rest;
}

function parsed(line: string): unknown {
  try {
    return JSON.parse(line);
  } catch {
    return undefined;
  }
}

const gzipMagic = Buffer.from([0x1f, 0x8b]);
const ageMagic = Buffer.from('age-encryption.org/');

/** Decrypts what is encrypted, and decompresses. */
async function opened(source: Readable, name: string, identities: readonly string[]): Promise<Readable> {
  const start = await startOf(source, ageMagic.length);
  const isEncrypted = start.equals(ageMagic);
  if (!isEncrypted && !start.subarray(0, gzipMagic.length).equals(gzipMagic)) {
    source.destroy();
    throw start.length === 0
      ? damaged(name, 'it is empty')
      : notASnapshot(name, 'it is neither compressed nor encrypted');
  }
  const compressed = isEncrypted ? await decryptedStream(source, name, identities) : source;
  const gunzip = createGunzip();
  compressed.once('error', (error) => gunzip.destroy(error));
  gunzip.once('close', () => compressed.destroy());
  return compressed.pipe(gunzip);
}

async function decryptedStream(
  source: Readable,
  name: string,
  identities: readonly string[],
): Promise<Readable> {
  const decrypter = new Decrypter();
  for (const each of identities) decrypter.addIdentity(each);
  try {
    if (identities.length === 0) throw new Error('there is no identity');
    const web = Readable.toWeb(source) as ReadableStream<Uint8Array>;
    return Readable.fromWeb((await decrypter.decrypt(web)) as Parameters<typeof Readable.fromWeb>[0]);
  } catch (error) {
    source.destroy();
    throw snapshotEncrypted(name, error);
  }
}

/** The first bytes, which stay in the stream. */
async function startOf(source: Readable, length: number): Promise<Buffer> {
  const chunks = source.iterator({ destroyOnReturn: false });
  let start = Buffer.alloc(0);
  while (start.length < length) {
    const { done, value } = await chunks.next();
    // Too short for anything: it is not read on.
    if (done === true) return start;
    start = Buffer.concat([start, value as Buffer]);
  }
  await chunks.return?.();
  source.unshift(start);
  return start.subarray(0, length);
}

/** Lines without their ends. What is behind the last line end is not a line. */
async function* linesOf(source: Readable, name: string): AsyncGenerator<string, undefined> {
  let rest: Buffer[] = [];
  let restLength = 0;
  try {
    for await (const chunk of source) {
      let from = 0;
      for (let at = (chunk as Buffer).indexOf(10); at !== -1; at = (chunk as Buffer).indexOf(10, from)) {
        const line = Buffer.concat([...rest, (chunk as Buffer).subarray(from, at)]);
        rest = [];
        restLength = 0;
        from = at + 1;
        yield line.toString();
      }
      const left = (chunk as Buffer).subarray(from);
      restLength += left.length;
      if (restLength > longestLine) throw damaged(name, 'a line is longer than an entry can be');
      rest.push(left);
    }
  } catch (error) {
    if (error instanceof Error && 'retryable' in error) throw error;
    throw damaged(name, messageOf(error));
  } finally {
    source.destroy();
  }
  return undefined;
}
