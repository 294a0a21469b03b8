import { describe, expect, it } from 'vitest';
import type { KubeObject } from '../../../kube/index.ts';
import { reportFromObjects } from './from-objects.ts';

const nowMs = Date.parse('2030-01-01T00:01:00Z');
const second = (s: number): string => `2030-01-01T00:00:${String(s).padStart(2, '0')}Z`;
const conditions = (...list: [string, number][]) =>
  list.map(([type, s]) => ({ type, status: 'True', lastTransitionTime: second(s) }));

const tenantPod = (isReady: boolean): KubeObject => ({
  metadata: { namespace: 'shop', name: 'web', uid: 'u', creationTimestamp: second(10) },
  status: { conditions: isReady ? conditions(['Ready', 18]) : [] },
});
const superPod = (...list: [string, number][]): KubeObject => ({
  metadata: { name: 'web', creationTimestamp: second(11) },
  spec: { nodeName: 'n1' },
  status: { conditions: conditions(...list) },
});

describe('reportFromObjects', () => {
  it('reads the way of a pod from creation times and conditions', () => {
    const s = superPod(['PodScheduled', 13], ['Ready', 18]);
    expect(reportFromObjects('acme/blue', tenantPod(true), s, nowMs)).toEqual({
      tenant: 'acme/blue',
      namespace: 'shop',
      name: 'web',
      uid: 'u',
      node: 'n1',
      createdAt: second(10),
      seenAt: second(10),
      state: 'ready',
      totalMs: 8_000,
      shares: { skerry: 1_000, scheduler: 2_000, kubelet: 5_000 },
      steps: [
        { name: 'seen', atMs: 0 },
        { name: 'created', atMs: 1_000 },
        { name: 'scheduled', atMs: 3_000 },
        { name: 'ready', atMs: 8_000 },
      ],
      spans: [
        { name: 'create', whose: 'skerry', atMs: 0, tookMs: 1_000 },
        { name: 'schedule', whose: 'scheduler', atMs: 1_000, tookMs: 2_000 },
        { name: 'start', whose: 'kubelet', atMs: 3_000, tookMs: 5_000 },
      ],
    });
  });

  it.each([
    ['nothing in the super cluster', undefined, { name: 'create', whose: 'skerry', sinceMs: 50_000 }],
    ['no node', superPod(), { name: 'schedule', whose: 'scheduler', sinceMs: 49_000 }],
    ['a node', superPod(['PodScheduled', 13]), { name: 'start', whose: 'kubelet', sinceMs: 47_000 }],
  ])('says what a pod with %s waits for', (_, s, waitsFor) => {
    const report = reportFromObjects('acme/blue', tenantPod(false), s, nowMs);
    expect(report).toMatchObject({ state: 'pending', totalMs: 50_000, waitsFor });
    const { skerry, scheduler, kubelet } = report.shares;
    expect(skerry + scheduler + kubelet).toBe(50_000);
  });

  it('does not let two clocks make a time negative', () => {
    const s = { ...superPod(['PodScheduled', 9], ['Ready', 9]), metadata: { creationTimestamp: second(8) } };
    const report = reportFromObjects('acme/blue', tenantPod(true), s, nowMs);
    expect(report.spans.map(({ atMs, tookMs }) => [atMs, tookMs])).toEqual([
      [0, 0],
      [0, 0],
      [0, 0],
    ]);
  });
});
