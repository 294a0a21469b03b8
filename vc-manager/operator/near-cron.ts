import { Cron } from 'croner';

/** As far as the CronJob controller looks, in years. */
const farthest = 5;

/**
 * A schedule of five fields, or a name such as `@daily`, of which runs are looked for in the years around `nowMs` alone.
 * To look for a 30th of February in a thousand years takes a tenth of a second, and for a time that the change of the
 * clocks leaves out many seconds. Throws what croner says of one that it cannot read.
 */
export function nearCron(schedule: string, nowMs: number, timeZone: string | undefined): Cron {
  const options = { ...(timeZone !== undefined && { timezone: timeZone }), paused: true };
  const anyYear = new Cron(schedule, { ...options, mode: '5-part' });
  if (schedule.startsWith('@')) return anyYear;
  const year = new Date(nowMs).getUTCFullYear();
  return new Cron(`0 ${schedule} ${year - farthest}-${year + farthest}`, { ...options, mode: '7-part' });
}
