import { describe, expect, it } from 'vitest';
import { monthlyUsage } from '../../../api/usage.ts';
import type {
  VirtualCluster,
  VirtualClusterPhase,
  VirtualClusterStatus,
} from '../../../api/virtual-cluster.ts';
import type { Condition } from '../../../kube/index.ts';
import { advice, driverText, tenantRows } from './describe.ts';

const createdMs = Date.parse('2030-01-01T00:00:00Z');
const soon = createdMs + 10_000;
const late = createdMs + 600_000;
const joined: Condition = { type: 'Synced', status: 'True', reason: 'Joined' };

function tenant(phase: VirtualClusterPhase | undefined, conditions: Condition[] = []): VirtualCluster {
  return {
    metadata: { name: 'blue', namespace: 'teams', creationTimestamp: '2030-01-01T00:00:00Z' },
    status: { ...(phase === undefined ? {} : { phase }), conditions },
  };
}

it('says what confines a control plane, and what does not', () => {
  expect(driverText({ driver: 'process', confinement: ['resources', 'egress'] })).toBe(
    'process (memory and CPU are limited; on its machine it may dial only what it needs)',
  );
  expect(driverText({ driver: 'process', confinement: [] })).toBe(
    'process (memory and CPU are not limited; may dial any port of its machine)',
  );
  expect(driverText({ driver: 'compose', confinement: ['resources', 'egress'] })).toBe(
    'compose (on its machine it may dial only what it needs)',
  );
  expect(driverText({ driver: 'compose', confinement: ['resources'] })).toBe(
    'compose (may dial any port of its machine)',
  );
  expect(driverText({ driver: 'kubernetes' })).toBe('kubernetes');
});

it('shows what a tenant has, and what it has used of the month', () => {
  const month = { ...monthlyUsage('2030-01', []), podHours: 12.34, apiCalls: 567 };
  const vc = {
    ...tenant('Ready'),
    status: { usage: { pods: 3, nodes: 2, resources: { pods: '3' }, month } },
  };
  expect(Object.fromEntries(tenantRows(vc, soon))).toMatchObject({
    'Usage:': '3 pods, 2 nodes',
    'Usage of 2030-01:': '12.3 pod hours, 567 API calls',
  });
});

it('shows what the snapshots of its namespace take, and may take', () => {
  const storage = { usedBytes: 3 * 1024 ** 2, maxBytes: 10 * 1024 ** 3 };
  const shown = tenantRows({ ...tenant('Ready'), status: { snapshots: { storage } } }, soon);
  expect(Object.fromEntries(shown)['Snapshot storage:']).toMatch(
    /^3\.0 MiB of 10240\.0 MiB of its namespace/,
  );
  expect(tenantRows(tenant('Ready'), soon).flat()).not.toContain('Snapshot storage:');
});

it('says why a tenant was woken last, and what one that is asleep wakes up for', () => {
  const rows = (phase: VirtualClusterPhase, sleep: VirtualClusterStatus['sleep']) =>
    tenantRows({ ...tenant(phase), status: { phase, ...(sleep && { sleep }) } }, soon).filter(([title]) =>
      /^(Asleep|Wakes|Woken)/.test(title ?? ''),
    );
  const [since, wokenAt] = ['2030-01-01T00:00:00.000Z', '2029-12-31T03:00:02.000Z'];
  const last = { wokenAt, wokenBy: 'CronJobDue', wokenFor: 'CronJob shop/nightly' } as const;
  const woken = ['Woken:', `${wokenAt}, a CronJob was due: CronJob shop/nightly`];
  expect(rows('Ready', last)).toEqual([woken]);
  const dueAt = '2030-01-02T03:00:00.000Z';
  expect(rows('Asleep', { ...last, since, reason: 'Idle', dueAt, dueFor: 'CronJob shop/nightly' })).toEqual([
    ['Asleep since:', `${since}, Idle`],
    ['Wakes:', `${dueAt}, for CronJob shop/nightly`],
    woken,
  ]);
  expect(rows('Asleep', { since, wokenBy: 'PodLost' })).toEqual([
    ['Asleep since:', since],
    ['Woken:', 'under way, a pod of it has ended or is gone'],
  ]);
  expect(rows('Ready', {})).toEqual([]);
});

it('shows nothing that a tenant does not have which waits for room', () => {
  const shown = (vc: VirtualCluster) => Object.fromEntries(tenantRows(vc, soon));
  const waiting = tenant('Pending', [{ type: 'Ready', status: 'False', reason: 'TooManyVirtualClusters' }]);
  const missing = { 'Kubeconfig:': '-', 'Encryption:': '-', 'DNS:': '-', 'Endpoint:': '-', 'Id:': '-' };
  expect(shown(waiting)).toMatchObject(missing);
  const made: VirtualCluster = {
    ...waiting,
    status: { phase: 'Ready', kubeconfigSecret: { name: 'blue-kubeconfig', key: 'kubeconfig' } },
  };
  expect(shown(made)).toMatchObject({
    'Kubeconfig:': 'Secret teams/blue-kubeconfig',
    'Encryption:': 'Secrets are stored as they are',
  });
});

it('shows where a tenant moves, whence it came and how long it was away, or why it did not go', () => {
  const from = { driver: 'process', datastore: 'shared', template: 'x' } as const;
  const to = { ...from, datastore: 'own' } as const;
  const shown = (status: VirtualCluster['status']) =>
    Object.fromEntries(tenantRows({ ...tenant('Ready'), ...(status && { status }) }, soon));
  expect(shown({ move: { stage: 'copying', from, to, startedAt: '' } })).toMatchObject({
    'Moving:': 'to process/own, copying',
  });
  const moved = { at: '2030-01-01T00:00:00Z', from, to, pausedMs: 6_240 };
  expect(shown({ moved })).toMatchObject({
    'Moved:': '2030-01-01T00:00:00Z, from process/shared, paused for 6.2 s',
  });
  expect(shown({ moved: { ...moved, why: 'no volume' } })).toMatchObject({
    'Moved:': 'not to process/own: no volume',
  });
});

describe('advice', () => {
  it('tells how to use a tenant that is ready', () => {
    expect(advice(tenant('Ready', [joined]), soon)).toEqual([
      'Use it: vc-manager kubeconfig blue -n teams > blue.kubeconfig',
    ]);
  });

  it('does not mind a syncer that has just begun with it', () => {
    const joining: Condition = { type: 'Synced', status: 'False', reason: 'Joining', message: 'taken up' };
    expect(advice(tenant('Ready', [joining]), soon)).toEqual([expect.stringContaining('Use it')]);
  });

  it('tells what the syncer waits for before anything else', () => {
    const held: Condition = {
      type: 'DeletionHeld',
      status: 'True',
      message: 'confirm with kubectl annotate',
    };
    expect(advice(tenant('Ready', [joined, held]), soon)).toEqual(['confirm with kubectl annotate']);
  });

  it('asks for a syncer when none has joined', () => {
    expect(advice(tenant('Ready'), soon).join()).toContain('No syncer has joined it yet');
  });

  it('names the logs of an installation by the chart beside those of the local stack', () => {
    const deleted = tenant('Deleting');
    deleted.metadata.deletionTimestamp = '2030-01-01T00:00:00Z';
    for (const [program, lines] of [
      ['manager', advice(tenant('Pending'), late)],
      ['manager', advice(deleted, late)],
      ['syncer', advice(tenant('Ready'), late)],
    ] as const) {
      expect(lines.join()).toContain(`"vc-manager logs --stack vc-${program}"`);
      expect(lines.join()).toContain(
        `kubectl -n skerry-system logs -l app.kubernetes.io/component=${program} --prefix`,
      );
    }
  });

  it('repeats why a tenant has failed, and names the logs', () => {
    const ready: Condition = { type: 'Ready', status: 'False', message: 'no port is free' };
    const lines = advice(tenant('Failed', [ready]), soon);
    expect(lines[0]).toBe('no port is free');
    expect(lines.at(-1)).toContain('vc-manager logs blue -n teams');
  });

  it('lets one wait for the manager at first, and doubts that there is one later', () => {
    expect(advice(tenant(undefined), soon).join()).toContain('Wait');
    expect(advice(tenant('Pending'), late).join()).toContain('No manager works on it');
  });

  it('repeats what a manager waits for with one that is pending', () => {
    const ready: Condition = { type: 'Ready', status: 'False', message: 'no more than 1' };
    expect(advice(tenant('Pending', [ready]), late)).toEqual(['no more than 1']);
  });

  it('adds what is cut or broken in one that is ready', () => {
    const limited: Condition = { type: 'PolicyLimited', status: 'True', message: 'daemonSets is deny' };
    const dns: Condition = { type: 'DNSReady', status: 'False', reason: 'AddonNotOurs', message: 'theirs' };
    expect(advice(tenant('Ready', [joined, limited, dns]), soon)).toEqual([
      expect.stringContaining('Use it'),
      'daemonSets is deny',
      'theirs',
    ]);
    const granted: Condition = { ...limited, status: 'False' };
    const starting: Condition = { ...dns, reason: 'Starting' };
    expect(advice(tenant('Ready', [joined, granted, starting]), soon)).toHaveLength(1);
  });

  it('names what holds a deletion up', () => {
    const ready: Condition = {
      type: 'Ready',
      status: 'False',
      message: 'Waiting until namespaces are gone: a',
    };
    const vc = tenant('Deleting', [ready]);
    vc.metadata.deletionTimestamp = '2030-01-01T00:00:00Z';
    expect(advice(vc, soon).join()).toContain('Wait');
    expect(advice(vc, late).join()).toContain('Waiting until namespaces are gone: a');
  });
});
