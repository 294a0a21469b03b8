import { expect, it } from 'vitest';
import { Silence, tickMs } from './silence.ts';

function looks(silence: Silence, beats: readonly number[], isFull = false): string[] {
  return beats.map((beat) => silence.look(beat, isFull));
}

const second = 1_000 / tickMs;

it('a thread that beats is not stuck, however full memory is', () => {
  const beats = Array.from({ length: 10 * second }, (_, n) => n);
  expect(new Set(looks(new Silence(), beats, true))).toEqual(new Set(['none']));
});

it('one that has not for three seconds is, until it beats again', () => {
  const silence = new Silence();
  expect(new Set(looks(silence, new Array<number>(3 * second).fill(5)))).toEqual(new Set(['none']));
  expect(looks(silence, [5, 5, 6, 6])).toEqual(['long', 'long', 'none', 'none']);
});

it('one that has not for half a second is, when memory is full', () => {
  expect(looks(new Silence(), [5, 5, 5], true)).toEqual(['none', 'none', 'short']);
});
