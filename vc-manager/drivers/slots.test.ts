import { describe, expect, it } from 'vitest';
import type { ControlPlanePlan } from '../control-plane/plan.ts';
import type { ComponentObservation } from './driver.ts';
import { chooseSlot, componentOf, observedComponents, refuseSlotNames, slotsOf } from './slots.ts';

const [first, second] = slotsOf('api');
const occupant = (slot: string, hash: string, runs = true) => ({ slot, hash, runs });
const choose = (occupants: Parameters<typeof chooseSlot>[2], isSurge = false) =>
  chooseSlot({ name: 'api' }, 'new', occupants, isSurge);

describe('the slot of a component', () => {
  it.each([
    ['the first where there is none', [], false, first, []],
    ['that of the one that runs, which is replaced', [occupant(second, 'old')], false, second, []],
    ['the free one, to stand beside the one that runs', [occupant(first, 'old')], true, second, [first]],
    ['the free one, whichever that is', [occupant(second, 'old')], true, first, [second]],
    [
      'where it runs already, and the other goes',
      [occupant(first, 'old'), occupant(second, 'new')],
      true,
      second,
      [first],
    ],
    [
      'that of one that does not run and is what is wanted',
      [occupant(second, 'new', false)],
      false,
      second,
      [],
    ],
    [
      'the first where only another is left that does not run',
      [occupant(second, 'old', false)],
      false,
      first,
      [second],
    ],
  ])('is %s', (_what, occupants, isSurge, target, others) => {
    expect(choose(occupants, isSurge)).toEqual({ target, others });
  });

  it('is a name that no component may have', () => {
    expect([componentOf(first), componentOf(second)]).toEqual(['api', 'api']);
    const plan = (name: string) => ({ components: [{ name }] }) as ControlPlanePlan;
    expect(() => refuseSlotNames(plan('api'))).not.toThrow();
    expect(() => refuseSlotNames(plan(second))).toThrow(second);
  });
});

it('of two of one component the one that runs is shown, and of two that run the later one', () => {
  const seen = (
    name: string,
    state: ComponentObservation['state'],
    pid: number,
    ms = 0,
  ): ComponentObservation => ({
    ...{ name, state, pid, restarts: 0 },
    startedAt: new Date(ms),
  });
  const shown = observedComponents([
    seen('b', 'running', 1, 1),
    seen('b', 'stopped', 2, 9),
    seen('a', 'running', 3, 5),
    seen('a', 'running', 4, 6),
    seen('c', 'failed', 5),
  ]);
  expect(shown.map(({ name, pid }) => [name, pid])).toEqual([
    ['a', 4],
    ['b', 1],
    ['c', 5],
  ]);
});
