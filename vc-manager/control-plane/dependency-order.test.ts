import { describe, expect, it } from 'vitest';
import { runInDependencyOrder } from './plan.ts';

const steps = [
  { name: 'etcd', dependsOn: [] },
  { name: 'apiserver', dependsOn: ['etcd'] },
  { name: 'scheduler', dependsOn: ['apiserver'] },
  { name: 'kwok', dependsOn: [] },
];

/** Tasks that end when they are told to. */
function tasks() {
  const running = new Map<string, PromiseWithResolvers<void>>();
  const signals = new Map<string, AbortSignal>();
  const task = ({ name }: { name: string }, signal: AbortSignal) => {
    const own = Promise.withResolvers<void>();
    running.set(name, own);
    signals.set(name, signal);
    return own.promise;
  };
  return { running, signals, task };
}

const { signal } = new AbortController();
const settled = () => new Promise(setImmediate);

describe('steps that depend on each other', () => {
  it('begin as soon as what they depend on is done, side by side', async () => {
    const { running, task } = tasks();
    const done = runInDependencyOrder(steps, signal, task);
    await settled();
    expect([...running.keys()]).toEqual(['etcd', 'kwok']);
    running.get('etcd')?.resolve();
    await settled();
    expect([...running.keys()]).toEqual(['etcd', 'kwok', 'apiserver']);
    running.get('apiserver')?.resolve();
    await settled();
    for (const { resolve } of running.values()) resolve();
    await done;
    expect(running.size).toBe(4);
  });

  it('are given up with the first failure, which is thrown when the others have ended', async () => {
    const { running, signals, task } = tasks();
    let outcome: unknown;
    const done = runInDependencyOrder(steps, signal, task).catch((error: unknown) => {
      outcome = error;
    });
    await settled();
    running.get('etcd')?.reject(new Error('no disk'));
    await settled();
    expect(signals.get('kwok')?.aborted).toBe(true);
    expect(outcome).toBeUndefined();
    running.get('kwok')?.reject(new Error('aborted'));
    await done;
    expect(outcome).toMatchObject({ message: 'no disk' });
    expect([...running.keys()]).toEqual(['etcd', 'kwok']);
  });

  it('end with the reason of the signal', async () => {
    const abort = new AbortController();
    abort.abort(new Error('told to end'));
    const { running, task } = tasks();
    await expect(runInDependencyOrder(steps, abort.signal, task)).rejects.toThrow('told to end');
    expect(running.size).toBe(0);
  });
});
