import { describe, expect, it } from 'vitest';
import { KeyedMutex } from './keyed-mutex.ts';

const { signal } = new AbortController();

describe('KeyedMutex', () => {
  it('runs tasks of one key one after another, in order, and those of others beside them', async () => {
    const lock = new KeyedMutex();
    const log: string[] = [];
    const gate = Promise.withResolvers<void>();
    const first = lock.run('a', signal, async () => {
      log.push('a1');
      await gate.promise;
      log.push('a1 done');
    });
    const second = lock.run('a', signal, async () => void log.push('a2'));
    await lock.run('b', signal, async () => void log.push('b'));
    gate.resolve();
    await Promise.all([first, second]);
    expect(log).toEqual(['a1', 'b', 'a1 done', 'a2']);
  });

  it('goes on after a task that fails', async () => {
    const lock = new KeyedMutex();
    await expect(lock.run('a', signal, () => Promise.reject(new Error('no')))).rejects.toThrow('no');
    expect(await lock.run('a', signal, async () => 1)).toBe(1);
  });

  it('never runs a task whose wait was aborted, and does not let later ones pass the running one', async () => {
    const lock = new KeyedMutex();
    const gate = Promise.withResolvers<void>();
    const log: string[] = [];
    const first = lock.run('a', signal, () => gate.promise.then(() => void log.push('first')));
    const abort = new AbortController();
    const second = lock.run('a', abort.signal, async () => void log.push('second'));
    const third = lock.run('a', signal, async () => void log.push('third'));
    abort.abort(new Error('enough'));
    await expect(second).rejects.toThrow('enough');
    gate.resolve();
    await Promise.all([first, third]);
    expect(log).toEqual(['first', 'third']);
  });
});
