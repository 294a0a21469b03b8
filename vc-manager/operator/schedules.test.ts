import { describe, expect, it } from 'vitest';
import type { VirtualClusterSpec } from '../../api/virtual-cluster.ts';
import { cronJobDueMs, jobDueMs, sleepSchedule } from './schedules.ts';
import { isSleepScheduled } from './sleep.ts';

const at = (time: string): number => Date.parse(time);
const times = (sleep: NonNullable<VirtualClusterSpec['sleep']>, now: string) => {
  const { asleep, awake, problem } = sleepSchedule({ spec: { sleep } }, at(now));
  const shown = (ms: number | undefined) => (ms === undefined ? undefined : new Date(ms).toISOString());
  return {
    asleep: [shown(asleep.lastMs), shown(asleep.nextMs)],
    awake: [shown(awake.lastMs), shown(awake.nextMs)],
    problem,
  };
};

describe('a schedule of sleep', () => {
  const office = { at: '0 19 * * 1-5', wakeAt: '0 7 * * 1-5', timeZone: 'Europe/Zurich' };

  it('is of a time zone, through weekends and changes of the clock', () => {
    // A Friday; the clocks go back on Sunday, 2026-10-25.
    expect(times(office, '2026-10-23T18:00:00Z')).toEqual({
      asleep: ['2026-10-23T17:00:00.000Z', '2026-10-26T18:00:00.000Z'],
      awake: ['2026-10-23T05:00:00.000Z', '2026-10-26T06:00:00.000Z'],
      problem: undefined,
    });
    expect(times({ at: '30 2 * * *' }, '2026-10-23T00:00:00Z').asleep[1]).toBe('2026-10-23T02:30:00.000Z');
  });

  it('that cannot be read is none, and says why', () => {
    for (const bad of [
      { at: 'soon' },
      { at: '* * * * * *' },
      { at: '0 25 * * *' },
      { ...office, timeZone: 'Mars/X' },
    ]) {
      const { asleep, problem } = times(bad, '2026-10-23T18:00:00Z');
      expect(asleep, bad.at).toEqual([undefined, undefined]);
      expect(problem).toMatch(/^spec\.sleep\.at: /);
    }
    expect(times({}, '2026-10-23T18:00:00Z').problem).toBeUndefined();
    expect(times({ at: '0 0 31 2 *' }, '2026-10-23T18:00:00Z').asleep).toEqual([undefined, undefined]);
  });

  it('is looked for in the years around, and in no others', () => {
    // The clocks of New York go forward at two, on that Sunday since 2007: there is no such time.
    const never = { at: '1-59 2 * 3 SUN#2', timeZone: 'America/New_York' };
    expect(times(never, '2026-10-23T18:00:00Z')).toMatchObject({
      asleep: [undefined, undefined],
      problem: undefined,
    });
    expect(times({ at: '0 0 29 2 *' }, '2026-10-23T18:00:00Z').asleep).toEqual([
      '2024-02-29T00:00:00.000Z',
      '2028-02-29T00:00:00.000Z',
    ]);
    expect(times({ at: '* * * * * *' }, '2026-10-23T18:00:00Z').problem).toContain('exactly 5 parts');
  });

  it.each([
    ['before its time', '2026-10-23T16:59:00Z', undefined, false],
    ['at its time', '2026-10-23T17:00:01Z', undefined, true],
    ['late, as no manager ran', '2026-10-24T12:00:00Z', undefined, true],
    ['when it is to be awake', '2026-10-26T06:00:01Z', undefined, false],
    ['when somebody woke it since', '2026-10-23T20:00:00Z', '2026-10-23T19:00:00Z', false],
    ['when somebody woke it before', '2026-10-23T20:00:00Z', '2026-10-23T12:00:00Z', true],
  ])('puts a tenant to sleep: %s', (_, now, wokenAt, is) => {
    const vc = {
      metadata: { name: 'a', creationTimestamp: '2026-10-01T00:00:00Z' },
      spec: { sleep: office },
      status: { sleep: { ...(wokenAt && { wokenAt }) } },
    };
    const clock = { now: () => at(now) } as Parameters<typeof isSleepScheduled>[1]['clock'];
    expect(isSleepScheduled(vc, { clock })).toBe(is);
    const young = { ...vc, metadata: { ...vc.metadata, creationTimestamp: now } };
    expect(isSleepScheduled(young, { clock })).toBe(false);
  });
});

const now = '2026-11-27T10:07:30Z';
const iso = (ms: number): string => (ms === Number.POSITIVE_INFINITY ? 'never' : new Date(ms).toISOString());

describe('a CronJob', () => {
  const due = (
    spec: { schedule: string; timeZone?: string; suspend?: boolean },
    more: { status?: { lastScheduleTime?: string }; deletionTimestamp?: string } = {},
  ): string => {
    const { status, ...metadata } = more;
    const creationTimestamp = '2026-11-27T09:00:00Z';
    const object = {
      metadata: { name: 'x', creationTimestamp, ...metadata },
      spec,
      ...(status && { status }),
    };
    return iso(cronJobDueMs(object, Date.parse(now), 'UTC'));
  };

  it.each([
    ['*/5 * * * *', '2026-11-27T10:10:00.000Z'],
    ['@daily', '2026-11-28T00:00:00.000Z'],
    ['0 3 * * mon-fri', '2026-11-30T03:00:00.000Z'],
    ['8/15 * ? * *', '2026-11-27T10:08:00.000Z'],
    ['0 20/2,4 * * *', '2026-11-27T20:00:00.000Z'],
    ['CRON_TZ=Asia/Tokyo 0 20 * * *', '2026-11-27T11:00:00.000Z'],
    ['@every 1h30m', '2026-11-27T10:30:00.000Z'],
    ['0 0 29 2 *', '2028-02-29T00:00:00.000Z'],
    ['0 0 30 2 *', 'never'],
    ['0 0 1 1 +fri', 'never'],
    ['0 0 1 1 mon#1', 'never'],
    ['0 0 0 1 1 *', 'never'],
    ['0 0 1 *', 'never'],
    ['@every soon', 'never'],
    ['@yearly', '2027-01-01T00:00:00.000Z'],
    ['CRON_TZ=Pacific/Kiritimati 0 0 1 1 *', '2026-12-31T10:00:00.000Z'],
    ['soon', 'never'],
    ['', 'never'],
  ])('of %j is due next at %s', (schedule, expected) => {
    expect(due({ schedule })).toBe(expected);
  });

  it('is looked for no further ahead than its controller looks', () => {
    // 2100 has no 29th of February.
    const object = { metadata: { name: 'x' }, spec: { schedule: '0 0 29 2 *' } };
    expect(iso(cronJobDueMs(object, Date.parse('2096-03-01T00:00:00Z'), 'UTC'))).toBe('never');
    expect(iso(cronJobDueMs(object, Date.parse('2099-03-01T00:00:00Z'), 'UTC'))).toBe(
      '2104-02-29T00:00:00.000Z',
    );
  });

  it('counts in its own time zone, and from its last run where it has an interval', () => {
    expect(due({ schedule: '0 12 * * *', timeZone: 'Europe/Zurich' })).toBe('2026-11-27T11:00:00.000Z');
    const status = { lastScheduleTime: '2026-11-27T10:00:00Z' };
    expect(due({ schedule: '@every 10m' }, { status })).toBe('2026-11-27T10:10:00.000Z');
  });

  it('that is suspended or being deleted is never due', () => {
    expect(due({ schedule: '@daily', suspend: true })).toBe('never');
    expect(due({ schedule: '@daily' }, { deletionTimestamp: now })).toBe('never');
  });
});

describe('a Job', () => {
  const due = (ttlSecondsAfterFinished: number | undefined, type?: string, status = 'True'): string => {
    const conditions = type === undefined ? [] : [{ type, status, lastTransitionTime: now }];
    const spec = ttlSecondsAfterFinished === undefined ? {} : { ttlSecondsAfterFinished };
    return iso(jobDueMs({ metadata: { name: 'x' }, spec, status: { conditions } }));
  };

  it('that has finished is due when its time to live is over', () => {
    expect(due(60, 'Complete')).toBe('2026-11-27T10:08:30.000Z');
    expect(due(0, 'Failed')).toBe('2026-11-27T10:07:30.000Z');
  });

  it('that runs, or has no time to live, is never due', () => {
    expect(due(60)).toBe('never');
    expect(due(60, 'Complete', 'False')).toBe('never');
    expect(due(60, 'Suspended')).toBe('never');
    expect(due(undefined, 'Complete')).toBe('never');
  });
});
