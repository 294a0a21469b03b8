import { describe, expect, it } from 'vitest';
import { stand } from './stand.ts';

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
    await stand([target], { perTarget: 3, ...limits });
    expect(target.calls).toEqual(['+standing-1', '+standing-2']);
  });

  it('are deleted where there are too many, with all that do not belong to them', async () => {
    const target = targetWith(['standing-0', 'standing-1', 'other']);
    await stand([target], { perTarget: 1, ...limits });
    expect(target.names()).toEqual(['standing-0']);
  });

  it('are not waited for without end', async () => {
    const target = targetWith([], true);
    const standing = stand([target], { perTarget: 2, inFlight: 2, timeoutMs: 20 });
    await expect(standing).rejects.toThrow('0 of 2 standing pods Ready: give more --timeout');
  });
});
