import { afterEach, beforeEach, expect, it, vi } from 'vitest';
import { annotationKeys } from '../../../api/labels.ts';
import { startLyingServer } from '../../../kube/testing/index.ts';
import type { Services } from '../services.ts';
import type { Tenant } from '../tenant.ts';
import { fallAsleep } from './sleep.ts';

beforeEach(() => {
  vi.useFakeTimers({ toFake: ['setTimeout', 'clearTimeout', 'performance'] });
});
afterEach(() => {
  vi.useRealTimers();
});

/** One reconcile of a tenant that is asked to sleep. */
const asked = (client: Tenant['client'], request: string): Tenant =>
  ({
    vc: {
      metadata: { name: 'a', uid: 'uid-a', annotations: { [annotationKeys.sleep]: request } },
      status: { phase: 'Ready' },
    },
    uid: 'uid-a',
    client,
    signal: new AbortController().signal,
    notes: [],
  }) as unknown as Tenant;

it('a tenant whose API server lists without end is not waited for, and left alone for longer', async () => {
  let lists = 0;
  await using server = await startLyingServer((_request, response) => {
    lists++;
    vi.advanceTimersByTime(1_000);
    response.end(JSON.stringify({ metadata: { continue: 'more' }, items: [] }));
  });
  const sleepPauses: Services['sleepPauses'] = new Map();
  const clock = { now: () => 0, monotonic: () => performance.now() };
  const reconcile = async (request: string): Promise<Tenant> => {
    const tenant = asked(server.client, request);
    await fallAsleep.run(tenant, { clock, sleepPauses } as never);
    return tenant;
  };
  const first = await reconcile('one');
  expect(lists).toBe(60);
  expect(first.unfinished).toMatchObject({ step: 'sleep', againAfterMs: 300_000 });
  expect(first.unfinished?.failing).toContain('too slow');
  // Something else has changed, or the minute is over.
  vi.advanceTimersByTime(60_000);
  const second = await reconcile('one');
  expect(lists).toBe(60);
  expect(second.unfinished).toMatchObject({ failing: first.unfinished?.failing, againAfterMs: 240_000 });
  expect(second.notes).toEqual([`It does not fall asleep: ${first.unfinished?.failing}`]);
  // Who asks once more has mended it, perhaps.
  await reconcile('two');
  expect(lists).toBe(120);
  vi.advanceTimersByTime(300_000);
  await reconcile('two');
  expect(lists).toBe(180);
});

it('a tenant with more schedules than can be read in time does not fall asleep, and says so', async () => {
  const page = Array.from({ length: 100 }, (_, at) => ({ metadata: { name: `x${at}` } }));
  let lists = 0;
  await using server = await startLyingServer((_request, response) => {
    // Each has another one, far off.
    const items = page.map((each, at) => ({
      ...each,
      spec: { schedule: `${at % 60} ${lists % 24} ${1 + (lists % 28)} 1 *` },
    }));
    lists++;
    response.end(JSON.stringify({ metadata: { continue: 'more' }, items }));
  });
  let readMs = 0;
  const clock = { now: () => 0, monotonic: () => readMs++ };
  const tenant = asked(server.client, 'one');
  await fallAsleep.run(tenant, { clock, sleepPauses: new Map() } as never);
  // A millisecond each.
  expect(lists).toBeGreaterThan(15);
  expect(lists).toBeLessThan(25);
  expect(tenant.unfinished?.failing).toMatch(/more CronJobs, of different schedules, than .*: \d{4} were/);
  expect(tenant.unfinished?.againAfterMs).toBeGreaterThan(299_000);
  expect(tenant.notes).toEqual([`It does not fall asleep: ${tenant.unfinished?.failing}`]);
});
