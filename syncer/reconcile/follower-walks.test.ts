import { setImmediate } from 'node:timers/promises';
import { describe, expect, it } from 'vitest';
import type { KubeObject } from '../../kube/index.ts';
import type { KeyRef } from '../context.ts';
import { configMapKind } from '../kinds/config-maps.ts';
import { type Change, FollowerWalks } from './follower-walks.ts';
import type { TenantState } from './tenant-state.ts';

const state = (version: number): KubeObject => ({ metadata: { name: `version-${version}` } });

function change(...versions: number[]): Change {
  const states = versions.map(state);
  return { kind: configMapKind, side: 'tenant', object: state(versions[0] ?? 0), states, priority: 'live' };
}

/** Each look at the clock takes a millisecond. `step` ends one pause; `walked` says what each walk has to look at. */
function start(lookMs = 1) {
  let now = 0;
  let endRest = (): void => undefined;
  const rests: number[] = [];
  const walked: string[] = [];
  const errors: string[] = [];
  let fed = 0;
  const walks = new FollowerWalks({
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
      walked.push(states === 'unknown' ? states : states.map(({ metadata }) => metadata.name).join());
      if (walked.at(-1) === 'version-13') throw new Error('a defect');
      for (let n = 0; n < 8; n += 1) yield { kind: 'configmaps', name: String(n) };
    },
    feed: () => {
      fed += 1;
    },
    isServed: () => true,
    onError: (_tenant, _change, error) => errors.push(String(error)),
  });
  const step = async (): Promise<void> => {
    endRest();
    await setImmediate();
  };
  return { walks, rests, walked, errors, step, fed: () => fed };
}

const tenant = {} as TenantState;

describe('a walk over what follows an object', () => {
  it('rests three times as long as it has worked', async () => {
    const { walks, rests, step, fed } = start();
    walks.add(tenant, 'a', change(1));
    expect(fed()).toBeLessThan(8);
    for (let n = 0; n < 5; n += 1) await step();
    expect(fed()).toBe(8);
    expect(rests[0]).toBeGreaterThanOrEqual(15);
    expect(walks.isUnderWay(tenant, 'a')).toBe(false);
  });

  it('rests after short ones, too, which add up', async () => {
    const { walks, rests, step, fed } = start(0.01);
    walks.add(tenant, 'first', change(1));
    const { walks: other, rests: otherRests } = start(0.6);
    other.add(tenant, 'a', change(1));
    for (let n = 0; n < 100; n += 1) other.add(tenant, `b${n}`, change(1));
    await step();
    expect([fed(), rests.length]).toEqual([8, 0]);
    expect(otherRests.length).toBeGreaterThan(0);
  });

  it('is made once more, over all states that came meanwhile', async () => {
    const { walks, walked, step } = start();
    walks.add(tenant, 'a', change(1));
    walks.add(tenant, 'a', change(2, 1));
    walks.add(tenant, 'a', change(3));
    for (let n = 0; n < 10; n += 1) await step();
    expect(walked).toEqual(['version-1', 'version-2,version-1,version-3']);
  });

  it('goes over everything when there were more states than are remembered', async () => {
    const { walks, walked, step } = start();
    walks.add(tenant, 'a', change(1));
    for (let version = 2; version < 20; version += 1) walks.add(tenant, 'a', change(version));
    for (let n = 0; n < 10; n += 1) await step();
    expect(walked).toEqual(['version-1', 'unknown']);
  });

  it('that fails is told, and keeps none of those after it', async () => {
    const { walks, walked, errors, step } = start();
    walks.add(tenant, 'a', change(13));
    walks.add(tenant, 'b', change(2));
    for (let n = 0; n < 10; n += 1) await step();
    expect(walked).toEqual(['version-13', 'version-2']);
    expect(errors).toEqual(['Error: a defect']);
    expect(walks.isUnderWay(tenant, 'b')).toBe(false);
  });

  it('waits for another one of the same tenant, and for none of others', async () => {
    const { walks, walked } = start();
    walks.add(tenant, 'a', change(1));
    walks.add(tenant, 'b', change(2));
    expect(walks.isUnderWay(tenant, 'b')).toBe(true);
    walks.add({} as TenantState, 'b', change(3));
    expect(walked).toEqual(['version-1', 'version-3']);
  });
});
