import { afterEach, beforeEach, expect, it, vi } from 'vitest';
import { annotationKeys } from '../../../api/labels.ts';
import { startLyingServer } from '../../../kube/testing/index.ts';
import type { Tenant } from '../tenant.ts';
import { fallAsleep } from './sleep.ts';

beforeEach(() => {
  vi.useFakeTimers({ toFake: ['setTimeout', 'clearTimeout', 'performance'] });
});
afterEach(() => {
  vi.useRealTimers();
});

it('a tenant whose API server lists without end is not waited for, and left alone for longer', async () => {
  let lists = 0;
  await using server = await startLyingServer((_request, response) => {
    lists++;
    vi.advanceTimersByTime(1_000);
    response.end(JSON.stringify({ metadata: { continue: 'more' }, items: [] }));
  });
  const tenant = {
    vc: {
      metadata: { name: 'a', annotations: { [annotationKeys.sleep]: 'one' } },
      status: { phase: 'Ready' },
    },
    client: server.client,
    signal: new AbortController().signal,
    notes: [],
  } as unknown as Tenant;
  await fallAsleep.run(tenant, { clock: { now: () => 0, monotonic: () => performance.now() } } as never);
  expect(lists).toBe(60);
  expect(tenant.unfinished).toMatchObject({ step: 'sleep', againAfterMs: 300_000 });
  expect(tenant.unfinished?.failing).toContain('too slow');
});
