/** A range of keys as etcd takes it: `key` is in it, `rangeEnd` is the first that is not. */
export interface KeyRange {
  readonly key: Uint8Array;
  readonly rangeEnd: Uint8Array;
}

/** etcd's word for "no end": a single zero byte. It also stands for the empty key, which etcd does not allow as key. */
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
