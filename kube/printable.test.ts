import { expect, it } from 'vitest';
import { printable } from './printable.ts';

it('takes out what a terminal would act on, and leaves what people write', () => {
  expect(printable('\u001b[2Jgone\r\nsecond\u202eeno\u2028', 100)).toBe('?[2Jgone second?eno?');
  expect(printable('Größe: 3 µs – 你好', 100)).toBe('Größe: 3 µs – 你好');
});

it('is cut before it is looked through, in the middle of a character too', () => {
  expect(printable('a'.repeat(5), 3)).toBe('aaa...');
  expect(printable('a😀', 2)).toBe('a?...');
});
