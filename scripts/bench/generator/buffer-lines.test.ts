import { describe, expect, it } from 'vitest';
import { BufferLines } from './buffer-lines.ts';

describe('lines of a stream', () => {
  it('are the same however the stream is cut', () => {
    const text = 'first\nsécond line\n\nthird\n';
    const bytes = Buffer.from(text);
    for (let size = 1; size <= bytes.length; size++) {
      const lines: string[] = [];
      const splitter = new BufferLines();
      for (let at = 0; at < bytes.length; at += size) {
        splitter.push(bytes.subarray(at, at + size), (line) => lines.push(line.toString()));
      }
      expect(lines).toEqual(['first', 'sécond line', 'third']);
    }
  });
});
