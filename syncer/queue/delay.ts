import type { Backoff } from './backoff.ts';
import type { Entry, EntryRun } from './entry.ts';
import type { Outcome, Priority } from './options.ts';

/** What an add asks for. */
export interface Wish {
  at: number;
  priority: Priority;
  version: string | undefined;
}

/** When a delayed item is due after one more add. May turn `refused` into `released`. */
export function hasten<Item>(entry: Entry<Item>, wish: Wish, releaseEveryMs: number): number {
  switch (entry.delay) {
    case 'wish':
      return Math.min(entry.dueAt, wish.at);
    case 'backoff':
      return wish.priority === 'live' ? Math.min(entry.dueAt, wish.at) : entry.dueAt;
    case 'refused':
      if (wish.version === undefined || wish.version === entry.refusedVersion) return entry.dueAt;
      entry.delay = 'released';
      return Math.min(entry.dueAt, Math.max(wish.at, earliestRelease(entry, releaseEveryMs)));
    case 'released':
      return Math.min(entry.dueAt, Math.max(wish.at, earliestRelease(entry, releaseEveryMs)));
  }
}

/** When an item whose run has ended is due again, from its outcome and from what was added meanwhile; undefined: never. */
export function nextRun<Item>(
  entry: Entry<Item>,
  run: EntryRun,
  outcome: Outcome,
  now: number,
  backoff: Backoff,
  releaseEveryMs: number,
): number | undefined {
  const dueAt = dueAfter(entry, run.dropped ? { action: 'done' } : outcome, now, backoff);
  if (run.again === undefined) return dueAt;
  if (dueAt === undefined) {
    entry.priority = run.again.priority;
    return run.again.at;
  }
  if (run.again.priority === 'live') entry.priority = 'live';
  entry.dueAt = dueAt;
  return hasten(entry, run.again, releaseEveryMs);
}

/** Several adds as one: the earliest time, the higher priority, the newest version. */
export function merge(wish: Wish | undefined, newer: Wish): Wish {
  if (wish === undefined) return newer;
  return {
    at: Math.min(wish.at, newer.at),
    priority: wish.priority === 'live' ? 'live' : newer.priority,
    version: newer.version ?? wish.version,
  };
}

function earliestRelease<Item>(entry: Entry<Item>, releaseEveryMs: number): number {
  return entry.releasedAt === undefined ? 0 : entry.releasedAt + releaseEveryMs;
}

function dueAfter<Item>(
  entry: Entry<Item>,
  outcome: Outcome,
  now: number,
  backoff: Backoff,
): number | undefined {
  entry.refusedVersion = undefined;
  entry.delay = 'wish';
  switch (outcome.action) {
    case 'done':
      entry.failures = 0;
      return undefined;
    case 'later':
      entry.failures = 0;
      return now + Math.max(0, outcome.afterMs);
    case 'backoff':
      entry.failures += 1;
      entry.delay = outcome.refusedVersion === undefined ? 'backoff' : 'refused';
      entry.refusedVersion = outcome.refusedVersion;
      return now + backoff.delayMs(entry.failures);
  }
}
