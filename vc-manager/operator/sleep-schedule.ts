import type { VirtualCluster } from '../../api/virtual-cluster.ts';
import { nearCron } from './near-cron.ts';

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
      const cron = nearCron(pattern, nowMs, timeZone);
      const now = new Date(nowMs);
      const [last] = cron.previousRuns(1, now);
      const next = cron.nextRun(now);
      return {
        ...(last === undefined ? {} : { lastMs: last.getTime() }),
        ...(next === null ? {} : { nextMs: next.getTime() }),
      };
    } catch (error) {
      problems.push(`spec.sleep.${field}: ${error instanceof Error ? error.message : String(error)}`);
      return {};
    }
  };
  const asleep = read('at', at);
  const awake = read('wakeAt', wakeAt);
  const [problem] = problems;
  return { asleep, awake, ...(problem === undefined ? {} : { problem: problem.slice(0, 500) }) };
}
