import { describe, expect, it } from 'vitest';
import type { StoreEvent } from '../../../kube/index.ts';
import { eventsOf } from './pod-events.ts';
import type { ContainerState, Pod } from './types.ts';

const running = (startedAt = '2030-01-01T00:00:00Z'): ContainerState => ({ running: { startedAt } });
const termination = { exitCode: 137, finishedAt: '2030-01-01T00:00:30Z' };
const ended: ContainerState = { terminated: termination };
const backingOff: ContainerState = { waiting: { reason: 'CrashLoopBackOff' } };

function pod(state: ContainerState, { ready = false, restarts = 0 } = {}): Pod {
  return {
    metadata: { name: 'a' },
    status: {
      conditions: [{ type: 'Ready', status: ready ? 'True' : 'False' }],
      containerStatuses: [
        {
          name: 'a',
          restartCount: restarts,
          state,
          ...(restarts > 0 ? { lastState: { terminated: termination } } : {}),
        },
      ],
    },
  };
}

function change(previous: Pod, object: Pod): StoreEvent<Pod> {
  return { type: 'modified', object, previous, watched: true };
}

describe('what a change of a pod means', () => {
  it.each<[string, StoreEvent<Pod>, string[]]>([
    [
      'what was there before is no news',
      { type: 'added', object: pod(running(), { ready: true }), watched: false },
      [],
    ],
    ['a new pod that runs', { type: 'added', object: pod(running()), watched: true }, ['started']],
    ['one that becomes ready', change(pod(running()), pod(running(), { ready: true })), ['ready']],
    ['one that ends', change(pod(running(), { ready: true }), pod(ended)), ['exited']],
    [
      'one whose end was told and that is started again',
      change(pod(ended), pod(running('2030-01-01T00:01:00Z'), { restarts: 1 })),
      ['started'],
    ],
    [
      'one that was started again before anybody heard of its end',
      change(
        pod(running(), { ready: true }),
        pod(running('2030-01-01T00:01:00Z'), { ready: true, restarts: 1 }),
      ),
      ['exited', 'started', 'ready'],
    ],
    [
      'one whose kubelet waits after it',
      change(pod(running()), pod(backingOff, { restarts: 1 })),
      ['exited'],
    ],
    [
      'one that is started after the wait',
      change(pod(backingOff, { restarts: 1 }), pod(running('2030-01-01T00:01:00Z'), { restarts: 2 })),
      ['started'],
    ],
    ['one that is gone', { type: 'deleted', object: pod(running()), watched: true }, ['exited']],
  ])('%s', (_, event, expected) => {
    expect(eventsOf(event, false)).toEqual(expected);
  });

  it('keeps quiet about an end that was asked for', () => {
    expect(eventsOf(change(pod(running()), pod(ended)), true)).toEqual([]);
    expect(eventsOf({ type: 'deleted', object: pod(ended), watched: true }, true)).toEqual([]);
  });
});
