import { setFlagsFromString } from 'node:v8';
import { runInNewContext } from 'node:vm';
import { expect, it } from 'vitest';
import { printable } from './printable.ts';

it('takes out what a terminal would act on, and leaves what people write', () => {
  expect(printable('\u001b[2Jgone\r\nsecond\u202eeno\u2028', 100)).toBe('?[2Jgone second?eno?');
  expect(printable('Größe: 3 µs – 你好', 100)).toBe('Größe: 3 µs – 你好');
});

it('keeps nothing of the text that it is cut from', () => {
  setFlagsFromString('--expose-gc');
  const collect = runInNewContext('gc') as () => void;
  /** What 100 texts keep in memory, each of 256 KiB, of which so much is shown. */
  const kept = (show: (text: string) => string): number => {
    collect();
    const before = process.memoryUsage().heapUsed;
    const texts = Array.from({ length: 100 }, (_, at) =>
      show(Buffer.from(`${' '.repeat(131_072)}number ${at} of 100${' '.repeat(131_072)}`).toString()),
    );
    collect();
    return texts.length > 0 ? process.memoryUsage().heapUsed - before : 0;
  };
  expect(kept((text) => printable(text, 50))).toBeLessThan(1_000_000);
  expect(kept((text) => printable(text.trim(), 50))).toBeLessThan(1_000_000);
  expect(kept((text) => text.trim())).toBeGreaterThan(20_000_000);
});

it('is cut before it is looked through, in the middle of a character too', () => {
  expect(printable('a'.repeat(5), 3)).toBe('aaa...');
  expect(printable('a😀', 2)).toBe('a?...');
});
