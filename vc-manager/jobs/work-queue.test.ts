import { describe, expect, it } from 'vitest';
import { FakeClock } from '../../kube/testing/index.ts';
import type { ReconcileResult } from './job-runner.ts';
import { WorkQueue } from './work-queue.ts';

/** A queue whose handler waits to be told how each piece of work ends. */
function setUp(parallel = 2, random = () => 0) {
  const clock = new FakeClock();
  const started: string[] = [];
  const failures: number[] = [];
  const slow: boolean[] = [];
  const errors: [string, unknown][] = [];
  const open = new Map<string, { finish: (outcome: ReconcileResult) => void; signal: AbortSignal }>();
  const queue = new WorkQueue({
    parallel,
    clock,
    random,
    minBackoffMs: 100,
    maxBackoffMs: 1_000,
    onError: (key, error) => errors.push([key, error]),
    handle: (key, signal, before) => {
      started.push(key);
      failures.push(before.failures);
      slow.push(before.isSlow);
      return new Promise<ReconcileResult>((finish, reject) => {
        open.set(key, { finish, signal });
        signal.addEventListener('abort', () => reject(signal.reason), { once: true });
      });
    },
  });
  const controller = new AbortController();
  const running = queue.run(controller.signal);
  const finish = async (key: string, outcome: ReconcileResult): Promise<void> => {
    open.get(key)?.finish(outcome);
    await clock.advance(0);
  };
  const stop = async (): Promise<void> => {
    controller.abort();
    await running;
  };
  return { clock, queue, started, failures, slow, errors, open, finish, stop };
}

describe('WorkQueue', () => {
  it('works on several keys at once, and on the rest in the order of their arrival', async () => {
    const { queue, started, clock, finish, stop } = setUp(2);
    for (const key of ['a', 'b', 'c', 'd']) queue.add(key);
    await clock.advance(0);
    expect(started).toEqual(['a', 'b']);
    await finish('b', { kind: 'done' });
    expect(started).toEqual(['a', 'b', 'c']);
    await stop();
  });

  it('never works on one key twice at the same time, but again when it was added meanwhile', async () => {
    const { queue, started, clock, finish, stop } = setUp();
    queue.add('a');
    await clock.advance(0);
    queue.add('a');
    queue.add('a');
    await clock.advance(0);
    expect(started).toEqual(['a']);
    await finish('a', { kind: 'done' });
    expect(started).toEqual(['a', 'a']);
    await finish('a', { kind: 'done' });
    expect(started).toEqual(['a', 'a']);
    await stop();
  });

  it('looks again after the time that the handler asks for, or when told', async () => {
    const { queue, started, clock, finish, stop } = setUp();
    queue.add('a');
    await clock.advance(0);
    await finish('a', { kind: 'done', againAfterMs: 5_000 });
    await clock.advance(4_999);
    expect(started).toEqual(['a']);
    await clock.advance(1);
    expect(started).toEqual(['a', 'a']);
    await finish('a', { kind: 'done', againAfterMs: 5_000 });
    queue.add('a');
    await clock.advance(0);
    expect(started).toEqual(['a', 'a', 'a']);
    await finish('a', { kind: 'done' });
    await clock.advance(100_000);
    expect(started).toEqual(['a', 'a', 'a']);
    await stop();
  });

  it('waits longer after every failure, up to a limit, and anew after a success, which a wait before another try is not', async () => {
    const { queue, started, failures, clock, finish, stop } = setUp();
    queue.add('a');
    await clock.advance(0);
    for (const pause of [100, 200, 400, 800, 1_000, 1_000]) {
      const { length } = started;
      await finish('a', { kind: 'failed' });
      await clock.advance(pause - 1);
      expect(started.length).toBe(length);
      await clock.advance(1);
      expect(started.length).toBe(length + 1);
    }
    expect(failures).toEqual([0, 1, 2, 3, 4, 5, 6]);
    await finish('a', { kind: 'done', againAfterMs: 1, keepsFailures: true });
    await clock.advance(1);
    expect(failures.at(-1)).toBe(6);
    await finish('a', { kind: 'done', againAfterMs: 1 });
    await clock.advance(1);
    expect(failures.at(-1)).toBe(0);
    await stop();
  });

  it('does not skip the pause because the key was added while it failed', async () => {
    const { queue, started, clock, finish, stop } = setUp();
    queue.add('a');
    await clock.advance(0);
    queue.add('a');
    await finish('a', { kind: 'failed' });
    expect(started).toEqual(['a']);
    await clock.advance(100);
    expect(started).toEqual(['a', 'a']);
    await stop();
  });

  it('never waits longer after a failure than it may, however the dice fall', async () => {
    const { queue, started, clock, finish, stop } = setUp(2, () => 0.999);
    queue.add('a');
    await clock.advance(0);
    for (let failures = 1; failures <= 12; failures++) {
      await finish('a', { kind: 'failed' });
      await clock.advance(1_000);
      expect(started.length).toBe(failures + 1);
    }
    await stop();
  });

  it('hurries with what has failed, and with nothing else', async () => {
    const { queue, started, clock, finish, stop } = setUp();
    for (const key of ['failed', 'done']) queue.add(key);
    await clock.advance(0);
    await finish('failed', { kind: 'failed' });
    await finish('done', { kind: 'done', againAfterMs: 5_000 });
    for (const key of ['failed', 'done', 'unknown']) queue.retryNow(key);
    await clock.advance(0);
    expect(started).toEqual(['failed', 'done', 'failed']);
    await stop();
  });

  it('hurries with what is ready before the call that missed it has failed, but not each time', async () => {
    const { queue, started, failures, clock, finish, stop } = setUp();
    queue.add('a');
    await clock.advance(0);
    const failWhenReady = async (): Promise<void> => {
      queue.retryNow('a');
      await finish('a', { kind: 'failed' });
    };
    await failWhenReady();
    expect(started).toEqual(['a', 'a']);
    // What the call itself starts is ready each time, and exits again.
    await failWhenReady();
    expect(started.length).toBe(2);
    await clock.advance(199);
    expect(started.length).toBe(2);
    await clock.advance(1);
    expect(failures).toEqual([0, 1, 2]);
    await failWhenReady();
    expect(started.length).toBe(4);
    await finish('a', { kind: 'done' });
    await clock.advance(10_000);
    expect(started.length).toBe(4);
    await stop();
  });

  it('waits as long as a server asks for, whatever is ready meanwhile', async () => {
    const { queue, started, clock, finish, stop } = setUp();
    queue.add('a');
    await clock.advance(0);
    queue.retryNow('a');
    await finish('a', { kind: 'failed', retryAfterMs: 7_000 });
    await clock.advance(6_999);
    expect(started).toEqual(['a']);
    await clock.advance(1);
    expect(started).toEqual(['a', 'a']);
    await stop();
  });

  it('gives up what is under way for an interrupted key, and begins anew at once', async () => {
    const { queue, started, failures, open, clock, finish, stop } = setUp();
    queue.add('a');
    await clock.advance(0);
    await finish('a', { kind: 'failed' });
    await clock.advance(100);
    const first = open.get('a');
    queue.interrupt('a');
    await clock.advance(0);
    expect(first?.signal.aborted).toBe(true);
    expect(started).toEqual(['a', 'a', 'a']);
    expect(failures.at(-1)).toBe(0);
    await stop();
  });

  describe('with keys that take long', () => {
    /** Four places, and as many keys whose last call took 11 seconds and failed: they wait to be handled again. */
    async function slow() {
      const world = setUp(4);
      const { clock, queue, finish, started } = world;
      const keys = ['s1', 's2', 's3', 's4'];
      for (const key of keys) queue.add(key);
      await clock.advance(11_000);
      for (const key of keys) await finish(key, { kind: 'failed' });
      started.length = 0;
      await clock.advance(100);
      return world;
    }

    it('has half of its room for others, and serves those in their order', async () => {
      const { queue, started, clock, finish, stop } = await slow();
      expect(started).toEqual(['s1', 's2']);
      for (const key of ['a', 'b', 'c']) queue.add(key);
      await clock.advance(0);
      expect(started.slice(2)).toEqual(['a', 'b']);
      await finish('a', { kind: 'done' });
      await finish('s1', { kind: 'done', againAfterMs: 60_000 });
      await finish('s2', { kind: 'done' });
      expect(started.slice(4)).toEqual(['c', 's3', 's4']);
      await stop();
    });

    it('does not count the time for which the work has waited elsewhere', async () => {
      const { queue, started, slow, clock, finish, stop } = setUp(4);
      for (const key of ['s1', 's2', 's3', 's4']) queue.add(key);
      await clock.advance(11_000);
      for (const key of ['s1', 's2', 's3']) await finish(key, { kind: 'failed', tookMs: 2_000 });
      await finish('s4', { kind: 'failed', tookMs: 10_500 });
      await clock.advance(100);
      expect(started.slice(4)).toEqual(['s1', 's2', 's3', 's4']);
      expect(slow.slice(4)).toEqual([false, false, false, true]);
      await stop();
    });

    it('rests while only such keys wait that have no room', async () => {
      const { clock, stop } = await slow();
      const before = clock.sleeping;
      await clock.advance(0);
      expect(clock.sleeping).toBe(before);
      await stop();
    });

    it('has room for one for which somebody waits, and for one that was quick since', async () => {
      const { queue, started, clock, finish, stop } = await slow();
      queue.interrupt('s4', { isAwaited: true });
      await clock.advance(0);
      expect(started).toEqual(['s1', 's2', 's4']);
      await finish('s1', { kind: 'done', againAfterMs: 1_000 });
      expect(started.slice(3)).toEqual(['s3']);
      await clock.advance(1_000);
      expect(started.slice(4)).toEqual(['s1']);
      await stop();
    });
  });

  it('has room for one that is interrupted for somebody in a long call, though keys that take long have theirs', async () => {
    const { queue, started, clock, finish, stop } = setUp(4);
    for (const key of ['s1', 's2', 'snapshot']) queue.add(key);
    await clock.advance(11_000);
    for (const key of ['s1', 's2']) await finish(key, { kind: 'failed' });
    await clock.advance(100);
    expect(started.slice(3)).toEqual(['s1', 's2']);
    queue.interrupt('snapshot', { isAwaited: true });
    await clock.advance(0);
    expect(started.slice(5)).toEqual(['snapshot']);
    await stop();
  });

  it('waits longer after what takes a worker each time, and neither an exit nor anything but a change ends that', async () => {
    const { queue, started, clock, finish, stop } = setUp();
    queue.add('a');
    await clock.advance(0);
    for (let failures = 0; failures < 6; failures++) {
      await finish('a', { kind: 'failed', maxBackoffMs: 5_000 });
      await clock.advance(Math.min(5_000, 100 * 2 ** failures));
      expect(started.length).toBe(failures + 2);
    }
    await finish('a', { kind: 'failed', maxBackoffMs: 5_000 });
    queue.addUnlessPaused('a');
    await clock.advance(4_999);
    expect(started.length).toBe(7);
    queue.interrupt('a');
    await clock.advance(0);
    expect(started.length).toBe(8);
    await finish('a', { kind: 'done', againAfterMs: 60_000 });
    queue.addUnlessPaused('a');
    await clock.advance(0);
    expect(started.length).toBe(9);
    await stop();
  });

  it('ends only after what is under way has ended', async () => {
    const clock = new FakeClock();
    const order: string[] = [];
    const queue = new WorkQueue({
      parallel: 1,
      clock,
      random: () => 0,
      onError: (_key, error) => {
        throw error;
      },
      handle: async (_key, signal) => {
        await new Promise<void>((resolve) => signal.addEventListener('abort', () => setImmediate(resolve)));
        order.push('work');
        return { kind: 'done' };
      },
    });
    const controller = new AbortController();
    const running = queue.run(controller.signal).then(() => order.push('run'));
    queue.add('a');
    await clock.advance(0);
    controller.abort();
    await running;
    expect(order).toEqual(['work', 'run']);
  });

  it('reports what a handler throws, with its key, and tries again after a pause', async () => {
    const clock = new FakeClock();
    const defect = new Error('defect');
    const errors: [string, unknown][] = [];
    let calls = 0;
    const controller = new AbortController();
    const queue = new WorkQueue({
      parallel: 1,
      clock,
      random: () => 0,
      minBackoffMs: 100,
      onError: (key, error) => errors.push([key, error]),
      handle: async () => {
        calls += 1;
        throw defect;
      },
    });
    const running = queue.run(controller.signal);
    queue.add('a');
    await clock.advance(100);
    expect(calls).toBe(2);
    expect(errors).toEqual([
      ['a', defect],
      ['a', defect],
    ]);
    controller.abort();
    await running;
  });
});
