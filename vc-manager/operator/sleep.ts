import { annotationKeys } from '../../api/labels.ts';
import { activityLeaseName } from '../../api/names.ts';
import { newRequest, sleepAfterIdleMs } from '../../api/tenant-state.ts';
import type { VirtualCluster } from '../../api/virtual-cluster.ts';
import type { LeaseWakeReason, WakeReason } from '../../api/wake-reasons.ts';
import { findCondition, type KubeObject } from '../../kube/index.ts';
import { sleepSchedule } from './schedules.ts';
import type { Services } from './services.ts';

type SleepServices = Pick<Services, 'activity' | 'settings' | 'clock'>;

/** Whether its control plane is stopped, or about to be, because it is not needed. */
export function hasPhaseAsleep({ status }: VirtualCluster): boolean {
  return status?.phase === 'Asleep';
}

/** Value of the annotation that asks it to sleep, if it has not been followed yet. */
export function sleepRequest(vc: VirtualCluster): string | undefined {
  return newRequest(vc, annotationKeys.sleep, vc.status?.sleep?.slept);
}

/** The same of the annotation that asks it to wake. */
export function wakeRequest(vc: VirtualCluster): string | undefined {
  return newRequest(vc, annotationKeys.wake, vc.status?.sleep?.woken);
}

/** Whether one request of the two was made after the other: where both are the time, as the CLI writes it. */
export function isLaterRequest(request = '', other = ''): boolean {
  return isTime.test(request) && isTime.test(other) && Date.parse(request) > Date.parse(other);
}

const isTime = /^\d{4}-\d\d-\d\dT/;

/** Why one that is asleep is to wake: it was asked for, or it has no reason to sleep any more. Undefined: it sleeps on. */
export function wakeReason(vc: VirtualCluster, services: SleepServices): WakeReason | undefined {
  if (wakeRequest(vc) !== undefined) return 'Requested';
  const lease = leaseOf(vc, services);
  if (isWokenBy(lease, vc)) {
    const given = lease?.metadata.annotations?.[annotationKeys.wakeReason];
    return leaseReasons.find((each) => each === given) ?? 'Unknown';
  }
  const { since = '', reason, dueAt = '', dueFor } = vc.status?.sleep ?? {};
  if (Date.parse(dueAt) <= services.clock.now())
    return dueFor?.startsWith('Job') === true ? 'JobExpired' : 'CronJobDue';
  if (reason === 'Idle' && sleepAfterIdleMs(vc) === undefined) return 'SpecChanged';
  if (reason === 'Scheduled' && vc.spec?.sleep?.at === undefined) return 'SpecChanged';
  // One that was put to sleep on request wakes on request.
  if (reason === 'Requested') return undefined;
  const { awake } = sleepSchedule(vc, services.clock.now());
  return awake.lastMs !== undefined && awake.lastMs > Date.parse(since) ? 'Scheduled' : undefined;
}

const leaseReasons: readonly LeaseWakeReason[] = ['Connection', 'PodLost', 'TokenExpiring'];

/** Whether this Lease of its gateway or syncer asks one that is asleep to wake. */
export function isWokenBy(lease: KubeObject | undefined, { status }: VirtualCluster): boolean {
  // Both are written by this system, but the clocks of two machines may differ by a little.
  const requested = lease?.metadata.annotations?.[annotationKeys.wakeRequested] ?? '';
  return Date.parse(requested) > Date.parse(status?.sleep?.since ?? '') - clockSkewMs;
}

const clockSkewMs = 2_000;

/** Whether its schedule says that one that is awake is to sleep: it was neither created nor woken since the last time. */
export function isSleepScheduled(vc: VirtualCluster, { clock }: Pick<Services, 'clock'>): boolean {
  const { asleep, awake } = sleepSchedule(vc, clock.now());
  if (asleep.lastMs === undefined || asleep.lastMs < (awake.lastMs ?? 0)) return false;
  const { sleep } = vc.status ?? {};
  const upSince = [sleep?.wokenAt, vc.metadata.creationTimestamp].map((time) => Date.parse(time ?? '') || 0);
  return asleep.lastMs > Math.max(...upSince);
}

/**
 * When it may fall asleep by itself, as wall-clock time; undefined: never. Connections through the gateway are what
 * counts: managers, syncers and pods reach an API server without it.
 */
export function idleAtMs(vc: VirtualCluster, services: SleepServices): number | undefined {
  const idle = sleepAfterIdleMs(vc);
  // No connection could wake it.
  if (idle === undefined || services.settings.gateway === undefined) return undefined;
  const lease = leaseOf(vc, services)?.['spec'] as { renewTime?: string } | undefined;
  const ready = findCondition(vc.status?.conditions, 'Ready');
  const times = [lease?.renewTime, ready?.lastTransitionTime, vc.status?.sleep?.wokenAt].map((time) =>
    Date.parse(time ?? ''),
  );
  return Math.max(...times.filter((time) => !Number.isNaN(time)), 0) + idle;
}

function leaseOf({ status }: VirtualCluster, { activity, settings }: SleepServices) {
  if (status?.id === undefined) return undefined;
  return activity.get({ namespace: settings.namespace, name: activityLeaseName(status.id) });
}
