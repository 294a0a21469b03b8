import { expect, it } from 'vitest';
import { Silence, tickMs } from './silence.ts';

function looks(silence: Silence, beats: readonly number[], isFull = false): boolean[] {
  return beats.map((beat) => silence.look(beat, isFull));
}

const second = 1_000 / tickMs;

it('a thread that beats is not stuck, however full memory is', () => {
  const beats = Array.from({ length: 10 * second }, (_, n) => n);
  expect(looks(new Silence(), beats, true)).not.toContain(true);
});

it('one that has not for three seconds is, until it beats again', () => {
  const silence = new Silence();
  expect(looks(silence, new Array<number>(3 * second).fill(5))).not.toContain(true);
  expect(looks(silence, [5, 5, 6, 6])).toEqual([true, true, false, false]);
});

it('one that has not for half a second is, when memory is full', () => {
  expect(looks(new Silence(), [5, 5, 5], true)).toEqual([false, false, true]);
});
