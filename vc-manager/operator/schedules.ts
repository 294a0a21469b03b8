import { Cron } from 'croner';
import type { VirtualCluster } from '../../api/virtual-cluster.ts';
import { type KubeObject, messageOf } from '../../kube/index.ts';

/** As far as the CronJob controller looks, in years. */
const farthest = 5;

/**
 * A schedule of five fields, or a name such as `@daily`, of which runs are looked for in the years around `nowMs` alone.
 * To look for a 30th of February in a thousand years takes a tenth of a second, and for a time that the change of the
 * clocks leaves out many seconds. Throws what croner says of one that it cannot read.
 */
function boundedCron(schedule: string, nowMs: number, timeZone: string | undefined): Cron {
  const options = { ...(timeZone !== undefined && { timezone: timeZone }), paused: true };
  const anyYear = new Cron(schedule, { ...options, mode: '5-part' });
  if (schedule.startsWith('@')) return anyYear;
  const year = new Date(nowMs).getUTCFullYear();
  return new Cron(`0 ${schedule} ${year - farthest}-${year + farthest}`, { ...options, mode: '7-part' });
}

/** When a tenant sleeps and wakes by the clock. Times are wall-clock times in milliseconds. */
export interface SleepSchedule {
  /** The last time that it was to fall asleep, and the next one. */
  readonly asleep: { readonly lastMs?: number; readonly nextMs?: number };
  readonly awake: { readonly lastMs?: number; readonly nextMs?: number };
  /** What in `spec.sleep` is no schedule, in words. */
  readonly problem?: string;
}

/** `spec.sleep.at` and `wakeAt` as seen at this time. What is no schedule counts as absent. */
export function sleepSchedule({ spec }: Pick<VirtualCluster, 'spec'>, nowMs: number): SleepSchedule {
  const { at, wakeAt, timeZone = 'UTC' } = spec?.sleep ?? {};
  const problems: string[] = [];
  const read = (field: string, pattern: string | undefined): SleepSchedule['asleep'] => {
    if (pattern === undefined) return {};
    try {
      const cron = boundedCron(pattern, nowMs, timeZone);
      const now = new Date(nowMs);
      const [last] = cron.previousRuns(1, now);
      const next = cron.nextRun(now);
      return {
        ...(last === undefined ? {} : { lastMs: last.getTime() }),
        ...(next === null ? {} : { nextMs: next.getTime() }),
      };
    } catch (error) {
      problems.push(`spec.sleep.${field}: ${messageOf(error)}`);
      return {};
    }
  };
  const asleep = read('at', at);
  const awake = read('wakeAt', wakeAt);
  const [problem] = problems;
  return { asleep, awake, ...(problem === undefined ? {} : { problem: problem.slice(0, 500) }) };
}

interface CronJob extends KubeObject {
  spec?: {
    schedule?: string;
    timeZone?: string | null;
    suspend?: boolean | null;
    startingDeadlineSeconds?: number | null;
  };
  status?: { lastScheduleTime?: string | null };
}

interface Job extends KubeObject {
  spec?: { ttlSecondsAfterFinished?: number | null; suspend?: boolean | null };
  status?: {
    active?: number | null;
    failed?: number | null;
    conditions?: readonly { type: string; status: string; lastTransitionTime?: string | null }[];
  };
}

/** In characters. An API server sets no limit. */
const maxScheduleLength = 1_000;

const never = Number.POSITIVE_INFINITY;

/** To read a schedule takes tenths of a millisecond, and up to ten; most CronJobs of a tenant have few of them. */
const maxKnown = 1_000;

/**
 * When a CronJob is to run next, after `nowMs`, as wall-clock time; infinity: never. `timeZone`: that of the controllers;
 * undefined: as here. What its controller cannot read never runs. `known`: what was read before for this `nowMs`.
 */
export function cronJobDueMs(
  { metadata, spec, status }: CronJob,
  nowMs: number,
  timeZone: string | undefined,
  known = new Map<string, number>(),
): number {
  if (metadata.deletionTimestamp !== undefined || spec?.suspend === true) return never;
  const text = String(spec?.schedule ?? '').trim();
  if (text.length > maxScheduleLength) return never;
  const [prefix = '', zone] = /^(?:CRON_)?TZ=(\S+)\s+/.exec(text) ?? [];
  const schedule = text.slice(prefix.length);
  const everyMs = intervalMs(schedule);
  if (everyMs !== undefined) {
    const last = Date.parse(status?.lastScheduleTime ?? metadata.creationTimestamp ?? '');
    const sinceMs = Number.isNaN(last) || last > nowMs ? nowMs : last;
    return sinceMs + (Math.floor((nowMs - sinceMs) / everyMs) + 1) * everyMs;
  }
  const wanted = spec?.timeZone ?? zone ?? timeZone;
  const key = `${wanted ?? ''} ${schedule}`;
  const dueMs = known.get(key) ?? nextRunMs(schedule, nowMs, wanted);
  if (known.size < maxKnown) known.set(key, dueMs);
  return dueMs;
}

function nextRunMs(schedule: string, nowMs: number, timeZone: string | undefined): number {
  try {
    const cron = boundedCron(asCron(schedule), nowMs, timeZone);
    return cron.nextRun(new Date(nowMs))?.getTime() ?? never;
  } catch {
    return never;
  }
}

/** Of `@every 1h30m`; undefined for what is none. */
function intervalMs(schedule: string): number | undefined {
  const [, duration] = /^@every\s+((?:[0-9]{1,6}(?:\.[0-9]{1,3})?[hms])+)$/.exec(schedule) ?? [];
  if (duration === undefined) return undefined;
  const unitMs = { h: 3_600_000, m: 60_000, s: 1_000 } as const;
  let ms = 0;
  for (const [, count, unit] of duration.matchAll(/([0-9]{1,6}(?:\.[0-9]{1,3})?)([hms])/g))
    ms += Number(count) * unitMs[unit as keyof typeof unitMs];
  return Math.max(1_000, Math.floor(ms / 1_000) * 1_000);
}

const largest = [59, 23, 31, 12, 6];

/** What the CronJob controller reads and the parser here does not. Throws on what is the other way round. */
function asCron(schedule: string): string {
  if (/[+#]/.test(schedule)) throw new SyntaxError('no field of a CronJob has + or #');
  const fields = schedule.replaceAll('?', '*').split(/\s+/);
  return fields
    .map((field, index) =>
      field
        .split(',')
        .map((part) => part.replace(/^([0-9]+)\/([0-9]+)$/, `$1-${largest[index]}/$2`))
        .join(','),
    )
    .join(' ');
}

/** By how much the tenant has to be woken earlier for a CronJob not to count as missed by the time that it is awake. */
export function leadMs({ spec }: CronJob): number {
  return (spec?.startingDeadlineSeconds ?? never) < 120 ? 60_000 : 0;
}

/** Whether a pod of a Job has failed and the next one is to come, after a pause of up to six minutes. */
export function isInPodBackoff({ metadata, spec, status }: Job): boolean {
  const hasEnded = status?.conditions?.some(
    ({ type, status: is }) => (type === 'Complete' || type === 'Failed') && is === 'True',
  );
  return (
    metadata.deletionTimestamp === undefined &&
    spec?.suspend !== true &&
    hasEnded !== true &&
    (status?.active ?? 0) === 0 &&
    (status?.failed ?? 0) > 0
  );
}

/**
 * When a Job that has finished is to be removed; infinity: never. One that has not is no matter of time: the end of its
 * pods wakes the tenant.
 */
export function jobDueMs({ metadata, spec, status }: Job): number {
  const ttl = spec?.ttlSecondsAfterFinished;
  if (metadata.deletionTimestamp !== undefined || typeof ttl !== 'number') return never;
  const finished = status?.conditions?.find(
    ({ type, status: is }) => (type === 'Complete' || type === 'Failed') && is === 'True',
  );
  const finishedMs = Date.parse(finished?.lastTransitionTime ?? '');
  return Number.isNaN(finishedMs) ? never : finishedMs + ttl * 1_000;
}
