import { describe, expect, it } from 'vitest';
import { callsPer, parseSyncerWork, syncerTable, workBetween } from './syncer-work.ts';

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

describe("the syncer's metrics", () => {
  it('are added up over tenants and status codes', () => {
    expect(Object.fromEntries(parseSyncerWork(metrics))).toEqual({
      'call/super/create/pods/ok': 90,
      'call/super/create/pods/refused': 5,
      'skerry_syncer_queue_wait_seconds_sum/pods': 2,
      'skerry_syncer_queue_wait_seconds_count/pods': 200,
    });
  });

  it('count only what happened between two moments', () => {
    const after = new Map([
      ['a', 5],
      ['new', 1],
    ]);
    expect(Object.fromEntries(workBetween(new Map([['a', 2]]), after))).toEqual({ a: 3, new: 1 });
  });

  it('become calls per pod', () => {
    const { rows, notes } = syncerTable('burst', [{ work: parseSyncerWork(metrics), count: 100 }], 'pod');
    expect(rows).toEqual([
      ['super create pods', 0.9, 0.05],
      ['**all of these**', 0.9500000000000001, undefined],
    ]);
    expect(notes?.[0]).toContain('10.0 ms in the queue');
    expect(callsPer([{ work: parseSyncerWork(metrics), count: 100 }])).toBe(0.95);
  });

  it('do not count watches among the calls', () => {
    const work = new Map([['call/super/watch/pods/ok', 5]]);
    expect(callsPer([{ work, count: 5 }])).toBe(0);
  });
});
