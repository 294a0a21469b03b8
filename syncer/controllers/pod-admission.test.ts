import { describe, expect, it } from 'vitest';
import { defaultPolicy } from '../../api/default-policy.ts';
import { labelKeys } from '../../api/labels.ts';
import { type KubeObject, resources } from '../../kube/index.ts';
import { podStateOf } from '../controllers/pod-admission.ts';
import { TwoSides } from '../reconcile/testing/two-sides.ts';

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

describe('a pod that waits for the window', () => {
  it('is counted as written once, when it goes', async () => {
    await using sides = await TwoSides.start(({ first }) => {
      const quota = { pods: '100', 'writes.bytes-per-minute': '64Mi' };
      first.info = { ...first.info, policy: { ...defaultPolicy, quota } };
    });
    const used = (wanted: string): number =>
      [...sides.engine.quotaOf(sides.info.uid)].find(({ resource }) => resource === wanted)?.used ?? 0;
    const inSuper = (): KubeObject[] => sides.super.server.list(resources.pods);
    sides.inShop(resources.serviceAccounts, { metadata: { name: 'default' } });
    const long = 'x'.repeat(10_000);
    const spec = {
      serviceAccountName: 'default',
      containers: [{ name: 'main', image: 'busybox', env: [{ name: 'LONG', value: long }] }],
    };
    for (let i = 0; i < 60; i += 1)
      sides.inShop(resources.pods, { metadata: { name: `p${i}` }, spec, status: { phase: 'Pending' } });
    await sides.until(() => inSuper().length >= 32);
    sides.inShop(resources.configMaps, {
      metadata: { name: 'after', labels: { [labelKeys.sync]: 'true' } },
      data: {},
    });
    await sides.until(() => sides.inSuper(resources.configMaps, 'after') !== undefined);
    const [counts] = sides.engine.scheduling()?.tenants ?? [];
    expect(counts?.parked).toBeGreaterThan(20);
    expect(used('writes.bytes-per-minute')).toBeLessThan((60 - 20) * long.length);
    await sides.until(() => {
      for (const pod of inSuper())
        if ((pod['spec'] as { nodeName?: string }).nodeName === undefined)
          sides.super.server.put(resources.pods, {
            ...pod,
            spec: { ...(pod['spec'] as object), nodeName: 'n1' },
          });
      return inSuper().length === 60;
    });
    // Less what a slow machine has had time to forget.
    expect(used('writes.bytes-per-minute')).toBeGreaterThan(20 * long.length);
    expect(used('writes.bytes-per-minute')).toBeLessThan(70 * long.length);
    expect(used('pods')).toBe(60);
  });
});
