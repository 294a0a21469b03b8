import { EtcdError, removalSuperseded, replaceSuperseded } from './errors.ts';

/** Who asks etcd: one call of its gateway. Throws EtcdError. */
export interface EtcdCaller {
  call(path: string, body: object, signal?: AbortSignal): Promise<unknown>;
}

/** A range of keys as etcd takes it: `key` is in it, `rangeEnd` is the first that is not. */
interface KeyRange {
  readonly key: Uint8Array;
  readonly rangeEnd: Uint8Array;
}

/** How etcd writes "no end": a single zero byte. It also stands for the empty key, which etcd does not allow as key. */
const zero = Uint8Array.of(0);

/**
 * All keys that start with the given bytes: the end is the prefix with its last byte raised by one. A byte 0xff cannot
 * be raised and is dropped, as whatever follows it is already behind the raised byte before it; a prefix of nothing but 0xff
 * has no end, and the empty prefix means every key.
 */
export function prefixRange(prefix: string | Uint8Array): KeyRange {
  const key = typeof prefix === 'string' ? new TextEncoder().encode(prefix) : prefix;
  const last = key.findLastIndex((byte) => byte !== 0xff);
  if (last === -1) return { key: key.length === 0 ? zero : key, rangeEnd: zero };
  const rangeEnd = key.slice(0, last + 1);
  rangeEnd[last] = (key[last] ?? 0) + 1;
  return { key, rangeEnd };
}

/** The smallest key after the given one: end of a range that includes it. */
export function keyAfter(key: Uint8Array): Uint8Array {
  const next = new Uint8Array(key.length + 1);
  next.set(key);
  return next;
}

export function base64(bytes: Uint8Array): string {
  return Buffer.from(bytes).toString('base64');
}

interface RangeAnswer {
  header?: { revision?: string };
  kvs?: { key?: string; value?: string; lease?: string }[];
  /** A 64-bit number, which JSON carries as text; absent when zero. */
  count?: string;
}

/** Keys that go in one request: a large delete would hold up the writes of all other tenants. */
const pageSize = 1000;

export async function countKeys(session: EtcdCaller, prefix: string, signal?: AbortSignal): Promise<number> {
  const answer = await range(session, prefixRange(prefix), { count_only: true }, signal);
  return Number(answer.count ?? 0);
}

/** What keys and values take, in bytes. */
export interface KeyspaceSize {
  keys: number;
  bytes: number;
}

/**
 * Values in the first request, and the most in one: the size of values is not known before they are read, and etcd has
 * all that is asked for in its memory.
 */
const firstPage = 8;
const largestPage = 64;
/** What a page is to have, in bytes of JSON, where the next values are as large as the last. */
const wantedPageBytes = 4 * 1024 * 1024;
/** How many times smaller the next try is when a page is larger than what is read of one. */
const pageShrinkage = 4;

/**
 * Reads every key with its value: etcd keeps no sums. Stops early when more than `enoughBytes` are found; then `bytes`
 * is what was counted so far, and `keys` is nevertheless the number of all.
 */
export async function measureKeys(
  session: EtcdCaller,
  prefix: string,
  enoughBytes: number,
  signal?: AbortSignal,
): Promise<KeyspaceSize> {
  let bytes = 0;
  let seen = 0;
  let keys = 0;
  for await (const { kvs, left } of valuePages(session, prefix, {}, signal)) {
    for (const { key = '', value = '' } of kvs) bytes += bytesOfBase64(key) + bytesOfBase64(value);
    keys = seen + left;
    if (bytes > enoughBytes) break;
    seen += kvs.length;
  }
  return { keys, bytes };
}

interface ValuePage {
  readonly kvs: NonNullable<RangeAnswer['kvs']>;
  /** Keys from the first of this page on, as etcd counts them now. */
  readonly left: number;
}

/**
 * All keys below a prefix with their values. Pages have as many as fit into what is read of an answer: one that is larger is
 * asked for again with fewer. Throws EtcdError `AnswerTooLarge` for one value that is.
 */
async function* valuePages(
  session: EtcdCaller,
  prefix: string,
  options: { revision?: string },
  signal?: AbortSignal,
): AsyncGenerator<ValuePage> {
  const all = prefixRange(prefix);
  let limit = firstPage;
  for (let from = all.key; ; ) {
    let found: RangeAnswer;
    try {
      found = await range(session, { ...all, key: from }, { ...options, limit }, signal);
    } catch (error) {
      if (!(error instanceof EtcdError && error.code === 'AnswerTooLarge') || limit === 1) throw error;
      limit = Math.max(1, Math.floor(limit / pageShrinkage));
      continue;
    }
    const { kvs = [] } = found;
    const last = kvs.at(-1)?.key;
    if (last === undefined) return;
    const left = Number(found.count ?? 0);
    yield { kvs, left };
    if (left <= kvs.length) return;
    from = keyAfter(Buffer.from(last, 'base64'));
    const bytes = kvs.reduce((sum, { key = '', value = '' }) => sum + key.length + value.length, 0);
    const fitting = Math.floor((wantedPageBytes / bytes) * kvs.length);
    limit = Math.max(1, Math.min(fitting, 2 * limit, largestPage));
  }
}

function bytesOfBase64(text: string): number {
  const padding = text.endsWith('==') ? 2 : text.endsWith('=') ? 1 : 0;
  return (text.length / 4) * 3 - padding;
}

interface Removal {
  /** A key outside of the prefix, which goes too. */
  readonly guard: string;
  /** Called before each write: throws when this manager may not write any more. */
  readonly beforeWrite?: (() => void) | undefined;
}

/**
 * Deletes all keys below a prefix that has no writer any more. Each write is bound to that: where something was written
 * since the call, as by a manager that took over and moved the tenant back, nothing is deleted (`RemovalSuperseded`).
 */
export async function removeKeys(
  session: EtcdCaller,
  prefix: string,
  { guard, beforeWrite = () => {} }: Removal,
  signal?: AbortSignal,
): Promise<void> {
  const { header } = await range(session, prefixRange(prefix), { count_only: true }, signal);
  const since = String(Number(header?.revision ?? 0) + 1);
  const remove = async (keys: { key: string; range_end?: string }): Promise<void> => {
    beforeWrite();
    // Of a range it holds when it does for every key.
    const compare = [{ result: 'LESS', target: 'MOD', ...keys, mod_revision: since }];
    const success = [{ request_delete_range: keys }];
    const answer = (await session.call('/v3/kv/txn', { compare, success }, signal)) as {
      succeeded?: boolean;
    };
    if (answer.succeeded !== true) throw removalSuperseded(prefix);
  };
  for await (const page of pagesOf(session, prefix, signal)) await remove(wire(page));
  await remove({ key: base64(Buffer.from(guard)) });
}

/** The keys below a prefix in one pass, as ranges of `pageSize` keys. */
async function* pagesOf(session: EtcdCaller, prefix: string, signal?: AbortSignal): AsyncGenerator<KeyRange> {
  const all = prefixRange(prefix);
  for (let key = all.key; ; ) {
    const found = await range(session, { ...all, key }, { keys_only: true, limit: pageSize }, signal);
    const last = found.kvs?.at(-1)?.key;
    if (last === undefined) return;
    const rangeEnd = keyAfter(Buffer.from(last, 'base64'));
    yield { key, rangeEnd };
    key = rangeEnd;
  }
}

/** The first path segment below `prefix` of every key there; one request for each. */
export async function listSegments(
  session: EtcdCaller,
  prefix: string,
  signal?: AbortSignal,
): Promise<string[]> {
  const all = prefixRange(prefix);
  const segments: string[] = [];
  let from = all.key;
  for (;;) {
    const found = await range(session, { ...all, key: from }, { keys_only: true, limit: 1 }, signal);
    const first = found.kvs?.[0]?.key;
    if (first === undefined) return segments;
    const key = Buffer.from(first, 'base64').toString();
    const segment = key.slice(prefix.length).split('/', 1)[0] ?? '';
    segments.push(segment);
    const isLeaf = key === `${prefix}${segment}`;
    from = isLeaf ? keyAfter(Buffer.from(first, 'base64')) : prefixRange(`${prefix}${segment}/`).rangeEnd;
  }
}

async function range(
  session: EtcdCaller,
  keys: KeyRange,
  options: { count_only?: boolean; keys_only?: boolean; limit?: number; revision?: string },
  signal?: AbortSignal,
): Promise<RangeAnswer> {
  return (await session.call('/v3/kv/range', { ...wire(keys), ...options }, signal)) as RangeAnswer;
}

function wire(keys: KeyRange): { key: string; range_end: string } {
  return { key: base64(keys.key), range_end: base64(keys.rangeEnd) };
}

/** A key, without the prefix below which it lies, and its value. */
export interface Entry {
  readonly key: string;
  readonly value: Uint8Array;
}

/** All keys below a prefix as they were at one revision. */
export interface KeyspaceView {
  readonly revision: number;
  /** How many there are, those that end by themselves included. */
  readonly count: number;
  /**
   * In order of their keys, a page in memory at a time. Without what ends by itself (with a lease of etcd). Throws
   * EtcdError `Compacted` when it is read so slowly that etcd has forgotten the revision.
   */
  readonly entries: AsyncIterable<Entry>;
}

export async function viewKeys(
  session: EtcdCaller,
  prefix: string,
  signal?: AbortSignal,
): Promise<KeyspaceView> {
  const { header, count } = await range(session, prefixRange(prefix), { count_only: true }, signal);
  const revision = header?.revision ?? '0';
  const prefixLength = Buffer.byteLength(prefix);
  async function* entries(): AsyncGenerator<Entry> {
    for await (const { kvs } of valuePages(session, prefix, { revision }, signal)) {
      for (const { key = '', value = '', lease = '0' } of kvs) {
        if (lease !== '0') continue;
        const name = Buffer.from(key, 'base64').subarray(prefixLength).toString();
        yield { key: name, value: Buffer.from(value, 'base64') };
      }
    }
  }
  return { revision: Number(revision), count: Number(count ?? 0), entries: entries() };
}

/** What one transaction may hold: etcd takes 128 operations and 1.5 MiB, or one value of that size. */
const operationsPerWrite = 100;
const bytesPerWrite = 512 * 1024;

interface ReplaceTarget {
  readonly prefix: string;
  /** A key outside of the prefix, for this use alone. */
  readonly guard: string;
  /** Tells this call from every other. */
  readonly attempt: string;
  /** Only what is given is replaced. */
  readonly keepOthers?: boolean;
}

/**
 * Replaces all keys below a prefix. Each write is bound to a key outside of it that says who replaces them: a manager that
 * stood still meanwhile writes nothing behind the back of the one that took over (`ReplaceSuperseded`). One that ends
 * in the middle leaves a part; the next call begins anew. Where the entries end with an error, nothing is left of what was
 * written, unless others are kept.
 */
export async function replaceKeys(
  session: EtcdCaller,
  { prefix, guard, attempt, keepOthers = false }: ReplaceTarget,
  entries: AsyncIterable<Entry>,
  { signal, onProgress }: { signal?: AbortSignal | undefined; onProgress?: (written: number) => void } = {},
): Promise<number> {
  const guardKey = base64(Buffer.from(guard));
  const mark = base64(Buffer.from(attempt));
  await session.call('/v3/kv/put', { key: guardKey, value: mark }, signal);
  const compare = [{ result: 'EQUAL', target: 'VALUE', key: guardKey, value: mark }];
  const write = async (success: readonly object[]): Promise<void> => {
    const answer = (await session.call('/v3/kv/txn', { compare, success }, signal)) as {
      succeeded?: boolean;
    };
    if (answer.succeeded !== true) throw replaceSuperseded(prefix);
  };

  const clear = async (): Promise<void> => {
    for await (const page of pagesOf(session, prefix, signal))
      await write([{ request_delete_range: wire(page) }]);
  };
  const end = (): Promise<void> => write([{ request_delete_range: { key: guardKey } }]);
  if (!keepOthers) await clear();

  let written = 0;
  let batch: object[] = [];
  let bytes = 0;
  const flush = async (): Promise<void> => {
    if (batch.length === 0) return;
    await write(batch);
    written += batch.length;
    onProgress?.(written);
    batch = [];
    bytes = 0;
  };
  let hasSourceFailed = false;
  async function* source(): AsyncGenerator<Entry> {
    try {
      yield* entries;
    } catch (error) {
      hasSourceFailed = true;
      throw error;
    }
  }
  try {
    for await (const { key, value } of source()) {
      if (batch.length >= operationsPerWrite || bytes + value.length > bytesPerWrite) await flush();
      batch.push({ request_put: { key: base64(Buffer.from(prefix + key)), value: base64(value) } });
      bytes += value.length;
    }
  } catch (error) {
    if (hasSourceFailed && !keepOthers && signal?.aborted !== true) {
      await clear();
      await end();
    }
    throw error;
  }
  await flush();
  await end();
  return written;
}

/**
 * Writes entries below a prefix with nothing in it. Each transaction is bound to that: where anybody else has written there
 * before or since, nothing more is. Returns whether all are written.
 */
export async function fillEmpty(
  session: EtcdCaller,
  prefix: string,
  entries: readonly Entry[],
  signal?: AbortSignal,
): Promise<boolean> {
  const all = wire(prefixRange(prefix));
  let since = '1';
  for (let at = 0; at < entries.length; at += operationsPerWrite) {
    // Of a range it holds when it does for every key.
    const compare = [{ result: 'LESS', target: 'MOD', ...all, mod_revision: since }];
    const success = entries.slice(at, at + operationsPerWrite).map(({ key, value }) => ({
      request_put: { key: base64(Buffer.from(prefix + key)), value: base64(value) },
    }));
    const answer = (await session.call('/v3/kv/txn', { compare, success }, signal)) as {
      succeeded?: boolean;
      header?: { revision?: string };
    };
    if (answer.succeeded !== true) return false;
    since = String(Number(answer.header?.revision ?? 0) + 1);
  }
  return true;
}

/** etcd takes up so many small writes at a time that one batch of its log holds them all. */
const parallelWrites = 64;
/** Where others have to get their turn. */
const parallelWritesBesideOthers = 8;
/** Its history is of no use. */
const writesPerCompaction = 50_000;

interface RaiseTarget {
  /** A key for this use alone. */
  readonly key: string;
  readonly target: number;
  /** Others write too, and read history: that is left to etcd's own compaction. */
  readonly isShared?: boolean;
  readonly isEnough?: (() => boolean) | undefined;
}

/**
 * Has etcd count on to a revision at least this high. Who has read from another etcd asks for changes since a revision of
 * that one: below it, this one would be silent. Ends early when `isEnough`; returns the revision.
 */
export async function raiseRevision(
  session: EtcdCaller,
  { key, target, isShared = false, isEnough = () => false }: RaiseTarget,
  signal?: AbortSignal,
): Promise<number> {
  const put = { key: base64(Buffer.from(key)), value: '' };
  const most = isShared ? parallelWritesBesideOthers : parallelWrites;
  let revision = await revisionOf(session, signal);
  let compacted = revision;
  while (revision < target && !isEnough()) {
    const count = Math.min(most, target - revision);
    const answers = (await Promise.all(
      Array.from({ length: count }, () => session.call('/v3/kv/put', put, signal)),
    )) as { header?: { revision?: string } }[];
    revision = Math.max(revision, ...answers.map(({ header }) => Number(header?.revision ?? 0)));
    if (isShared || revision - compacted < writesPerCompaction) continue;
    compacted = revision;
    await session.call('/v3/kv/compaction', { revision: String(revision) }, signal);
  }
  return revision;
}

async function revisionOf(session: EtcdCaller, signal?: AbortSignal): Promise<number> {
  const { header } = await range(session, prefixRange('/'), { count_only: true }, signal);
  return Number(header?.revision ?? 0);
}
