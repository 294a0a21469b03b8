import { describe, expect, it } from 'vitest';
import { KeyedMutex } from './keyed-mutex.ts';

describe('InOrder', () => {
  it('runs tasks of one key one after another, in the order of the calls', async () => {
    const order = new KeyedMutex();
    const gate = Promise.withResolvers<void>();
    const seen: string[] = [];
    const first = order.run('a', async () => {
      seen.push('first begins');
      await gate.promise;
      seen.push('first ends');
    });
    const second = order.run('a', async () => {
      seen.push('second');
    });
    await order.run('b', async () => {
      seen.push('other key');
    });
    expect(seen).toEqual(['first begins', 'other key']);
    gate.resolve();
    await Promise.all([first, second]);
    expect(seen).toEqual(['first begins', 'other key', 'first ends', 'second']);
  });

  it('gives a failure to its caller and goes on with the next task', async () => {
    const order = new KeyedMutex();
    const failing = order.run('a', async () => {
      throw new Error('broken');
    });
    const next = order.run('a', async () => 'done');
    await expect(failing).rejects.toThrow('broken');
    await expect(next).resolves.toBe('done');
  });
});
