import { describe, expect, it } from 'vitest';
import { annotationKeys } from '../../../api/labels.ts';
import type { Action } from '../contract.ts';
import { podKind } from './pods.ts';
import { type PodParts, podContext, superPod, superUid, tenantPod } from './testing.ts';
import type { Pod, PodStatus } from './types.ts';

const now = Date.parse('2026-01-01T00:00:00Z');
const context = podContext({ nowMs: now });

function deletion(graceSeconds: number, leftSeconds = graceSeconds) {
  return {
    deletionTimestamp: new Date(now + leftSeconds * 1000).toISOString(),
    deletionGracePeriodSeconds: graceSeconds,
  };
}

const marked = { annotations: { [annotationKeys.superUid]: superUid } };
const running = { phase: 'Running', conditions: [{ type: 'Ready', status: 'True' }] } satisfies PodStatus;

function boundPod(metadata: PodParts['metadata'] = {}, status: PodStatus = running): Pod {
  return tenantPod({ spec: { nodeName: 'n1' }, metadata: { ...marked, ...metadata }, status });
}

function up(
  t: Pod,
  superMetadata: PodParts['metadata'] = {},
  status: PodStatus = running,
): readonly Action[] {
  const s = superPod(t, { spec: { nodeName: 'n1' }, metadata: superMetadata, status: { ...status } });
  return podKind.up?.(t, s, context) ?? [];
}

describe('the tenant object is being deleted, the super object is not (sync rule `pod-deletion`)', () => {
  it('deletes the super object with the grace that the tenant object has left', () => {
    expect(up(boundPod(deletion(30, 12)))).toEqual([{ do: 'deleteSuper', gracePeriodSeconds: 12 }]);
  });

  it('never forces the super object because time has passed, only because the tenant object was forced', () => {
    expect(up(boundPod(deletion(30, -600)))).toEqual([{ do: 'deleteSuper', gracePeriodSeconds: 1 }]);
    expect(up(boundPod(deletion(0)))).toEqual([{ do: 'deleteSuper', gracePeriodSeconds: 0 }]);
  });

  it('does so again when the grace is shortened, and not otherwise', () => {
    const t = boundPod(deletion(30, 20));
    expect(up(t, deletion(28, 18))).toEqual([]);
    expect(up(boundPod(deletion(5)), deletion(28, 18))).toEqual([
      { do: 'deleteSuper', gracePeriodSeconds: 5 },
    ]);
    expect(up(boundPod(deletion(5, 4)), deletion(5, 4))).toEqual([]);
    expect(up(boundPod(deletion(0)), deletion(5, 4))).toEqual([{ do: 'deleteSuper', gracePeriodSeconds: 0 }]);
  });

  it("goes on telling the super object's status", () => {
    const actions = up(boundPod(deletion(30)), deletion(30), { ...running, phase: 'Succeeded' });
    expect(actions).toEqual([
      { do: 'patchTenant', patch: { status: { phase: 'Succeeded' } }, subresource: 'status' },
    ]);
  });
});

describe('the super object is being deleted, the tenant object is not (sync rule `pod-deletion`)', () => {
  it("deletes the tenant object with the super object's grace, after its status", () => {
    const disrupted = {
      ...running,
      conditions: [...running.conditions, { type: 'DisruptionTarget', status: 'True' as const }],
    };
    const actions = up(boundPod(), deletion(30, 25), disrupted);
    expect(actions.map((action) => action.do)).toEqual(['patchTenant', 'deleteTenant']);
    expect(actions[1]).toEqual({ do: 'deleteTenant', gracePeriodSeconds: 25 });
  });

  it("never with so little that the tenant object would go before the super object's last word", () => {
    expect(up(boundPod(), deletion(30, -5))).toEqual([{ do: 'deleteTenant', gracePeriodSeconds: 1 }]);
    expect(up(boundPod(), deletion(0))).toEqual([{ do: 'deleteTenant', gracePeriodSeconds: 1 }]);
  });
});

describe('the super object is gone (sync rule `pod-deletion`)', () => {
  const gone = (t: Pod, last?: Pod) => podKind.superGone?.(t, context, last);
  const failed = (conditions: boolean) => ({
    do: 'patchTenant',
    subresource: 'status',
    patch: {
      status: {
        phase: 'Failed',
        ...(conditions
          ? {
              conditions: expect.arrayContaining([
                expect.objectContaining({ type: 'DisruptionTarget', status: 'True' }),
              ]),
            }
          : {}),
      },
    },
  });
  const taken = { do: 'deleteTenant', gracePeriodSeconds: 0 };

  it('patches a bound tenant object to Failed with DisruptionTarget, then deletes it', () => {
    const actions = gone(boundPod());
    expect(actions).toEqual([failed(true), taken]);
    const patch = actions?.[0]?.do === 'patchTenant' ? actions[0].patch : {};
    expect((patch['status'] as PodStatus).conditions?.map(({ type }) => type)).toEqual([
      'Ready',
      'DisruptionTarget',
    ]);
  });

  it('makes the super object anew when the tenant object was never bound, or bound without us', () => {
    expect(gone(tenantPod())).toBeUndefined();
    expect(gone(tenantPod({ metadata: marked }))).toBeUndefined();
    expect(gone(tenantPod({ spec: { nodeName: 'n1' } }))).toBeUndefined();
  });

  it('leaves a finished tenant object as it is: the super cluster tidies finished pods', () => {
    expect(gone(boundPod({}, { phase: 'Succeeded' }))).toEqual([]);
    expect(gone(boundPod({}, { phase: 'Failed' }))).toEqual([]);
  });

  it('lets the tenant object go that is being deleted, finished or not, as far as its finalizers let it', () => {
    expect(gone(boundPod(deletion(30)))).toEqual([failed(false), taken]);
    expect(gone(boundPod(deletion(30), { phase: 'Succeeded' }))).toEqual([taken]);
    const kept = { ...deletion(0), finalizers: ['example.com/keep'] };
    expect(gone(boundPod(kept))).toEqual([failed(false)]);
    expect(gone(boundPod(kept, { phase: 'Failed' }))).toEqual([]);
    expect(gone(tenantPod({ metadata: deletion(30) }))).toEqual([failed(false), taken]);
  });

  it('deletes the tenant object again that a forced delete has marked but not removed', () => {
    expect(gone(boundPod(deletion(0, -5), { phase: 'Succeeded' }))).toEqual([taken]);
  });

  it('leaves time for the second step of a forced delete, whose sender would hear that there is no such pod', () => {
    const later = (afterMs: number) => ({ do: 'later', afterMs });
    expect(gone(boundPod(deletion(0), { phase: 'Succeeded' }))).toEqual([later(5_000)]);
    expect(gone(boundPod(deletion(0, -2)))).toEqual([failed(false), later(3_000)]);
    // Another clock is ahead.
    expect(gone(boundPod(deletion(0, 60), { phase: 'Succeeded' }))).toEqual([later(5_000)]);
  });

  it("writes the super object's last status up before the tenant object goes", () => {
    const t = boundPod(deletion(30));
    const terminated = [{ name: 'main', state: { terminated: { exitCode: 0 } } }];
    const last = superPod(t, {
      spec: { nodeName: 'n1' },
      status: { ...running, phase: 'Succeeded', containerStatuses: terminated },
    });
    expect(gone(t, last)).toEqual([
      {
        do: 'patchTenant',
        subresource: 'status',
        patch: { status: { phase: 'Succeeded', containerStatuses: terminated } },
      },
      taken,
    ]);
  });

  it('keeps the tenant object when the super object had finished before it was tidied away', () => {
    const t = boundPod();
    const last = superPod(t, { spec: { nodeName: 'n1' }, status: { ...running, phase: 'Succeeded' } });
    expect(gone(t, last)).toEqual([
      { do: 'patchTenant', subresource: 'status', patch: { status: { phase: 'Succeeded' } } },
    ]);
  });

  it('believes no last words of an earlier pod of that name', () => {
    const earlier = tenantPod({ metadata: { uid: 'earlier' } });
    const last = superPod(earlier, { status: { phase: 'Succeeded' } });
    expect(gone(boundPod(), last)).toEqual([failed(true), taken]);
  });
});
