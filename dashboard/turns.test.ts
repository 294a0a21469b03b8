import { describe, expect, it } from 'vitest';
import { Turns } from './turns.ts';

describe('turns', () => {
  it('let each do so much at once, have the rest wait, and refuse what is too much', async () => {
    const turns = new Turns({ atOnce: 2, waiting: 3 });
    const gate = Promise.withResolvers<void>();
    const began: number[] = [];
    const all = Array.from({ length: 5 }, (_, each) =>
      turns.take('blue', async () => {
        began.push(each);
        await gate.promise;
        return each;
      }),
    );
    await expect(turns.take('blue', async () => 0)).rejects.toMatchObject({ status: 429 });
    expect(await turns.take('green', async () => 'at once')).toBe('at once');
    expect(began).toEqual([0, 1]);
    gate.resolve();
    expect(await Promise.all(all)).toEqual([0, 1, 2, 3, 4]);
  });

  it('are given up with the connection of who waits', async () => {
    const turns = new Turns({ atOnce: 1, waiting: 3 });
    const gate = Promise.withResolvers<void>();
    const first = turns.take('blue', () => gate.promise);
    const gone = new AbortController();
    let isRun = false;
    const second = turns.take(
      'blue',
      async () => {
        isRun = true;
      },
      gone.signal,
    );
    gone.abort(new Error('gone'));
    await expect(second).rejects.toThrow('gone');
    gate.resolve();
    await first;
    expect(isRun).toBe(false);
  });

  it('remember nobody who has had theirs, whether it went well or not', async () => {
    const turns = new Turns({ atOnce: 1, waiting: 3 });
    const failed = turns.take('blue', async () => {
      throw new Error('odd');
    });
    await expect(failed).rejects.toThrow('odd');
    await turns.take('green', async () => undefined);
    await new Promise(setImmediate);
    expect(turns.busy).toBe(0);
  });
});
