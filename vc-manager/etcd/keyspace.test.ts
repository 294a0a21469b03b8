import fc from 'fast-check';
import { describe, expect, it } from 'vitest';
import { keyAfter, prefixRange } from './keyspace.ts';

function inRange(key: Uint8Array, { key: first, rangeEnd }: ReturnType<typeof prefixRange>): boolean {
  const endless = rangeEnd.length === 1 && rangeEnd[0] === 0;
  return Buffer.compare(key, first) >= 0 && (endless || Buffer.compare(key, rangeEnd) < 0);
}

describe('prefixRange', () => {
  it('raises the last byte', () => {
    const { key, rangeEnd } = prefixRange('/tenants/a/');
    expect(Buffer.from(key).toString()).toBe('/tenants/a/');
    expect(Buffer.from(rangeEnd).toString()).toBe('/tenants/a0');
  });

  it('drops bytes that cannot be raised', () => {
    expect(prefixRange(Uint8Array.of(1, 0xff)).rangeEnd).toEqual(Uint8Array.of(2));
    expect(prefixRange(Uint8Array.of(1, 0xff, 0xff)).rangeEnd).toEqual(Uint8Array.of(2));
    expect(prefixRange(Uint8Array.of(0xfe, 0xff, 3)).rangeEnd).toEqual(Uint8Array.of(0xfe, 0xff, 4));
  });

  it('has no end for a prefix that nothing can follow, and means all keys when empty', () => {
    expect(prefixRange(Uint8Array.of(0xff, 0xff))).toEqual({
      key: Uint8Array.of(0xff, 0xff),
      rangeEnd: Uint8Array.of(0),
    });
    expect(prefixRange('')).toEqual({ key: Uint8Array.of(0), rangeEnd: Uint8Array.of(0) });
  });

  it('holds exactly the keys that start with the prefix', () => {
    // Few values, so that keys often share a prefix; 0xff among them.
    const bytes = fc
      .array(fc.constantFrom(0, 1, 0x2f, 0xfe, 0xff), { maxLength: 5 })
      .map((list) => Uint8Array.from(list));
    const keys = bytes.filter((key) => key.length > 0);
    fc.assert(
      fc.property(bytes, keys, (prefix, key) => {
        // etcd's "all keys" starts behind the empty key only in name: the smallest key is a zero byte.
        const starts = Buffer.from(key).subarray(0, prefix.length).equals(prefix);
        expect(inRange(key, prefixRange(prefix))).toBe(starts);
      }),
      { numRuns: 2000 },
    );
  });

  it('does not change the bytes that it is given', () => {
    const prefix = Uint8Array.of(1, 2);
    prefixRange(prefix);
    expect(prefix).toEqual(Uint8Array.of(1, 2));
  });
});

describe('keyAfter', () => {
  it('leaves no room between a key and the next', () => {
    const bytes = fc.uint8Array({ minLength: 1, maxLength: 4 });
    fc.assert(
      fc.property(bytes, bytes, (key, other) => {
        expect(Buffer.compare(other, key) > 0).toBe(Buffer.compare(other, keyAfter(key)) >= 0);
      }),
    );
  });
});
