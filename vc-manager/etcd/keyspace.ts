import type { EtcdSession } from './gateway.ts';

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
  kvs?: { key?: string; value?: string }[];
  /** A 64-bit number, which JSON carries as text; absent when zero. */
  count?: string;
}

/** Keys that go in one request: a large delete would hold up the writes of all other tenants. */
const pageSize = 1000;

export async function countKeys(session: EtcdSession, prefix: string, signal?: AbortSignal): Promise<number> {
  const answer = await range(session, prefixRange(prefix), { count_only: true }, signal);
  return Number(answer.count ?? 0);
}

/** What keys and values take, in bytes. */
export interface KeyspaceSize {
  keys: number;
  bytes: number;
}

/** etcd takes values of 1.5 MiB at most: as many make a page that fits into memory, whatever they hold. */
const valuesPerPage = 64;

/**
 * Reads every key with its value: etcd keeps no sums. Stops early when more than `enoughBytes` are found; then `bytes`
 * is what was counted so far, and `keys` is nevertheless the number of all.
 */
export async function measureKeys(
  session: EtcdSession,
  prefix: string,
  enoughBytes: number,
  signal?: AbortSignal,
): Promise<KeyspaceSize> {
  const all = prefixRange(prefix);
  let from = all.key;
  let bytes = 0;
  let seen = 0;
  for (;;) {
    const found = await range(session, { ...all, key: from }, { limit: valuesPerPage }, signal);
    const { kvs = [] } = found;
    const left = Number(found.count ?? 0);
    for (const { key = '', value = '' } of kvs) bytes += bytesOfBase64(key) + bytesOfBase64(value);
    const last = kvs.at(-1)?.key;
    if (last === undefined || left <= kvs.length || bytes > enoughBytes) return { keys: seen + left, bytes };
    seen += kvs.length;
    from = keyAfter(Buffer.from(last, 'base64'));
  }
}

function bytesOfBase64(text: string): number {
  const padding = text.endsWith('==') ? 2 : text.endsWith('=') ? 1 : 0;
  return (text.length / 4) * 3 - padding;
}

/** Deletes in pages, in one pass: what is written behind it while it runs stays. Returns the number of deleted keys. */
export async function deleteKeys(
  session: EtcdSession,
  prefix: string,
  signal?: AbortSignal,
): Promise<number> {
  const all = prefixRange(prefix);
  let from = all.key;
  let deleted = 0;
  for (;;) {
    const found = await range(session, { ...all, key: from }, { keys_only: true, limit: pageSize }, signal);
    const last = found.kvs?.at(-1)?.key;
    if (last === undefined) return deleted;
    const end = keyAfter(Buffer.from(last, 'base64'));
    const answer = (await session.call('/v3/kv/deleterange', wire({ key: from, rangeEnd: end }), signal)) as {
      deleted?: string;
    };
    deleted += Number(answer.deleted ?? 0);
    from = end;
  }
}

/** The first path segment below `prefix` of every key there; one request for each. */
export async function listSegments(
  session: EtcdSession,
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
  session: EtcdSession,
  keys: KeyRange,
  options: { count_only?: boolean; keys_only?: boolean; limit?: number },
  signal?: AbortSignal,
): Promise<RangeAnswer> {
  return (await session.call('/v3/kv/range', { ...wire(keys), ...options }, signal)) as RangeAnswer;
}

function wire(keys: KeyRange): { key: string; range_end: string } {
  return { key: base64(keys.key), range_end: base64(keys.rangeEnd) };
}
