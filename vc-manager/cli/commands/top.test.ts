import { expect, it } from 'vitest';
import { monthlyUsage } from '../../../api/usage.ts';
import type { VirtualCluster } from '../../../api/virtual-cluster.ts';
import { topRow, topTable } from './top.ts';

const month = { ...monthlyUsage('2026-03', []), podHours: 12.34, apiCalls: 56_789 };
const vc: VirtualCluster = {
  metadata: { namespace: 'teams', name: 'blue' },
  status: {
    usage: { pods: 3, cpu: '1500m', month },
    datastoreUsage: { keys: 1, bytes: 2 ** 20, measured: '' },
  },
};

it('shows pod hours and API calls of this month, and none of an earlier one', () => {
  const row = topRow(vc, Date.parse('2026-03-31T23:59:00Z'));
  expect(row).toEqual({
    ...{ tenant: 'teams/blue', pods: 3, cpu: 1.5, datastoreBytes: 2 ** 20 },
    ...{ podHours: 12.34, apiCalls: 56_789 },
  });
  const lines = topTable([row, topRow(vc, Date.parse('2026-04-01T00:00:00Z'))])
    .trimEnd()
    .split('\n');
  expect(lines.map((line) => line.trimEnd().split(/ {2,}/).slice(-3))).toEqual([
    ['DATASTORE', 'POD HOURS', 'API CALLS'],
    ['1Mi', '12.3', '56789'],
    ['1Mi', '-', '-'],
  ]);
});
