import { annotationKeys } from '../../../api/labels.ts';
import { hasRunSince } from '../../../api/running-pods.ts';
import { sleepAfterIdleMs } from '../../../api/virtual-cluster.ts';
import { type KubeObject, type Resource, resources } from '../../../kube/index.ts';
import { CallTimeBudget } from '../call-time-budget.ts';
import { cronJobDueMs, isBetweenTries, jobDueMs, leadMs } from '../due-times.ts';
import { explain } from '../errors.ts';
import { authorityRequest } from '../jobs.ts';
import { storedRequest } from '../requests.ts';
import type { Services } from '../services.ts';
import { idleAtMs, isAsleep, isSleepScheduled, sleepRequest } from '../sleep.ts';
import { sleepSchedule } from '../sleep-schedule.ts';
import type { Step } from '../step-runner.ts';
import type { Tenant } from '../tenant.ts';
import { ensureOnlyDatastore } from './control-plane.ts';

/** Its API server answers: whoever waits for it need not wait for the rest. */
export const awake: Step = {
  name: 'awake',
  doing: 'Letting its clients in',
  async run(tenant, services) {
    // One that failed to wake up is in another phase by now.
    if (!isAsleep(tenant.vc) && tenant.vc.status?.sleep?.since === undefined) return;
    // A request to sleep from before is followed, or it would be for the next time.
    const { [annotationKeys.sleep]: slept, [annotationKeys.wake]: woken } =
      tenant.vc.metadata.annotations ?? {};
    tenant.status.set(({ sleep: { slept: before, woken: earlier } = {}, ...status }) => ({
      ...status,
      phase: 'Ready',
      sleep: {
        ...(before !== undefined && { slept: before }),
        ...(earlier !== undefined && { woken: earlier }),
        wokenAt: new Date(services.clock.now()).toISOString(),
        ...requests({ slept, woken }),
      },
    }));
    tenant.status.condition('Ready', 'True', 'Available', 'It is awake; the controllers are starting.');
    await tenant.status.flush();
  },
};

/** The last step of a reconcile that found everything well: stops it when that is asked for, or nobody uses it. */
export const fallAsleep: Step = {
  name: 'sleep',
  doing: 'Stopping the control plane until somebody needs it',
  async run(tenant, services) {
    const request = sleepRequest(tenant.vc);
    const { unfinished, vc } = tenant;
    // New authorities would wake it at once.
    const isRenewing = authorityRequest(vc) !== undefined || vc.status?.authorities !== undefined;
    if (unfinished !== undefined && (unfinished.maySleep !== true || isRenewing)) return;
    const isScheduled = isScheduledNow(tenant, services);
    const reason = request !== undefined ? 'Requested' : isScheduled ? 'Scheduled' : 'Idle';
    const woken = tenant.vc.metadata.annotations?.[annotationKeys.wake];
    const nowMs = services.clock.now();
    const startedMs = services.clock.monotonic();
    let left: Left | undefined;
    try {
      left = await new CallTimeBudget(longestVisitMs).within(tenant.signal, (signal) =>
        reason === 'Idle' ? leftByIdle(tenant, services, signal) : whatIsLeft(tenant, nowMs, signal),
      );
    } catch (error) {
      if (tenant.signal.aborted) throw error;
      // Nobody could tell when it is needed. Others wait for this worker, too.
      const againAfterMs = Math.max(10_000, 5 * (services.clock.monotonic() - startedMs));
      tenant.unfinished = { step: 'sleep', failing: explain(error, tenant).message, againAfterMs };
      return;
    }
    if (left === undefined) return;
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
  Idle: 'Nobody has used it for a while',
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

/** Of one that is asleep: stops what a manager that has died left running. */
export const stayAsleep: Step = {
  name: 'sleep',
  doing: 'Stopping the control plane until somebody needs it',
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
  pods: number;
}

/**
 * What `whatIsLeft` says of one that nobody has used for long enough; undefined: it stays awake. So it does where that
 * cannot be told, which costs nothing but an API server that runs. Throws when the answers come too late.
 */
async function leftByIdle(
  tenant: Tenant,
  services: Services,
  signal: AbortSignal,
): Promise<Left | undefined> {
  const atMs = idleAtMs(tenant.vc, services);
  if (atMs === undefined || tenant.vc.status?.phase !== 'Ready') return undefined;
  const nowMs = services.clock.now();
  if (atMs > nowMs) {
    tenant.lookAgainMs = Math.min(tenant.lookAgainMs, atMs - nowMs);
    return undefined;
  }
  let left: Left;
  try {
    left = await whatIsLeft(tenant, nowMs, signal, { retriesAreDue: true });
  } catch (error) {
    if (signal.aborted) throw error;
    return undefined;
  }
  // It would be awake for longer than asleep: once woken it stays so for that time.
  const dueInMs = Date.parse(left.dueAt ?? '') - nowMs;
  return dueInMs < (sleepAfterIdleMs(tenant.vc) ?? 0) ? undefined : left;
}

/** Its controllers are about to remove a Job that is due already. */
const overdueMs = 60_000;
/** Of more than so many the first is not far off; to read each takes milliseconds. */
const mostSchedules = 1_000;
/** Of what a date can be. */
const latestMs = 8.64e15;

/**
 * What is not to be missed while it sleeps: when a CronJob is to run or a Job to be removed, and how many pods run. To be
 * asked while its API server runs.
 */
async function whatIsLeft(
  tenant: Tenant,
  nowMs: number,
  signal: AbortSignal,
  { retriesAreDue = false } = {},
): Promise<Left> {
  // Containers have no other one; processes have that of the machine, as this one has.
  const timeZone = tenant.vc.status?.driver === 'process' ? undefined : 'UTC';
  let dueMs = Number.POSITIVE_INFINITY;
  let schedules = 0;
  const visit = visitor(tenant, signal);
  await visit(resources.cronJobs, (cronJob) => {
    if (schedules++ < mostSchedules)
      dueMs = Math.min(dueMs, cronJobDueMs(cronJob, nowMs, timeZone) - leadMs(cronJob));
  });
  await visit(resources.jobs, (job) => {
    // No pod runs whose end would wake the tenant.
    if (retriesAreDue && isBetweenTries(job)) dueMs = nowMs;
    dueMs = Math.min(dueMs, Math.max(jobDueMs(job), nowMs + overdueMs));
  });
  let pods = 0;
  await visit(resources.pods, (pod) => {
    if (hasRunSince(pod, nowMs)) pods++;
  });
  return { pods, ...(dueMs <= latestMs && { dueAt: new Date(dueMs).toISOString() }) };
}

const pageSize = 100;
const mostPages = 10_000;
/** For all lists together: its API server may be slow, and say that there is always more. */
const longestVisitMs = 60_000;

/** Lists page by page: a list as a whole may be larger than what is read of one. Throws what a client throws, RangeError. */
function visitor(
  { client }: Tenant,
  signal: AbortSignal,
): (resource: Resource, see: (object: KubeObject) => void) => Promise<void> {
  return async (resource, see) => {
    let token: string | undefined;
    for (let page = 0; page < mostPages; page++) {
      const { items, metadata } = await client.list(resource, {
        ...{ limit: pageSize, signal },
        ...(token !== undefined && { continue: token }),
      });
      for (const item of items) see(item);
      token = metadata.continue;
      if (!token) return;
    }
    throw new RangeError(`its list of ${resource.plural} has no end`);
  };
}
