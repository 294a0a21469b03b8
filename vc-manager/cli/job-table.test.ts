import { describe, expect, it } from 'vitest';
import type { VirtualCluster } from '../../api/virtual-cluster.ts';
import { jobsOf, jobTable } from './job-table.ts';

const nowMs = Date.parse('2030-01-01T00:01:00Z');
const ended = {
  kind: 'provision',
  id: 'one',
  result: 'Succeeded',
  startedAt: '2030-01-01T00:00:00Z',
  finishedAt: '2030-01-01T00:00:04Z',
  attempts: 1,
} as const;
const vc: VirtualCluster = {
  metadata: { namespace: 'teams', name: 'blue' },
  status: {
    jobs: {
      current: {
        kind: 'version-change',
        id: 'two',
        target: '1.36.3',
        startedAt: '2030-01-01T00:00:30Z',
        step: 'control-plane',
        attempts: 2,
        message: 'it exits',
        failing: true,
        refusal: 'too late',
      },
      history: [ended],
    },
  },
};

describe('jobs as they are shown', () => {
  it('are those under way, then those that have ended', () => {
    const lines = jobTable(jobsOf(vc), nowMs).trimEnd().split('\n');
    expect(lines.map((line) => line.split(/ {2,}/))).toEqual([
      ['NAMESPACE', 'TENANT', 'KIND', 'STATE', 'STEP', 'ATTEMPTS', 'AGE', 'TOOK', 'MESSAGE'],
      [
        ...['teams', 'blue', 'version-change to 1.36.3', 'Retrying', 'control-plane', '2', '30s', '-'],
        'it exits Not cancelled: too late.',
      ],
      ['teams', 'blue', 'provision', 'Succeeded', '-', '1', '60s', '4s', '-'],
    ]);
  });

  it('wait where the namespace has no room, and say so', () => {
    const current = { kind: 'provision', id: 'one', startedAt: ended.startedAt, attempts: 1 } as const;
    const message = 'default allows no more than 1';
    const ready = { type: 'Ready', status: 'False', reason: 'TooManyVirtualClusters', message } as const;
    const full = { metadata: {}, status: { jobs: { current }, conditions: [ready] } };
    expect(jobsOf(full)).toMatchObject([{ state: 'Waiting', message }]);
    expect(jobsOf({ ...full, status: { jobs: { current } } })).toMatchObject([{ state: 'Running' }]);
  });

  it('are one for each tenant where all tenants are listed', () => {
    expect(jobsOf(vc, true).map(({ id }) => id)).toEqual(['two']);
    const idle = { ...vc, status: { jobs: { history: [ended, { ...ended, id: 'zero' }] } } };
    expect(jobsOf(idle, true).map(({ id }) => id)).toEqual(['one']);
    expect(jobsOf({ metadata: {} }, true)).toEqual([]);
  });
});
