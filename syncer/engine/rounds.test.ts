import { describe, expect, it } from 'vitest';
import type { Reflector } from '../../kube/index.ts';
import { FakeClock } from '../../kube/testing/index.ts';
import { freshListsOf, inRounds } from './rounds.ts';

/** Gives these numbers, again and again. */
function numbers(...values: number[]): () => number {
  let next = 0;
  return () => values[next++ % values.length] as number;
}

describe('rounds', () => {
  it('are spread over the first interval, and vary after that: who starts together does not stay together', async () => {
    const clock = new FakeClock();
    const stop = new AbortController();
    const times: Record<string, number[]> = { a: [], b: [] };
    const running = [numbers(0.1, 0.5), numbers(0.8, 0.75)].map((random, index) =>
      inRounds({ everyMs: 60_000, clock, random }, stop.signal, () => {
        times['ab'[index] as string]?.push(clock.monotonic());
      }).catch(() => undefined),
    );
    await clock.advance(200_000);
    stop.abort();
    await Promise.all(running);
    expect(times['a']?.slice(0, 3)).toEqual([6_000, 66_000, 121_200]);
    expect(times['b']?.slice(0, 2)).toEqual([48_000, 111_000]);
  });

  it('do not overlap, and end with what one throws', async () => {
    const clock = new FakeClock();
    const running = inRounds(
      { everyMs: 1_000, clock, random: () => 0.5 },
      new AbortController().signal,
      async () => {
        await clock.sleep(5_000);
        throw new Error('boom');
      },
    );
    const failed = expect(running).rejects.toThrow('boom');
    await clock.advance(5_000);
    expect(clock.sleeping).toBe(1);
    await clock.advance(1_000);
    await failed;
  });
});

describe('fresh lists', () => {
  it('come from one at a time, each in its turn, beginning anywhere', () => {
    const listed: string[] = [];
    const reflectors = ['a', 'b', 'c'].map(
      (name) => ({ relist: () => listed.push(name) }) as unknown as Reflector,
    );
    const listAfresh = freshListsOf(
      () => reflectors,
      () => 0.5,
    );
    for (let round = 0; round < 4; round++) listAfresh();
    expect(listed).toEqual(['c', 'a', 'b', 'c']);
    expect(() => freshListsOf(() => [], Math.random)()).not.toThrow();
  });
});
