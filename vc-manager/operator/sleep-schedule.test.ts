import { describe, expect, it } from 'vitest';
import type { VirtualClusterSpec } from '../../api/virtual-cluster.ts';
import { isSleepScheduled } from './sleep.ts';
import { sleepSchedule } from './sleep-schedule.ts';

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
