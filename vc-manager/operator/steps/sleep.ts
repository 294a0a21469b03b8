import { annotationKeys } from '../../../api/labels.ts';
import { type KubeObject, type Resource, resources } from '../../../kube/index.ts';
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
    tenant.status.set(({ sleep: { since: _, reason: __, stopped: ___, ...sleep } = {}, ...status }) => ({
      ...status,
      phase: 'Ready',
      sleep: {
        ...sleep,
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
    if (tenant.unfinished !== undefined) return;
    const isScheduled = isScheduledNow(tenant, services);
    if (request === undefined && !isScheduled && !(await isIdle(tenant, services))) return;
    const reason = request !== undefined ? 'Requested' : isScheduled ? 'Scheduled' : 'Idle';
    const woken = tenant.vc.metadata.annotations?.[annotationKeys.wake];
    const since = new Date(services.clock.now()).toISOString();
    tenant.status.set(({ sleep, ...status }) => ({
      ...status,
      phase: 'Asleep',
      sleep: { ...sleep, since, reason, ...requests({ slept: request, woken }) },
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
    if (tenant.vc.status?.sleep?.reason === 'Requested') return;
    const nowMs = services.clock.now();
    const { awake: by } = sleepSchedule(tenant.vc, nowMs);
    if (by.nextMs !== undefined) tenant.lookAgainMs = Math.min(tenant.lookAgainMs, by.nextMs - nowMs);
  },
};

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
  const { asleep, problem } = sleepSchedule(tenant.vc, nowMs);
  if (problem !== undefined) tenant.notes.push(`It does not sleep as asked: ${problem}.`);
  if (tenant.vc.status?.phase !== 'Ready') return false;
  if (isSleepScheduled(tenant.vc, services)) return true;
  if (asleep.nextMs !== undefined) tenant.lookAgainMs = Math.min(tenant.lookAgainMs, asleep.nextMs - nowMs);
  return false;
}

async function isIdle(tenant: Tenant, services: Services): Promise<boolean> {
  const atMs = idleAtMs(tenant.vc, services);
  if (atMs === undefined || tenant.vc.status?.phase !== 'Ready') return false;
  const leftMs = atMs - services.clock.now();
  if (leftMs > 0) {
    tenant.lookAgainMs = Math.min(tenant.lookAgainMs, leftMs);
    return false;
  }
  return !(await isBusyByItself(tenant));
}

/**
 * Whether its controllers have something to do at a later time, which they would miss. What cannot be told counts as
 * yes: it costs nothing but an API server that runs.
 */
async function isBusyByItself(tenant: Tenant): Promise<boolean> {
  const some = async (resource: Resource, is: (object: KubeObject) => boolean): Promise<boolean> => {
    const { items } = await tenant.client.list(resource, { signal: tenant.signal });
    return items.some(is);
  };
  try {
    return (
      (await some(resources.cronJobs, ({ spec }) => (spec as { suspend?: boolean })?.suspend !== true)) ||
      (await some(
        resources.jobs,
        ({ spec }) =>
          typeof (spec as { ttlSecondsAfterFinished?: number })?.ttlSecondsAfterFinished === 'number',
      ))
    );
  } catch (error) {
    if (tenant.signal.aborted) throw error;
    return true;
  }
}
