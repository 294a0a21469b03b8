import { describe, expect, it } from 'vitest';
import { ensureStandingPods, type LoadTarget, runLoad } from './pod-load.ts';
import type { Load } from './protocol.ts';

/** Answers creates and makes pods Ready only when told to. */
class SlowTarget implements LoadTarget {
  readonly name = 'slow';
  readonly created: string[] = [];
  readonly #answers: ((error?: Error) => void)[] = [];
  readonly #ready = new Map<string, () => void>();

  whenReady(pod: string, ready: () => void): void {
    this.#ready.set(pod, ready);
  }

  create(pod: string): Promise<void> {
    this.created.push(pod);
    return new Promise((resolve, reject) => {
      this.#answers.push((error) => (error === undefined ? resolve() : reject(error)));
    });
  }

  async answer(error?: Error): Promise<void> {
    this.#answers.shift()?.(error);
    await settled();
  }

  async makeReady(pod: string): Promise<void> {
    this.#ready.get(pod)?.();
    await settled();
  }
}

function settled(): Promise<void> {
  return new Promise((resolve) => setImmediate(resolve));
}

function start(target: SlowTarget, load: Load) {
  const stop = new AbortController();
  const failures: unknown[] = [];
  let time = 0;
  const done = runLoad(target, load, {
    podPrefix: 'p',
    signal: stop.signal,
    elapsed: () => time++,
    onFailure: (error) => failures.push(error),
  });
  return { stop, failures, done };
}

describe('a burst', () => {
  it('keeps so many calls in flight and does not wait for pods to be Ready', async () => {
    const target = new SlowTarget();
    const { done } = start(target, { target: 'slow', shape: 'burst', pods: 3, inFlight: 2 });
    expect(target.created).toEqual(['p-0', 'p-1']);
    await target.answer();
    expect(target.created).toEqual(['p-0', 'p-1', 'p-2']);
    await target.answer();
    await target.answer();
    for (const pod of target.created) await target.makeReady(pod);
    const samples = await done;
    expect(samples).toHaveLength(3);
    expect(samples.every(({ createdMs, readyMs = -1 }) => readyMs > createdMs)).toBe(true);
  });

  it('takes the time of a pod that is Ready before its create is answered', async () => {
    const target = new SlowTarget();
    const { done } = start(target, { target: 'slow', shape: 'burst', pods: 1, inFlight: 1 });
    await target.makeReady('p-0');
    await target.answer();
    const [sample] = await done;
    expect(sample?.readyMs).toBeLessThan(sample?.acceptedMs ?? 0);
  });
});

describe('a sequence', () => {
  it('creates a pod only when the one before is Ready', async () => {
    const target = new SlowTarget();
    const { done } = start(target, { target: 'slow', shape: 'sequence', pods: 2 });
    await target.answer();
    expect(target.created).toEqual(['p-0']);
    await target.makeReady('p-0');
    expect(target.created).toEqual(['p-0', 'p-1']);
    await target.answer();
    await target.makeReady('p-1');
    expect(await done).toHaveLength(2);
  });
});

describe('a load', () => {
  it('tells of a create that failed, and does not wait for that pod', async () => {
    const target = new SlowTarget();
    const { done, failures } = start(target, { target: 'slow', shape: 'burst', pods: 1, inFlight: 1 });
    await target.answer(new Error('forbidden'));
    expect(await done).toEqual([{ target: 'slow', createdMs: 0 }]);
    expect(failures).toEqual([new Error('forbidden')]);
  });

  it('hands over what it has when time is up', async () => {
    const target = new SlowTarget();
    const { done, stop } = start(target, { target: 'slow', shape: 'sequence', pods: 2 });
    await target.answer();
    stop.abort();
    const samples = await done;
    expect(samples).toHaveLength(1);
    expect(samples[0]?.readyMs).toBeUndefined();
  });
});

/** Whose pods are Ready as soon as they are created, unless it is broken. */
function targetWith(names: string[], isBroken = false) {
  const pods = new Set(names);
  const calls: string[] = [];
  return {
    calls,
    name: 'a',
    names: () => [...pods],
    isReady: (name: string) => pods.has(name) && !isBroken,
    ready: (name: string) =>
      isBroken || !pods.has(name) ? new Promise<void>(() => undefined) : Promise.resolve(),
    create: async (name: string) => {
      calls.push(`+${name}`);
      pods.add(name);
    },
    remove: async (name: string) => {
      calls.push(`-${name}`);
      pods.delete(name);
      return { target: 'a', deletedMs: 0, goneMs: 1 };
    },
  };
}

const limits = { inFlight: 2, timeoutMs: 60_000 };

describe('pods that stay', () => {
  it('are made where there are too few, and only those', async () => {
    const target = targetWith(['standing-0']);
    await ensureStandingPods([target], { perTarget: 3, ...limits });
    expect(target.calls).toEqual(['+standing-1', '+standing-2']);
  });

  it('are deleted where there are too many, with all that do not belong to them', async () => {
    const target = targetWith(['standing-0', 'standing-1', 'other']);
    await ensureStandingPods([target], { perTarget: 1, ...limits });
    expect(target.names()).toEqual(['standing-0']);
  });

  it('are not waited for without end', async () => {
    const target = targetWith([], true);
    const standing = ensureStandingPods([target], { perTarget: 2, inFlight: 2, timeoutMs: 20 });
    await expect(standing).rejects.toThrow('0 of 2 standing pods Ready: give more --timeout');
  });
});
