import { traitsOf } from '../../../api/drivers.ts';
import { annotationKeys } from '../../../api/labels.ts';
import { hasRunSince } from '../../../api/running-pods.ts';
import { sleepAfterIdleMs, storedRequest } from '../../../api/tenant-state.ts';
import type { VirtualClusterStatus } from '../../../api/virtual-cluster.ts';
import { wakeReasonText } from '../../../api/wake-reasons.ts';
import { type KubeObject, resources } from '../../../kube/index.ts';
import { explain, OperatorError, tooManySchedules } from '../errors.ts';
import { recordEvent } from '../events.ts';
import { authorityRequest } from '../jobs.ts';
import { pagesOf } from '../objects.ts';
import { cronJobDueMs, isInPodBackoff, jobDueMs, leadMs, sleepSchedule } from '../schedules.ts';
import type { Services } from '../services.ts';
import {
  hasPhaseAsleep,
  idleAtMs,
  isLaterRequest,
  isSleepScheduled,
  sleepRequest,
  wakeRequest,
} from '../sleep.ts';
import type { Step } from '../step-runner.ts';
import { CallTimeBudget, type Tenant } from '../tenant.ts';
import { ensureOnlyDatastore } from './control-plane.ts';
import { datastoreUsage } from './datastore-usage.ts';

/** Its API server answers: clients that wait for it need not wait for the rest. */
export const awake: Step = {
  name: 'awake',
  doing: 'Letting its clients in',
  async run(tenant, services) {
    // One that failed to wake up is in another phase by now.
    if (!hasPhaseAsleep(tenant.vc) && tenant.vc.status?.sleep?.since === undefined) return;
    const { [annotationKeys.sleep]: asked, [annotationKeys.wake]: woken } =
      tenant.vc.metadata.annotations ?? {};
    // A request to sleep from before is followed, or it would be for the next time; a later one still is to be.
    const isNext = wakeRequest(tenant.vc) !== undefined && isLaterRequest(asked, woken);
    const slept = isNext ? undefined : asked;
    const wokenAt = new Date(services.clock.now()).toISOString();
    tenant.status.set(({ sleep, ...status }) => ({
      ...status,
      phase: 'Ready',
      sleep: { ...whileAwake(sleep), wokenAt, ...requests({ slept, woken }) },
    }));
    tenant.status.condition('Ready', 'True', 'Available', 'It is awake; the controllers are starting.');
    await tenant.status.flush();
    const { wokenBy = 'Unknown', wokenFor } = tenant.vc.status?.sleep ?? {};
    const message = `It was woken: ${wakeReasonText(wokenBy, wokenFor)}.`;
    await recordEvent(tenant, services, { reason: 'Woken', message });
  },
};

/** The last step of a reconcile that found everything well: stops it when that is asked for, or it is not used. */
export const fallAsleep: Step = {
  name: 'sleep',
  doing: 'Stopping the control plane until it is used',
  async run(tenant, services) {
    const { unfinished, vc } = tenant;
    const request = sleepRequest(vc);
    if (request !== undefined && isLaterRequest(wakeRequest(vc), request)) {
      const followed = requests({ slept: request, woken: wakeRequest(vc) });
      tenant.status.set(({ sleep, ...status }) => ({ ...status, sleep: { ...sleep, ...followed } }));
      tenant.jobMessage = 'it was asked to wake before it slept';
      // For its schedule, and its last use.
      tenant.lookAgainMs = 0;
      return;
    }
    // New authorities would wake it at once.
    const isRenewing = authorityRequest(vc) !== undefined || vc.status?.authorities !== undefined;
    if (unfinished !== undefined && (unfinished.maySleep !== true || isRenewing)) return;
    const isScheduled = isScheduledNow(tenant, services);
    if (request === undefined && !isScheduled && !isIdleNow(tenant, services)) return;
    const reason = request !== undefined ? 'Requested' : isScheduled ? 'Scheduled' : 'Idle';
    const { clock, sleepPauses } = services;
    // It may have been mended when it is asked for once more, or the spec has changed.
    const attempt = [reason, request, vc.status?.jobs?.retried, vc.metadata.generation].join(' ');
    const paused = sleepPauses.get(tenant.uid);
    if (paused?.attempt === attempt && paused.untilMs > clock.monotonic()) {
      stayAwake(tenant, services, reason, paused);
      return;
    }
    const woken = tenant.vc.metadata.annotations?.[annotationKeys.wake];
    const nowMs = clock.now();
    const startedMs = clock.monotonic();
    let left: Left | undefined;
    try {
      left = await new CallTimeBudget(longestVisitMs).within(tenant.signal, (signal) =>
        whatIsLeft(tenant, services, {
          ...{ nowMs, signal },
          // It would be awake for longer than asleep: once woken it stays so for that time.
          ...(reason === 'Idle' && { untilMs: nowMs + (sleepAfterIdleMs(tenant.vc) ?? 0) }),
        }),
      );
    } catch (error) {
      if (tenant.signal.aborted) throw error;
      // It could not be told when it is needed. Others wait for this worker, and for this thread.
      const tookMs = clock.monotonic() - startedMs;
      const pauseMs = isTooMany(error) ? tooManyAgainMs : Math.max(10_000, 5 * tookMs);
      const why = explain(error, tenant).message;
      const pause = { attempt, why, untilMs: clock.monotonic() + pauseMs };
      sleepPauses.set(tenant.uid, pause);
      stayAwake(tenant, services, reason, pause);
      return;
    }
    sleepPauses.delete(tenant.uid);
    if (left === undefined) return;
    // One that sleeps again in the reconcile that woke it would never be measured.
    await datastoreUsage.run(tenant, services);
    const since = new Date(nowMs).toISOString();
    tenant.status.set(({ sleep, ...status }) => ({
      ...status,
      phase: 'Asleep',
      sleep: { ...sleep, since, reason, ...left, ...requests({ slept: request, woken }) },
    }));
    const why = reasons[reason];
    tenant.status.condition(
      'Ready',
      'False',
      'Asleep',
      `${why}: its control plane is stopped, and its pods run on. Connecting to it through the gateway, or "vc-manager wake", starts it.`,
    );
    // The syncer leaves when it sees the phase, and a manager that takes over goes on from here.
    await tenant.status.flush();
    await stop(tenant, services);
    lookAgainWhenDue(tenant, services);
  },
};

const reasons = {
  Idle: 'It was not used for a while',
  Requested: 'It was asked to sleep',
  Scheduled: 'It sleeps by its schedule',
} as const;

/** Those that are there, as the status stores them. */
function requests(followed: { slept: string | undefined; woken: string | undefined }): {
  slept?: string;
  woken?: string;
} {
  const stored = Object.entries(followed).flatMap(([key, value]) =>
    value === undefined ? [] : [[key, storedRequest(value)]],
  );
  return Object.fromEntries(stored);
}

/** What the status keeps of the last sleep. */
function whileAwake(sleep: VirtualClusterStatus['sleep'] = {}): typeof sleep {
  const keys = ['slept', 'woken', 'wokenBy', 'wokenFor'] as const;
  return Object.fromEntries(keys.flatMap((key) => (sleep[key] === undefined ? [] : [[key, sleep[key]]])));
}

/** Of one that is asleep: stops what a manager that has died left running. */
export const stayAsleep: Step = {
  name: 'sleep',
  doing: 'Stopping the control plane until it is used',
  async run(tenant, services) {
    if (tenant.vc.status?.sleep?.stopped !== true) await stop(tenant, services);
    lookAgainWhenDue(tenant, services);
    if (tenant.vc.status?.sleep?.reason === 'Requested') return;
    const nowMs = services.clock.now();
    const { awake: by } = sleepSchedule(tenant.vc, nowMs);
    if (by.nextMs !== undefined) tenant.lookAgainMs = Math.min(tenant.lookAgainMs, by.nextMs - nowMs);
  },
};

function lookAgainWhenDue(tenant: Tenant, { clock }: Services): void {
  const dueMs = Date.parse(tenant.vc.status?.sleep?.dueAt ?? '') - clock.now();
  if (!Number.isNaN(dueMs)) tenant.lookAgainMs = Math.min(tenant.lookAgainMs, dueMs);
}

/** Of one that is asleep and has an etcd of its own, of which a snapshot is to be taken: `stayAsleep` stops it again. */
export const wakeDatastore: Step = {
  name: 'datastore',
  doing: 'Starting its datastore alone',
  async run(tenant, services) {
    tenant.status.set(({ sleep: { stopped: _, ...sleep } = {}, ...status }) => ({ ...status, sleep }));
    await ensureOnlyDatastore(tenant, services);
  },
};

async function stop(tenant: Tenant, { driver }: Services): Promise<void> {
  // The rest of its components may still be starting.
  await tenant.components;
  await driver.stop(tenant.id, { signal: tenant.signal });
  const ended = 'It is asleep.';
  for (const type of ['APIServerReady', 'ControllerManagerReady'] as const)
    tenant.status.condition(type, 'False', 'Asleep', ended);
  tenant.status.set(({ sleep, ...status }) => ({ ...status, sleep: { ...sleep, stopped: true } }));
}

function isScheduledNow(tenant: Tenant, services: Services): boolean {
  const nowMs = services.clock.now();
  const { asleep, awake: by, problem } = sleepSchedule(tenant.vc, nowMs);
  if (problem !== undefined) tenant.notes.push(`It does not sleep as asked: ${problem}.`);
  if (asleep.nextMs !== undefined && by.nextMs === undefined && services.settings.gateway === undefined) {
    tenant.notes.push(
      'It does not sleep as asked: spec.sleep.at has no wakeAt, and there is no gateway that could wake it.',
    );
    return false;
  }
  if (tenant.vc.status?.phase !== 'Ready') return false;
  if (isSleepScheduled(tenant.vc, services)) return true;
  if (asleep.nextMs !== undefined) tenant.lookAgainMs = Math.min(tenant.lookAgainMs, asleep.nextMs - nowMs);
  return false;
}

interface Left {
  dueAt?: string;
  dueFor?: string;
  pods: number;
}

/** Whether it was not used for long enough. */
function isIdleNow(tenant: Tenant, services: Services): boolean {
  const atMs = idleAtMs(tenant.vc, services);
  if (atMs === undefined || tenant.vc.status?.phase !== 'Ready') return false;
  const nowMs = services.clock.now();
  if (atMs > nowMs) tenant.lookAgainMs = Math.min(tenant.lookAgainMs, atMs - nowMs);
  return atMs <= nowMs;
}

/** Says why it does not fall asleep, which costs nothing but an API server that runs, and looks again after the pause. */
function stayAwake(
  tenant: Tenant,
  { clock }: Pick<Services, 'clock'>,
  reason: keyof typeof reasons,
  { why, untilMs }: { why: string; untilMs: number },
): void {
  const againAfterMs = untilMs - clock.monotonic();
  tenant.notes.push(`It does not fall asleep: ${why}`);
  if (reason === 'Requested') tenant.unfinished = { step: 'sleep', failing: why, againAfterMs };
  else tenant.lookAgainMs = Math.min(tenant.lookAgainMs, againAfterMs);
}

function isTooMany(error: unknown): boolean {
  return error instanceof OperatorError && error.code === 'TooManySchedules';
}

/** Its controllers are about to remove a Job that is due already. */
const overdueMs = 60_000;
/** For the schedules of all CronJobs together, which are read in the one thread of the manager. */
const longestReadingMs = 2_000;
/** Only its admin can make them fewer. */
const tooManyAgainMs = 5 * 60_000;
/** Of what a date can be. */
const latestMs = 8.64e15;
/** As an API server lets objects be called. */
const objectName = /^[a-z0-9][-.a-z0-9]{0,252}$/;

/**
 * What is not to be missed while it sleeps: when a CronJob is to run or a Job to be removed, and how many pods run. To be
 * asked while its API server runs. Undefined: something is due before `untilMs`, where that is given; then a Job between
 * two tries is due, too. Throws TooManySchedules.
 */
async function whatIsLeft(
  tenant: Tenant,
  { clock }: Pick<Services, 'clock'>,
  { nowMs, signal, untilMs }: { nowMs: number; signal: AbortSignal; untilMs?: number },
): Promise<Left | undefined> {
  const { timeZone } = traitsOf(tenant.vc.status?.driver);
  let due: { ms: number; of?: KubeObject; kind?: string } = { ms: Number.POSITIVE_INFINITY };
  const isSoon = (): boolean => untilMs !== undefined && due.ms < untilMs;
  const known = new Map<string, number>();
  let schedules = 0;
  let readingMs = 0;
  for await (const page of pagesOf(tenant.client, resources.cronJobs, signal)) {
    const startedMs = clock.monotonic();
    for (const cronJob of page) {
      if (readingMs + clock.monotonic() - startedMs > longestReadingMs) throw tooManySchedules(schedules);
      schedules++;
      const ms = cronJobDueMs(cronJob, nowMs, timeZone, known) - leadMs(cronJob);
      if (ms < due.ms) due = { ms, of: cronJob, kind: 'CronJob' };
    }
    readingMs += clock.monotonic() - startedMs;
    if (isSoon()) return undefined;
  }
  for await (const page of pagesOf(tenant.client, resources.jobs, signal)) {
    for (const job of page) {
      // No pod runs whose end would wake the tenant.
      const isRetried = untilMs !== undefined && isInPodBackoff(job);
      const ms = isRetried ? nowMs : Math.max(jobDueMs(job), nowMs + overdueMs);
      if (ms < due.ms) due = { ms, of: job, kind: 'Job' };
    }
    if (isSoon()) return undefined;
  }
  let pods = 0;
  for await (const page of pagesOf(tenant.client, resources.pods, signal))
    for (const pod of page) if (hasRunSince(pod, nowMs)) pods++;
  if (due.ms > latestMs) return { pods };
  const { namespace = '', name = '' } = due.of?.metadata ?? {};
  // A tenant's API server may send anything.
  const isNamed = objectName.test(namespace) && objectName.test(name);
  const dueFor = isNamed ? `${due.kind} ${namespace}/${name}` : due.kind;
  return { pods, dueAt: new Date(due.ms).toISOString(), ...(dueFor !== undefined && { dueFor }) };
}

/** For all lists together: its API server may be slow, and say that there is always more. */
const longestVisitMs = 60_000;
