import { describe, expect, it } from 'vitest';
import { parse } from 'yaml';
import { printable } from '../../kube/index.ts';
import { age, ageSince, elapsed, json, table, yaml } from './output.ts';

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

  it('shows nothing in a cell that a terminal would act on', () => {
    expect(table(undefined, [['a\u001b]0;title\u0007', '\u202eb']])).toBe('a?]0;title?   ?b\n');
  });

  it('is empty without rows', () => {
    expect(table(undefined, [])).toBe('');
  });
});

const second = 1000;
const minute = 60 * second;
const hour = 60 * minute;
const day = 24 * hour;

describe('age', () => {
  it.each([
    [0, '0s'],
    [119 * second, '119s'],
    [2 * minute, '2m'],
    [3 * minute + 12 * second, '3m12s'],
    [14 * minute + 50 * second, '14m'],
    [179 * minute, '179m'],
    [3 * hour, '3h'],
    [5 * hour + 20 * minute, '5h20m'],
    [47 * hour, '47h'],
    [2 * day, '2d'],
    [3 * day + 4 * hour, '3d4h'],
    [90 * day + 5 * hour, '90d'],
    [-5 * second, '0s'],
  ])('writes %i ms as kubectl does: %s', (ms, text) => {
    expect(age(ms)).toBe(text);
  });

  it('says that it does not know what has no timestamp', () => {
    expect(ageSince(undefined, 0)).toBe('<unknown>');
    expect(ageSince('1970-01-01T00:00:10Z', 40 * second)).toBe('30s');
  });
});

describe('elapsed', () => {
  it.each([
    [0, '0.0 s'],
    [3_240, '3.2 s'],
    [12_400, '12 s'],
    [119_400, '119 s'],
    [185_000, '3 min 05 s'],
  ])('writes %i ms as %s', (ms, text) => {
    expect(elapsed(ms)).toBe(text);
  });
});

describe.each([
  ['json', json, (text: string): unknown => JSON.parse(text)],
  ['yaml', yaml, (text: string): unknown => parse(text)],
] as const)('%s', (_, print, read) => {
  it('has nothing in it that a terminal would act on, and is read as what it was', () => {
    const value = {
      'a\u009b': 'red\u009b31m',
      plain: 'text',
      list: ['\u202eback', '\u{e0041}', '\u001b[2J', '\u2028'],
    };
    const text = print(value);
    for (const line of text.split('\n')) expect(printable(line, 10_000)).toBe(line);
    expect(read(text)).toEqual(value);
  });
});

it('YAML has no surrogates, in which go-yaml sees no characters', () => {
  const value = { tag: 'a\u{e0041}', face: '\u{1f600}\u202e' };
  const text = yaml(value);
  expect(text).toContain('\\U000e0041');
  expect(text).not.toMatch(/\\ud[89a-f]/i);
  expect(parse(text)).toEqual(value);
});
