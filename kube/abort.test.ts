import { setImmediate } from 'node:timers/promises';
import { describe, expect, it } from 'vitest';
import { runTogether } from './abort.ts';

/** Works until aborted; then rejects with the reason. */
function worker(signal: AbortSignal): Promise<never> {
  return new Promise((_resolve, reject) => {
    signal.addEventListener('abort', () => reject(signal.reason), { once: true });
  });
}

describe('parts that run together', () => {
  it('end when they are aborted, without an error', async () => {
    const ending = new AbortController();
    const running = runTogether(ending.signal, (signal) => [worker(signal), worker(signal)]);
    ending.abort(new Error('over'));
    await running;
  });

  it('all end when one fails, and then its error is told', async () => {
    const { signal } = new AbortController();
    const failing = Promise.withResolvers<void>();
    const slow = Promise.withResolvers<void>();
    let ended: unknown;
    const running = runTogether(signal, (each) => [worker(each), failing.promise, slow.promise]);
    running.catch((error: unknown) => {
      ended = error;
    });
    failing.reject(new Error('a defect'));
    await setImmediate();
    expect(ended).toBeUndefined();
    slow.resolve();
    await expect(running).rejects.toThrow('a defect');
  });
});
