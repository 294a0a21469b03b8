import { describe, expect, it } from 'vitest';
import type { KubeObject } from '../../kube/index.ts';
import { podStateOf } from '../controllers/pod-admission.ts';

const refusal = (reason: string): object => ({
  conditions: [{ type: 'PodScheduled', status: 'False', reason }],
});

describe('what the scheduler has to do with a pod', () => {
  it.each<[string, KubeObject, string]>([
    ['has yet to look at a new one', { metadata: {}, spec: {} }, 'waiting'],
    ['has placed one with a node', { metadata: {}, spec: { nodeName: 'n1' } }, 'placed'],
    ['could not place one', { metadata: {}, status: refusal('Unschedulable') }, 'refused'],
    ['holds one back by its gates', { metadata: {}, status: refusal('SchedulingGated') }, 'refused'],
    ['passes over one on its way out', { metadata: { deletionTimestamp: '2026-01-01T00:00:00Z' } }, 'none'],
    ['passes over one that has ended', { metadata: {}, status: { phase: 'Failed' } }, 'none'],
    ['is not that of one that names another', { metadata: {}, spec: { schedulerName: 'batch' } }, 'none'],
  ])('%s', (_title, pod, state) => {
    expect(podStateOf(pod)).toBe(state);
  });
});
