import { setImmediate } from 'node:timers/promises';
import { describe, expect, it } from 'vitest';
import type { KubeObject } from '../../kube/index.ts';
import type { KeyRef } from '../context.ts';
import { configMapKind } from '../kinds/config-maps.ts';
import { BulkEnqueuer, type Change } from './bulk-enqueuer.ts';
import type { TenantState } from './tenant-state.ts';

const state = (version: number): KubeObject => ({ metadata: { name: `version-${version}` } });

function change(...versions: number[]): Change {
  const states = versions.map(state);
  return { kind: configMapKind, side: 'tenant', object: state(versions[0] ?? 0), states, priority: 'live' };
}

/** Each reading of the clock takes a millisecond. `step` ends one pause; `queued` has the states of each change. */
function start(lookMs = 1) {
  let now = 0;
  let endRest = (): void => undefined;
  const rests: number[] = [];
  const queued: string[] = [];
  const errors: string[] = [];
  let fed = 0;
  const enqueuer = new BulkEnqueuer({
    clock: {
      monotonic: () => {
        now += lookMs;
        return now;
      },
      sleep: (ms) => {
        rests.push(ms);
        return new Promise((resolve) => {
          endRest = resolve;
        });
      },
    },
    *keysOf(_, { states }): Generator<KeyRef> {
      queued.push(states === 'unknown' ? states : states.map(({ metadata }) => metadata.name).join());
      if (queued.at(-1) === 'version-13') throw new Error('a defect');
      for (let n = 0; n < 8; n += 1) yield { kind: 'configmaps', name: String(n) };
    },
    enqueue: () => {
      fed += 1;
    },
    isServed: () => true,
    onError: (_tenant, _change, error) => errors.push(String(error)),
  });
  const step = async (): Promise<void> => {
    endRest();
    await setImmediate();
  };
  return { enqueuer, rests, queued, errors, step, fed: () => fed };
}

const tenant = {} as TenantState;

describe('the keys that depend on a widely referenced object', () => {
  it('are queued in slices, with pauses three times as long', async () => {
    const { enqueuer, rests, step, fed } = start();
    enqueuer.add(tenant, 'a', change(1));
    expect(fed()).toBeLessThan(8);
    for (let n = 0; n < 5; n += 1) await step();
    expect(fed()).toBe(8);
    expect(rests[0]).toBeGreaterThanOrEqual(15);
    expect(enqueuer.isPending(tenant, 'a')).toBe(false);
  });

  it('are queued with pauses after short slices, too, which add up', async () => {
    const { enqueuer, rests, step, fed } = start(0.01);
    enqueuer.add(tenant, 'first', change(1));
    const { enqueuer: other, rests: otherRests } = start(0.6);
    other.add(tenant, 'a', change(1));
    for (let n = 0; n < 100; n += 1) other.add(tenant, `b${n}`, change(1));
    await step();
    expect([fed(), rests.length]).toEqual([8, 0]);
    expect(otherRests.length).toBeGreaterThan(0);
  });

  it('are queued once more, for all states that came meanwhile', async () => {
    const { enqueuer, queued, step } = start();
    enqueuer.add(tenant, 'a', change(1));
    enqueuer.add(tenant, 'a', change(2, 1));
    enqueuer.add(tenant, 'a', change(3));
    for (let n = 0; n < 10; n += 1) await step();
    expect(queued).toEqual(['version-1', 'version-2,version-1,version-3']);
  });

  it('are all keys when there were more states than are remembered', async () => {
    const { enqueuer, queued, step } = start();
    enqueuer.add(tenant, 'a', change(1));
    for (let version = 2; version < 20; version += 1) enqueuer.add(tenant, 'a', change(version));
    for (let n = 0; n < 10; n += 1) await step();
    expect(queued).toEqual(['version-1', 'unknown']);
  });

  it('do not hold up those of later changes when they fail, and the error is reported', async () => {
    const { enqueuer, queued, errors, step } = start();
    enqueuer.add(tenant, 'a', change(13));
    enqueuer.add(tenant, 'b', change(2));
    for (let n = 0; n < 10; n += 1) await step();
    expect(queued).toEqual(['version-13', 'version-2']);
    expect(errors).toEqual(['Error: a defect']);
    expect(enqueuer.isPending(tenant, 'b')).toBe(false);
  });

  it('wait for those of the same tenant, and not for those of others', async () => {
    const { enqueuer, queued } = start();
    enqueuer.add(tenant, 'a', change(1));
    enqueuer.add(tenant, 'b', change(2));
    expect(enqueuer.isPending(tenant, 'b')).toBe(true);
    enqueuer.add({} as TenantState, 'b', change(3));
    expect(queued).toEqual(['version-1', 'version-3']);
  });
});
