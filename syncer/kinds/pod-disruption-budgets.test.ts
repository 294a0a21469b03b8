import { describe, expect, it } from 'vitest';
import type { KubeObject } from '../../kube/index.ts';
import { superNamespaceName } from '../mapping/names.ts';
import { all, podDisruptionBudgetKind as kind } from './pod-disruption-budgets.ts';
import { carryOut, testContext } from './testing.ts';

const context = testContext();
const selector = { matchLabels: { app: 'web' } };

function budget(spec: object = { minAvailable: '50%' }, status?: object): KubeObject {
  return {
    apiVersion: 'policy/v1',
    kind: 'PodDisruptionBudget',
    metadata: { name: 'web', namespace: 'shop', uid: 'uid-of-web', generation: 2 },
    spec: { selector, ...spec },
    ...(status === undefined ? {} : { status }),
  };
}

const computed = {
  observedGeneration: 2,
  desiredHealthy: 2,
  expectedPods: 4,
  currentHealthy: 4,
  disruptionsAllowed: 2,
};
const wanted = (object: KubeObject): unknown => kind.toSuper(object, context)['spec'];

describe('what the super object keeps healthy (sync rule `pod-disruption-budgets`)', () => {
  it('is a number: what the tenant has computed from its share, its number, or what may be missing', () => {
    for (const spec of [
      { minAvailable: '50%' },
      { minAvailable: 2 },
      { maxUnavailable: 2 },
      { maxUnavailable: '50%' },
    ]) {
      expect(wanted(budget(spec, computed))).toEqual({ minAvailable: 2, selector });
    }
    expect(wanted(budget({ minAvailable: 0 }, { ...computed, desiredHealthy: 0 }))).toMatchObject({
      minAvailable: 0,
    });
  });

  it('is everything until the tenant has computed it, also for a change of the budget', () => {
    expect(wanted(budget())).toMatchObject({ minAvailable: all });
    expect(wanted(budget({ minAvailable: 1 }, {}))).toMatchObject({ minAvailable: all });
    expect(wanted(budget({ minAvailable: 1 }, { ...computed, observedGeneration: 1 }))).toMatchObject({
      minAvailable: all,
    });
  });

  it('is everything where the tenant itself allows no eviction: nothing is expected, or the count has failed', () => {
    expect(wanted(budget({}, { ...computed, desiredHealthy: 0, expectedPods: 0 }))).toMatchObject({
      minAvailable: all,
    });
    const failed = [{ type: 'DisruptionAllowed', status: 'False', reason: 'SyncFailed' }];
    expect(wanted(budget({}, { ...computed, conditions: failed }))).toMatchObject({ minAvailable: all });
    const insufficient = [{ type: 'DisruptionAllowed', status: 'False', reason: 'InsufficientPods' }];
    expect(wanted(budget({}, { ...computed, conditions: insufficient }))).toMatchObject({ minAvailable: 2 });
  });
});

describe('the rest of the super object', () => {
  it('is as in the tenant object: selector, which may be empty or missing, and what becomes of unhealthy pods', () => {
    const object = budget({ selector: {}, unhealthyPodEvictionPolicy: 'AlwaysAllow' }, computed);
    expect(wanted(object)).toEqual({
      minAvailable: 2,
      selector: {},
      unhealthyPodEvictionPolicy: 'AlwaysAllow',
    });
    expect(wanted(budget({ selector: undefined }, computed))).toEqual({ minAvailable: 2 });
    expect(kind.toSuper(object, context).metadata.namespace).toBe(superNamespaceName(context.tenant, 'shop'));
  });

  it('follows the tenant object: what it counts as enough, its selector, its policy; and status stays where it is', () => {
    const before = budget({ unhealthyPodEvictionPolicy: 'AlwaysAllow' }, computed);
    const there = { ...kind.toSuper(before, context), status: { disruptionsAllowed: 1 } };
    expect(kind.down(before, there, context)).toEqual([]);
    const scaled = budget({ unhealthyPodEvictionPolicy: 'AlwaysAllow' }, { ...computed, desiredHealthy: 4 });
    expect(kind.down(scaled, there, context)).toEqual([
      { do: 'patchSuper', patch: { spec: { minAvailable: 4 } } },
    ]);
    const changed = budget({ selector: { matchLabels: { tier: 'x' } } }, computed);
    const actions = kind.down(changed, there, context);
    expect(actions).toEqual([
      {
        do: 'patchSuper',
        patch: {
          spec: { unhealthyPodEvictionPolicy: null, selector: { matchLabels: { app: null, tier: 'x' } } },
        },
      },
    ]);
    const { superObject } = carryOut({ tenantObject: changed, superObject: there }, actions);
    expect(kind.down(changed, superObject as KubeObject, context)).toEqual([]);
    expect(kind.up?.(changed, there, context)).toEqual([]);
  });

  it.each([
    ['missing to empty', undefined, {}],
    ['empty to missing', {}, undefined],
  ])('tells a missing selector from an empty one: %s', (_what, from, to) => {
    const there = kind.toSuper(budget({ selector: from }, computed), context);
    const object = budget({ selector: to }, computed);
    const { superObject } = carryOut(
      { tenantObject: object, superObject: there },
      kind.down(object, there, context),
    );
    const { selector: after } = (superObject as KubeObject)['spec'] as { selector?: object };
    expect(after).toEqual(to);
    expect(kind.down(object, superObject as KubeObject, context)).toEqual([]);
  });

  it('is made, or changed, only where nothing is asked for that is not known', () => {
    const all = { maxUnavailable: 1, unhealthyPodEvictionPolicy: 'AlwaysAllow' };
    expect(kind.admit?.(budget(all), context)).toEqual({ wanted: true });
    expect(kind.admit?.(budget({ ...all, minReadySeconds: 5 }), context)).toMatchObject({
      wanted: false,
      keep: true,
      notice: { reason: 'UnknownField', message: expect.stringContaining('spec.minReadySeconds') },
    });
  });

  it('is put back when somebody in the super cluster asks for a share again', () => {
    const object = budget({}, computed);
    const there = { ...kind.toSuper(object, context), spec: { maxUnavailable: '10%', selector } };
    expect(kind.down(object, there, context)).toEqual([
      { do: 'patchSuper', patch: { spec: { minAvailable: 2, maxUnavailable: null } } },
    ]);
  });
});
