import { describe, expect, it } from 'vitest';
import { hasNoNode, isRolloutComplete, observationOf } from './rollout.ts';
import type { ContainerState, Pod, StatefulSet } from './types.ts';

const set = (replicas: number): StatefulSet => ({ metadata: { name: 'api' }, spec: { replicas } });
const condition = (type: string, status: string) => [{ type, status }];
const pod = (state: ContainerState, more: Partial<NonNullable<Pod['status']>> = {}, metadata = {}): Pod => ({
  metadata: { name: 'api-0', ...metadata },
  status: { containerStatuses: [{ name: 'api', restartCount: 1, state }], ...more },
});
const running = { running: { startedAt: '2026-01-01T00:00:05Z' } };
const ready = { conditions: condition('Ready', 'True') };
const waiting = (reason: string) => ({ waiting: { reason } });
const ended = { terminated: { exitCode: 137, signal: 9, finishedAt: '2026-01-01T00:00:09Z' } };

describe('what is said of a component in pods', () => {
  it.each([
    ['stopped', 0, [pod(running, ready)]],
    ['running', 1, [pod(running, ready)]],
    ['running', 2, [pod(waiting('CrashLoopBackOff')), pod(running, ready)]],
    // What serves and is about to go is not what will serve.
    ['starting', 1, [pod(running, ready, { deletionTimestamp: '2026-01-01T00:00:00Z' })]],
    ['starting', 1, []],
    ['starting', 1, [pod(running)]],
    ['starting', 1, [pod(waiting('ContainerCreating'))]],
    ['failed', 1, [pod(waiting('ImagePullBackOff'))]],
    ['failed', 1, [pod(waiting('CreateContainerConfigError'))]],
    ['failed', 1, [pod(waiting('CrashLoopBackOff'))]],
    ['failed', 1, [pod(ended)]],
    ['failed', 1, [pod({}, { conditions: condition('PodScheduled', 'False') })]],
  ])('is that it is %s: %j replicas', (state, replicas, pods) => {
    expect(observationOf(set(replicas), pods).state).toBe(state);
  });

  it('has the first start, all restarts, and the last exit of all replicas', () => {
    const later = pod({ running: { startedAt: '2026-01-01T00:01:00Z' } }, ready);
    const before = { name: 'api', restartCount: 3, state: running };
    const exits = { terminated: { exitCode: 1, finishedAt: '2026-01-01T00:00:01Z' } };
    const first: Pod = { metadata: {}, status: { containerStatuses: [{ ...before, lastState: exits }] } };
    expect(observationOf(set(3), [later, first, pod(ended)])).toEqual({
      ...{ name: 'api', state: 'running', startedAt: new Date('2026-01-01T00:00:05Z'), restarts: 5 },
      lastExit: { at: new Date('2026-01-01T00:00:09Z'), code: 137, signal: '9' },
    });
  });

  it('is that there is no node where the scheduler says so of one of them', () => {
    expect(hasNoNode([pod(running), pod({}, { conditions: condition('PodScheduled', 'False') })])).toBe(true);
    expect(hasNoNode([pod(running), pod(waiting('ImagePullBackOff'))])).toBe(false);
  });
});

describe('a rollout', () => {
  const written = (status: StatefulSet['status'], generation = 4): StatefulSet => ({
    metadata: { name: 'api', generation },
    status: {
      availableReplicas: 1,
      observedGeneration: 4,
      currentRevision: 'a',
      updateRevision: 'a',
      ...status,
    },
  });

  it('has ended when the server has seen what was written, updates nothing, and one replica serves', () => {
    expect(isRolloutComplete(written({}))).toBe(true);
    expect(isRolloutComplete(written({}, 5))).toBe(false);
    expect(isRolloutComplete(written({ updateRevision: 'b' }))).toBe(false);
    expect(isRolloutComplete(written({ availableReplicas: 0 }))).toBe(false);
  });
});
