import fc from 'fast-check';
import { describe, expect, it } from 'vitest';
import { cidrContains, cidrsOverlap } from './cidr.ts';
import { allocateSlice } from './slices.ts';

const pool = '10.112.0.0/12';

describe('allocateSlice', () => {
  it('hands out the lowest slice first and fills gaps', () => {
    expect(allocateSlice(pool, 22, [])).toBe('10.112.0.0/22');
    expect(allocateSlice(pool, 22, ['10.112.0.0/22'])).toBe('10.112.4.0/22');
    expect(allocateSlice(pool, 22, ['10.112.8.0/22', '10.112.0.0/22'])).toBe('10.112.4.0/22');
  });

  it('goes around ranges of other sizes, and ignores those outside the pool', () => {
    expect(allocateSlice(pool, 22, ['10.112.1.0/24'])).toBe('10.112.4.0/22');
    expect(allocateSlice(pool, 24, ['10.112.0.0/22'])).toBe('10.112.4.0/24');
    expect(allocateSlice(pool, 22, ['10.96.0.0/16', '10.128.0.0/9'])).toBe('10.112.0.0/22');
    expect(allocateSlice(pool, 22, ['10.0.0.0/8'])).toBeUndefined();
  });

  it('gives the whole pool as one slice', () => {
    expect(allocateSlice('10.112.0.0/22', 22, [])).toBe('10.112.0.0/22');
    expect(allocateSlice('0.0.0.0/0', 0, [])).toBe('0.0.0.0/0');
  });

  it('refuses a slice larger than the pool and a range that it cannot read', () => {
    expect(() => allocateSlice('10.112.0.0/24', 22, [])).toThrow(
      expect.objectContaining({ code: 'slice-larger-than-pool' }),
    );
    expect(() => allocateSlice(pool, 33, [])).toThrow(expect.objectContaining({ code: 'invalid-range' }));
    expect(() => allocateSlice(pool, 22, ['10.112.0.0'])).toThrow(
      expect.objectContaining({ code: 'invalid-range' }),
    );
  });

  it('never overlaps what is taken, runs full after exactly as many slices as fit, and reuses what is given back', () => {
    const taking = fc.record({
      prefixLength: fc.integer({ min: 20, max: 26 }),
      foreign: fc.array(fc.tuple(fc.integer({ min: 0, max: 255 }), fc.integer({ min: 24, max: 26 })), {
        maxLength: 6,
      }),
      giveBack: fc.nat(),
    });
    fc.assert(
      fc.property(taking, ({ prefixLength, foreign, giveBack }) => {
        const smallPool = '10.112.0.0/20';
        const others = foreign.map(([third, length]) => `10.112.${third}.0/${length}`);
        const slices: string[] = [];
        for (;;) {
          const slice = allocateSlice(smallPool, prefixLength, [...others, ...slices]);
          if (slice === undefined) break;
          expect(cidrContains(smallPool, slice)).toBe(true);
          expect([...others, ...slices].filter((other) => cidrsOverlap(other, slice))).toEqual([]);
          slices.push(slice);
        }
        expect(slices).toHaveLength(countFree(prefixLength, others));
        const back = slices[giveBack % Math.max(1, slices.length)];
        if (back === undefined) return;
        const rest = slices.filter((slice) => slice !== back);
        expect(allocateSlice(smallPool, prefixLength, [...rest, ...others])).toBe(back);
      }),
    );
  });
});

/** Counts the free slices of 10.112.0.0/20 one by one. */
function countFree(prefixLength: number, others: readonly string[]): number {
  const size = 2 ** (32 - prefixLength);
  let free = 0;
  for (let offset = 0; offset < 4096; offset += size) {
    const slice = `10.112.${offset >> 8}.${offset & 255}/${prefixLength}`;
    if (!others.some((other) => cidrsOverlap(other, slice))) free++;
  }
  return free;
}
