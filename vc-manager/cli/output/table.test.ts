import { describe, expect, it } from 'vitest';
import { table } from './table.ts';

describe('table', () => {
  it('aligns columns three spaces apart, with nothing behind the last one', () => {
    const text = table(
      ['NAME', 'PHASE'],
      [
        ['a', 'Ready'],
        ['team-blue', ''],
      ],
    );
    expect(text).toBe('NAME        PHASE\na           Ready\nteam-blue\n');
  });

  it('keeps a row on its line', () => {
    expect(table(undefined, [['a', 'two\nlines']])).toBe('a   two lines\n');
  });

  it('is empty without rows', () => {
    expect(table(undefined, [])).toBe('');
  });
});
