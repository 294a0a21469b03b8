import { expect, it } from 'vitest';
import { shownLine } from './logs.ts';

it('a terminal gets nothing to act on from a log, a pipe what was logged', () => {
  const line = 'E1124 "no such user" user="\u001b]0;owned\u0007\u202egnp"';
  expect(shownLine(line, { isTTY: true })).toBe('E1124 "no such user" user="?]0;owned??gnp"');
  expect(shownLine(line, { isTTY: false })).toBe(line);
  expect(shownLine(line, {})).toBe(line);
});
