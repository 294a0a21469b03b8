import { describe, expect, it } from 'vitest';
import { callsPer, componentMsPer, cpuColumns, cpuMsPer, syncerTable } from './costs.ts';
import { parseSyncerWork } from './measure.ts';

describe('CPU time per pod', () => {
  const usage = (syncer: number) => ({
    elapsedSeconds: 1,
    load: 2,
    othersSeconds: 1,
    cpuSeconds: { 'super cluster': 1, syncer },
    componentSeconds: {
      'super cluster/etcd': 0.4,
      'super cluster/kube-apiserver': 0.6,
      'tenants/datastore': 0.02,
    },
  });
  const cells = cpuMsPer([3, 1, 2].map((syncer) => ({ usage: usage(syncer), count: 100 })));
  const cell = (column: (typeof cpuColumns)[number]) => cells[cpuColumns.indexOf(column)];

  it('is the median over rounds, for each group and for all together', () => {
    expect(cell('syncer')).toBe(20);
    expect(cell('super cluster')).toBe(10);
    expect(cell('all')).toBe(30);
    expect(cell('rest of the machine')).toBe(10);
    expect(cell('load')).toBe(2);
  });

  it('is told for each component that matters, the largest first', () => {
    expect(componentMsPer([{ usage: usage(1), count: 100 }])).toEqual([
      ['super cluster/kube-apiserver', 6],
      ['super cluster/etcd', 4],
    ]);
  });

  it('is no number for groups without processes', () => {
    expect(cell('tenants')).toBeNaN();
  });
});

const metrics = `
# HELP skerry_syncer_api_calls_total Calls of API servers
# TYPE skerry_syncer_api_calls_total counter
skerry_syncer_api_calls_total{side="super",verb="create",resource="pods",code="201"} 90
skerry_syncer_api_calls_total{side="super",verb="create",resource="pods",code="409"} 4
skerry_syncer_api_calls_total{side="super",verb="create",resource="pods",code="none"} 1
skerry_syncer_queue_wait_seconds_bucket{le="0.001",tenant="a",kind="pods"} 7
skerry_syncer_queue_wait_seconds_sum{tenant="a",kind="pods"} 1.5
skerry_syncer_queue_wait_seconds_count{tenant="a",kind="pods"} 100
skerry_syncer_queue_wait_seconds_sum{tenant="b",kind="pods"} 0.5
skerry_syncer_queue_wait_seconds_count{tenant="b",kind="pods"} 100
skerry_syncer_tenants 2
`;

describe("the syncer's work", () => {
  it('become calls per pod', () => {
    const { rows, notes } = syncerTable('burst', [{ syncer: parseSyncerWork(metrics), count: 100 }], 'pod');
    expect(rows).toEqual([
      ['super create pods', 0.9, 0.05],
      ['**all of these**', 0.9500000000000001, undefined],
    ]);
    expect(notes?.[0]).toContain('10.0 ms in the queue');
    expect(callsPer([{ syncer: parseSyncerWork(metrics), count: 100 }])).toBe(0.95);
  });

  it('do not count watches among the calls', () => {
    const syncer = { 'call/super/watch/pods/ok': 5 };
    expect(callsPer([{ syncer, count: 5 }])).toBe(0);
  });
});
