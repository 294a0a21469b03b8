import { describe, expect, it } from 'vitest';
import { cronJobDueMs, jobDueMs } from './due-times.ts';

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
