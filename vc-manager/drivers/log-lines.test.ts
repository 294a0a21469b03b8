import { describe, expect, it } from 'vitest';
import { LineSplitter, lastOf, longestLogLine, longestTailBytes } from './log-lines.ts';

describe('a log in pieces', () => {
  it('has the lines of the whole', () => {
    const lines = new LineSplitter();
    expect(['a', 'b\n\nc', '\nd'].flatMap((piece) => lines.push(piece))).toEqual(['ab', '', 'c']);
    expect(lines.end()).toBe('d');
    expect(lines.end()).toBeUndefined();
  });

  it('with a line without end keeps no more of it than is shown', () => {
    const lines = new LineSplitter();
    const piece = 'x'.repeat(64 * 1024);
    for (let count = 0; count < 2_000; count++) expect(lines.push(piece)).toEqual([]);
    expect(lines.unfinishedLength).toBe(longestLogLine + 1);
    expect(lines.push('\nnext\n')).toEqual([`${'x'.repeat(longestLogLine)}…`, 'next']);
    expect(lines.push(`${'y'.repeat(longestLogLine)}\n`)).toEqual(['y'.repeat(longestLogLine)]);
  });

  it('has so much of its end kept', async () => {
    async function* many() {
      for (let at = 0; at < 1_000; at++) yield `${at}`.padEnd(longestLogLine);
    }
    const kept = await lastOf(many());
    expect(kept).toHaveLength(longestTailBytes / longestLogLine);
    expect(kept.at(-1)?.trim()).toBe('999');
  });
});
