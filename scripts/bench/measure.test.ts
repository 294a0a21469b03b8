import { describe, expect, it } from 'vitest';
import {
  metricSum,
  parseAge,
  parseMachineTime,
  parseMemory,
  parseSyncerWork,
  workBetween,
} from './measure.ts';

describe('the time of a process', () => {
  it('has begun so many ticks after the machine', () => {
    const rest = 'S 1 7 7 0 -1 4194304 100 0 0 0 250 50 9 9 20 0 7 0 100 1000 200';
    expect(parseAge(`7 (odd) name) 1 2) ${rest}`, '3.25 6.00\n')).toBe(2_250);
  });
});

describe('the memory of a process', () => {
  it('adds clean and dirty pages, and tells private from shared ones', () => {
    const rollup = [
      '00400000-7fff [rollup]',
      'Rss:                 100 kB',
      'Pss:                  60 kB',
      'Pss_Dirty:             1 kB',
      'Shared_Clean:         30 kB',
      'Shared_Dirty:         10 kB',
      'Private_Clean:        20 kB',
      'Private_Dirty:        40 kB',
    ].join('\n');
    expect(parseMemory(rollup)).toEqual({
      rss: 100 * 1024,
      pss: 60 * 1024,
      private: 60 * 1024,
      shared: 40 * 1024,
    });
  });
});

describe('the time of the machine', () => {
  it('is what all cores were busy, without idling, waiting and what was stolen', () => {
    const stat = 'cpu  100 10 20 5000 70 3 7 60 0 0\ncpu0 50 5 10 2500 35 1 3 30 0 0\n';
    expect(parseMachineTime(stat)).toEqual({ busySeconds: 1.4, stolenSeconds: 0.6 });
  });
});

const text = `# HELP depth Items.
# TYPE depth gauge
depth{tenant="a",state="live"} 3
depth{tenant="b",state="live"} 4
depth{tenant="b",state="delayed"} 50
depth_total 7
heap_bytes 1.5e+06
`;

describe('a metric', () => {
  it('is added up over its series, or over those that are wanted', () => {
    expect(metricSum(text, 'depth')).toBe(57);
    expect(metricSum(text, 'depth', (labels) => labels.get('state') === 'live')).toBe(7);
  });

  it('may have no labels, and is not one whose name only begins alike', () => {
    expect(metricSum(text, 'heap_bytes')).toBe(1_500_000);
    expect(metricSum(text, 'depth_total')).toBe(7);
    expect(metricSum(text, 'nothing')).toBe(0);
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

describe("the syncer's metrics", () => {
  it('are added up over tenants and status codes', () => {
    expect(parseSyncerWork(metrics)).toEqual({
      'call/super/create/pods/ok': 90,
      'call/super/create/pods/refused': 5,
      'skerry_syncer_queue_wait_seconds_sum/pods': 2,
      'skerry_syncer_queue_wait_seconds_count/pods': 200,
    });
  });

  it('count only what happened between two moments', () => {
    expect(workBetween({ a: 2 }, { a: 5, new: 1 })).toEqual({ a: 3, new: 1 });
  });
});
