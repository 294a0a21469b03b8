import { describe, expect, it } from 'vitest';
import { exitsUntilFailed } from '../readiness.ts';
import { labels } from './compose-file.ts';
import { type ComponentContainer, findContainers, observation } from './containers.ts';
import type { Docker } from './docker.ts';

const container = (changes: Partial<ComponentContainer> = {}): ComponentContainer => ({
  ...{ containerId: 'c', slot: 'api', hash: 'h', dependsOn: [], stopTimeoutMs: 1, restarts: 0 },
  ...{ status: 'running', pid: 7, startedAt: new Date(5) },
  ...changes,
});
const watched = (state: 'running' | 'failed' | 'starting', restartsBefore = 0) => ({
  ...{ state, restartsBefore, lastExit: undefined },
});

describe('what is said of a container', () => {
  it.each([
    ['running', container(), undefined],
    ['starting', container(), watched('starting')],
    ['starting', container({ status: 'restarting', restarts: exitsUntilFailed - 1 }), undefined],
    ['failed', container({ status: 'restarting', restarts: exitsUntilFailed }), undefined],
    ['failed', container({ status: 'restarting' }), watched('failed')],
    ['failed', container({ status: 'dead' }), undefined],
    ['stopped', container({ status: 'exited' }), watched('running')],
    ['stopped', container({ status: 'paused' }), watched('running')],
    ['stopped', container({ status: 'created' }), undefined],
  ] as const)('is that it is %s', (state, each, watch) => {
    expect(observation(each, watch).state).toBe(state);
  });

  it('has a process only while it runs, and counts restarts since it was last well', () => {
    expect(observation(container(), undefined)).toMatchObject({
      name: 'api',
      pid: 7,
      startedAt: new Date(5),
    });
    expect(observation(container({ status: 'exited' }), undefined)).not.toHaveProperty('pid');
    expect(observation(container({ restarts: 5 }), watched('running', 3)).restarts).toBe(2);
    expect(observation(container({ restarts: 1 }), watched('running', 3)).restarts).toBe(0);
  });
});

describe('the containers of a control plane', () => {
  const inspected = {
    ...{ Id: 'c1', RestartCount: 2 },
    State: {
      ...{ Status: 'exited', Pid: 0, ExitCode: 3 },
      ...{ StartedAt: '2026-01-01T00:00:00Z', FinishedAt: '2026-01-01T00:00:09Z' },
    },
    Config: {
      Labels: {
        [labels.component]: 'api',
        [labels.hash]: 'h',
        [labels.dependsOn]: 'etcd,',
        [labels.stopTimeoutMs]: '9',
      },
      User: '65532:70000',
    },
  };
  const docker = (answers: { exitCode?: number; stdout?: string; stderr?: string }[]) =>
    ({ run: async () => ({ exitCode: 0, stdout: '', stderr: '', ...answers.shift() }) }) as unknown as Docker;

  it('are as the engine tells of them', async () => {
    const found = await findContainers(
      docker([{ stdout: 'c1\n' }, { stdout: JSON.stringify([inspected]) }]),
      'blue',
    );
    expect(found.get('api')).toEqual({
      ...{ containerId: 'c1', slot: 'api', hash: 'h', group: 70_000, dependsOn: ['etcd'], stopTimeoutMs: 9 },
      ...{ status: 'exited', restarts: 2, startedAt: new Date('2026-01-01T00:00:00Z') },
      lastExit: { at: new Date('2026-01-01T00:00:09Z'), code: 3 },
    });
  });

  it('have no times where the engine writes the year 1, and no exit code while they run', async () => {
    const State = { ...inspected.State, Status: 'running', Pid: 5, FinishedAt: '0001-01-01T00:00:00Z' };
    const again = { ...State, FinishedAt: '2026-01-01T00:00:09Z' };
    const found = async (state: object) => {
      const stdout = JSON.stringify([{ ...inspected, State: state }]);
      return (await findContainers(docker([{ stdout: 'c1' }, { stdout }]), 'blue')).get('api');
    };
    expect((await found(State))?.lastExit).toBeUndefined();
    expect(await found(again)).toMatchObject({ pid: 5, lastExit: { at: new Date('2026-01-01T00:00:09Z') } });
    expect((await found(again))?.lastExit?.code).toBeUndefined();
  });

  it('are those that are left when one is removed meanwhile, and an error when the engine refuses', async () => {
    const gone = { exitCode: 1, stdout: JSON.stringify([inspected]), stderr: 'Error: No such container: c2' };
    expect((await findContainers(docker([{ stdout: 'c1\nc2' }, gone]), 'blue')).size).toBe(1);
    expect((await findContainers(docker([{}]), 'blue')).size).toBe(0);
    const refused = { exitCode: 1, stderr: 'permission denied' };
    await expect(findContainers(docker([refused]), 'blue')).rejects.toThrow('permission denied');
    await expect(findContainers(docker([{ stdout: 'c1' }, refused]), 'blue')).rejects.toThrow(
      'permission denied',
    );
  });
});
