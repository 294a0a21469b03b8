import { describe, expect, it } from 'vitest';
import { FakeClock } from './testing/index.ts';
import { Wakeup } from './wakeup.ts';

const { signal } = new AbortController();

describe('Wakeup', () => {
  it('ends a wait, and the next one at once if nobody waits; several signals count as one', async () => {
    const clock = new FakeClock();
    const wakeup = new Wakeup();
    const waiting = wakeup.waitFor(1_000, clock, signal);
    wakeup.signal();
    await waiting;
    wakeup.signal();
    wakeup.signal();
    await wakeup.wait();
    let ended = false;
    const next = wakeup.waitFor(1_000, clock, signal).then(() => {
      ended = true;
    });
    await clock.advance(999);
    expect(ended).toBe(false);
    await clock.advance(1);
    await next;
  });

  it('rejects with the reason of its signal', async () => {
    const abort = new AbortController();
    const waiting = new Wakeup().waitFor(1_000, new FakeClock(), abort.signal);
    abort.abort(new Error('enough'));
    await expect(waiting).rejects.toThrow('enough');
  });
});
