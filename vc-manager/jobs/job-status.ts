import { isDeepStrictEqual } from 'node:util';
import { type CurrentJob, type JobKind, type JobStatus, jobHistoryLimit } from '../../api/job-status.ts';
import type { VirtualCluster } from '../../api/virtual-cluster.ts';
import { withoutUndefined } from '../../kube/index.ts';

interface JobStart {
  kind: JobKind;
  /** Of a new job; one that continues keeps its own. */
  id: string;
  target?: string | undefined;
  holder: string;
  now: Date;
  /** This manager continues its own attempt: `attempts` stays. */
  continues: boolean;
}

/**
 * Begins a job in the status of a VirtualCluster, or continues it. A job lasts, over failures and managers, until it
 * succeeds, is cancelled, or something else is asked for.
 */
export function beginJob(jobs: JobStatus | undefined, start: JobStart): JobStatus {
  const { kind, target, holder, now } = start;
  const { current } = jobs ?? {};
  if (current === undefined || !isSameJob(current, start)) {
    const begun: CurrentJob = {
      kind,
      id: start.id,
      ...withoutUndefined({ target }),
      startedAt: now.toISOString(),
      attempts: 1,
      holder,
    };
    return { ...replaceJob(jobs, now), current: begun };
  }
  if (start.continues && current.holder === holder) return { ...jobs };
  const { failing: _, ...rest } = current;
  return { ...jobs, current: { ...rest, attempts: current.attempts + 1, holder } };
}

export function isSameJob(
  current: CurrentJob,
  wanted: { kind: JobKind; target?: string | undefined },
): boolean {
  return current.kind === wanted.kind && current.target === wanted.target;
}

export function startStep(
  jobs: JobStatus | undefined,
  step: { name: string; doing: string },
  now: Date,
): JobStatus {
  return changeCurrent(jobs, (current) =>
    current.step === step.name
      ? { ...current, message: step.doing }
      : { ...current, step: step.name, stepStartedAt: now.toISOString(), message: step.doing },
  );
}

/** The attempt has failed; the job is tried again. */
export function failAttempt(jobs: JobStatus | undefined, message: string): JobStatus {
  return changeCurrent(jobs, (current) => ({ ...current, failing: true, message: truncate(message) }));
}

export function succeedJob(jobs: JobStatus | undefined, now: Date, message?: string): JobStatus {
  return endJob(jobs, 'Succeeded', now, message);
}

export function cancelJob(jobs: JobStatus | undefined, now: Date, why = 'Cancelled on request.'): JobStatus {
  return endJob(jobs, 'Cancelled', now, why);
}

export function refuseCancel(jobs: JobStatus | undefined, why: string): JobStatus {
  return changeCurrent(jobs, (current) => ({ ...current, refusal: truncate(why) }));
}

/** Ends the current job because something else is asked for. */
export function replaceJob(jobs: JobStatus | undefined, now: Date): JobStatus {
  const { current } = jobs ?? {};
  if (current === undefined) return { ...jobs };
  if (current.failing) return endJob(jobs, 'Failed', now, current.message);
  return endJob(jobs, 'Cancelled', now, 'Something else was asked for meanwhile.');
}

export function changeCurrent(
  jobs: JobStatus | undefined,
  change: (current: CurrentJob) => CurrentJob,
): JobStatus {
  return jobs?.current === undefined ? { ...jobs } : { ...jobs, current: change(jobs.current) };
}

function endJob(
  jobs: JobStatus | undefined,
  result: 'Succeeded' | 'Failed' | 'Cancelled',
  now: Date,
  message?: string,
): JobStatus {
  const { current, history = [], ...rest } = jobs ?? {};
  if (current === undefined) return { ...jobs };
  const { kind, id, target, startedAt, attempts, step } = current;
  const ended = {
    kind,
    id,
    result,
    startedAt,
    finishedAt: now.toISOString(),
    attempts,
    ...withoutUndefined({
      target,
      step: result === 'Succeeded' ? undefined : step,
      message: message === undefined ? undefined : truncate(message),
    }),
  };
  const [last, ...earlier] = history;
  // What comes up by the clock and fails each time the same way would push everything else out.
  const isSame =
    result === 'Failed' &&
    last?.result === 'Failed' &&
    isDeepStrictEqual([last.kind, last.target, last.step, last.message], [kind, target, step, ended.message]);
  if (!isSame) return { ...rest, history: [ended, ...history].slice(0, jobHistoryLimit) };
  const merged = { ...ended, startedAt: last.startedAt, attempts: last.attempts + attempts };
  return { ...rest, history: [merged, ...earlier] };
}

const longestMessage = 1_000;

/** Messages come from other programs, and one object holds up to eleven. */
function truncate(message: string): string {
  return message.length <= longestMessage ? message : `${message.slice(0, longestMessage)}…`;
}

/**
 * Whether a cancelled job is not to begin again yet. A move has a hold of its own: one generation can ask for a move and
 * a change of version, and if one took the other's place, the two would begin in turn for ever. A tenant that is being
 * provisioned changes no version, so these two share one.
 */
export function isHeld({ metadata, status }: VirtualCluster, kind: JobKind, nowMs: number): boolean {
  const { held, heldMove, renewalHeldUntil } = status?.jobs ?? {};
  if (kind === 'move') return heldMove !== undefined && heldMove.generation === metadata.generation;
  if (kind === 'renewal') return nowMs < Date.parse(renewalHeldUntil ?? '');
  return held?.kind === kind && held.generation === metadata.generation;
}
