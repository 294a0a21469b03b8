/** Why a control plane that was asleep was started, as in `status.sleep.wokenBy`. */
export const wakeReasons = [
  'Connection',
  'PodLost',
  'TokenExpiring',
  'CronJobDue',
  'JobExpired',
  'Scheduled',
  'Requested',
  'SpecChanged',
  'VersionChange',
  'CertificateRenewal',
  'AuthorityRenewal',
  'KeyRotation',
  'Restore',
  'Move',
  'Unknown',
] as const;

export type WakeReason = (typeof wakeReasons)[number];

/** Those that gateway and syncer give, in the annotation `skerry.dev/wake-reason` of the activity Lease. */
export type LeaseWakeReason = Extract<WakeReason, 'Connection' | 'PodLost' | 'TokenExpiring'>;

/** In words. `about`: the CronJob or the Job, where one was due. */
export function wakeReasonText(reason: WakeReason, about?: string): string {
  const text = texts[reason];
  return about === undefined ? text : `${text}: ${about}`;
}

const texts: Record<WakeReason, string> = {
  Connection: 'a connection through the gateway',
  PodLost: 'a pod of it has ended or is gone',
  TokenExpiring: 'a token of one of its pods was about to end',
  CronJobDue: 'a CronJob was due',
  JobExpired: 'a finished Job was to be removed',
  Scheduled: 'spec.sleep.wakeAt',
  Requested: 'it was asked to wake (annotation skerry.dev/wake)',
  SpecChanged: 'spec.sleep does not put it to sleep any more',
  VersionChange: 'another version was asked for',
  CertificateRenewal: 'new certificates were asked for',
  AuthorityRenewal: 'new authorities were asked for',
  KeyRotation: 'another encryption key was asked for',
  Restore: 'a snapshot was to be put back',
  Move: 'it was to be moved',
  Unknown: 'the gateway or the syncer has asked, and not said why',
};
