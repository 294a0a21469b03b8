import { expect, it } from 'vitest';
import { annotationKeys } from '../../../api/labels.ts';
import type { Tenant } from '../tenant.ts';
import { fallAsleep } from './sleep.ts';

it('a tenant whose API server lists without end is not waited for, and left alone for longer', async () => {
  let monotonicMs = 0;
  let lists = 0;
  const tenant = {
    vc: {
      metadata: { name: 'a', annotations: { [annotationKeys.sleep]: 'one' } },
      status: { phase: 'Ready' },
    },
    client: {
      list: async () => {
        lists++;
        monotonicMs += 1_000;
        return { items: [], metadata: { continue: 'more' } };
      },
    },
    signal: new AbortController().signal,
    notes: [],
  } as unknown as Tenant;
  await fallAsleep.run(tenant, { clock: { now: () => 0, monotonic: () => monotonicMs } } as never);
  expect(lists).toBe(60);
  expect(tenant.unfinished).toMatchObject({ step: 'sleep', againAfterMs: 300_000 });
  expect(tenant.unfinished?.failing).toContain('list of cronjobs');
});
