import fc from 'fast-check';
import { afterEach, describe, expect, it, vi } from 'vitest';
import { Chunks } from './chunks.ts';

const kibibyte = 1024;

afterEach(() => {
  vi.restoreAllMocks();
});

/** How it holds what was added: the Buffers that `take` joins. */
function partsOf(chunks: Chunks): readonly Uint8Array[] {
  const concat = vi.spyOn(Buffer, 'concat');
  chunks.take();
  const parts = concat.mock.calls.map(([list]) => list);
  concat.mockRestore();
  expect(parts).toHaveLength(1);
  return parts[0] ?? [];
}

describe('chunks of a stream', () => {
  it('are the same bytes in one piece, wherever they were cut', () => {
    const size = fc.oneof(fc.nat(10), fc.nat(70_000), fc.constantFrom(16 * kibibyte, 16 * kibibyte - 1));
    fc.assert(
      fc.property(fc.array(size, { maxLength: 20 }), (sizes) => {
        const total = sizes.reduce((sum, each) => sum + each, 0);
        const bytes = Buffer.from(Uint8Array.from({ length: total }, (_, index) => (index * 31) % 251));
        const chunks = new Chunks();
        let at = 0;
        for (const each of sizes) {
          chunks.add(bytes.subarray(at, at + each));
          at += each;
        }
        expect(chunks.length).toBe(total);
        expect(chunks.take().equals(bytes)).toBe(true);
        expect(chunks.length).toBe(0);
        expect(chunks.take()).toHaveLength(0);
      }),
    );
  });

  it.each([1, 100, 5_000, 16 * kibibyte - 1])(
    'of %i bytes each take little more than their bytes',
    (size) => {
      const chunks = new Chunks();
      const total = 512 * kibibyte;
      // As a socket reads: each is a view of something larger.
      const read = Buffer.alloc(64 * kibibyte, 'a');
      for (let at = 0; at < total; at += size) chunks.add(read.subarray(0, size));
      const parts = partsOf(chunks);
      expect(parts.length).toBeLessThan(50);
      const held = parts.reduce((sum, { buffer }) => sum + buffer.byteLength, 0);
      expect(held).toBeLessThan(1.5 * total);
    },
  );

  it('are not copied when there is one, and once when they are large', () => {
    const large = Array.from({ length: 10 }, () => Buffer.alloc(64 * kibibyte, 'a'));
    const chunks = new Chunks();
    for (const each of large) chunks.add(each);
    const parts = partsOf(chunks);
    expect(parts.map(({ buffer }) => buffer)).toEqual(large.map(({ buffer }) => buffer));
    const small = Buffer.from('small');
    chunks.add(small);
    expect(chunks.take()).toBe(small);
  });
});
