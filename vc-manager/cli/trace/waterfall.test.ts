import { describe, expect, it } from 'vitest';
import type { PodReport } from '../../../api/pod-report.ts';
import { time, waterfall } from './waterfall.ts';

const report: PodReport = {
  tenant: 'acme/blue',
  namespace: 'shop',
  name: 'web',
  uid: 'u',
  node: 'n1',
  seenAt: '2030-01-01T00:00:00.120Z',
  state: 'ready',
  totalMs: 160,
  shares: { skerry: 40, scheduler: 20, kubelet: 100 },
  steps: [],
  spans: [
    { name: 'queue', whose: 'skerry', atMs: 0, tookMs: 0.4 },
    { name: 'schedule', whose: 'scheduler', atMs: 20, tookMs: 20 },
    { name: 'start', whose: 'kubelet', atMs: 40, tookMs: 100 },
    { name: 'status', whose: 'skerry', atMs: 140, tookMs: 20 },
  ],
};

describe('waterfall', () => {
  it('shows who took how much, and each step where it lies in the whole', () => {
    expect(waterfall(report, 'milliseconds').split('\n')).toEqual([
      'Pod:        shop/web',
      'Tenant:     acme/blue',
      'Node:       n1',
      'Seen:       2030-01-01T00:00:00.120Z',
      'Ready in:   160 ms',
      'Shares:     Skerry 40.0 ms (25 %), scheduler 20.0 ms (13 %), kubelet 100 ms (63 %)',
      '',
      'STEP       WHOSE       AT        TOOK',
      'queue      Skerry       0.0 ms    0.4 ms   █                                  waits for a worker of the syncer',
      'schedule   scheduler   20.0 ms   20.0 ms       ████                           the scheduler finds a node',
      'start      kubelet     40.0 ms    100 ms           ████████████████████       the node starts it',
      'status     Skerry       140 ms   20.0 ms                               ████   the tenant learns that it is ready',
      '',
    ]);
  });

  it('says what a pod that is not ready waits for', () => {
    const pending: PodReport = {
      ...report,
      state: 'pending',
      totalMs: 8_300,
      spans: report.spans.slice(0, 1),
      waitsFor: { name: 'schedule', whose: 'scheduler', sinceMs: 8_280 },
    };
    expect(waterfall(pending, 'milliseconds')).toContain(
      'Not ready:   since 8.30 s; waits for scheduler (schedule: the scheduler finds a node) since 8.28 s\n',
    );
    expect(waterfall({ ...report, state: 'deleted' }, 'milliseconds')).toContain(
      'Deleted after:   160 ms, before it was ready',
    );
  });

  it('writes seconds where no more is known, and stands no time at all', () => {
    const none: PodReport = { ...report, totalMs: 0, shares: { skerry: 0, scheduler: 0, kubelet: 0 } };
    expect(waterfall({ ...none, spans: [] }, 'seconds')).toMatch(
      /Ready in: +0 s\nShares: +Skerry 0 s \(0 %\)/,
    );
    expect(waterfall(none, 'seconds')).toContain('█');
  });

  it.each([
    [0, '0.0 ms'],
    [99.94, '99.9 ms'],
    [100, '100 ms'],
    [1_234, '1.23 s'],
    [12_345, '12 s'],
    [185_000, '3 min 05 s'],
  ])('writes %d ms as %s', (ms, text) => {
    expect(time(ms)).toBe(text);
  });
});
