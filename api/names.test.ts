import { describe, expect, it } from 'vitest';
import { idPattern, nameProblem } from './names.ts';

describe('validateName', () => {
  it.each(['a', '1', 'my-name', 'a'.repeat(63)])('accepts %s', (name) => {
    expect(nameProblem(name)).toBeUndefined();
  });

  it.each([
    ['', /required/],
    ['A', /RFC 1123/],
    ['a.b', /RFC 1123/],
    ['-a', /RFC 1123/],
    ['a-', /RFC 1123/],
    ['a\n', /RFC 1123/],
    ['ä', /RFC 1123/],
    ['a'.repeat(64), /no more than 63 characters \(it has 64\)/],
  ])('refuses %j with the reason', (name, reason) => {
    expect(nameProblem(name)).toMatch(reason);
  });
});

describe('idPattern', () => {
  it('keeps an id from leaving its place in paths and keys', () => {
    for (const id of ['abcdef', 'a2b3c4d5e6']) expect(id).toMatch(idPattern);
    for (const id of ['', 'short', 'a/bcdef', '../../etc', 'ABCDEF', 'a'.repeat(21), 'abcdef\n']) {
      expect(id).not.toMatch(idPattern);
    }
  });
});
