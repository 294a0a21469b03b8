import fc from 'fast-check';
import { describe, expect, it } from 'vitest';
import { LineSplitter } from './line-splitter.ts';

function split(bytes: Buffer, cuts: readonly number[]): string[] {
  const splitter = new LineSplitter();
  const lines: string[] = [];
  let at = 0;
  for (const cut of [...cuts, bytes.length].sort((a, b) => a - b)) {
    lines.push(...splitter.push(bytes.subarray(at, cut)));
    at = cut;
  }
  return lines;
}

describe('LineSplitter', () => {
  it('returns the same lines wherever the bytes are cut', () => {
    const line = fc.string({ unit: 'grapheme', minLength: 1 }).filter((text) => !text.includes('\n'));
    fc.assert(
      fc.property(fc.array(line), fc.array(fc.nat(500)), (lines, cuts) => {
        const bytes = Buffer.from(lines.map((each) => `${each}\n`).join(''));
        const inside = cuts.map((cut) => Math.min(cut, bytes.length));
        expect(split(bytes, inside)).toEqual(lines.map((each) => Buffer.from(each).toString()));
      }),
    );
  });

  it('keeps a character whole whose bytes arrive one by one', () => {
    const splitter = new LineSplitter();
    const lines = [...Buffer.from('"€😀"\n')].flatMap((byte) => splitter.push(Buffer.from([byte])));
    expect(lines).toEqual(['"€😀"']);
  });

  it('leaves out empty lines', () => {
    expect(new LineSplitter().push(Buffer.from('\n\na\n\n'))).toEqual(['a']);
  });

  it('knows that a line is not complete', () => {
    const splitter = new LineSplitter();
    splitter.push(Buffer.from('a\nbc'));
    expect(splitter.pendingBytes).toBe(2);
  });

  it('refuses a line without end', () => {
    const splitter = new LineSplitter(10);
    expect(() => splitter.push(Buffer.from('longer than ten'))).toThrow(RangeError);
  });
});
