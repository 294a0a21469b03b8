import { randomUUID } from 'node:crypto';
import type { CurrentJob, JobKind, JobStatus } from '../../api/job-status.ts';
import { annotationKeys } from '../../api/labels.ts';
import { newRequest } from '../../api/tenant-state.ts';
import type { VirtualCluster } from '../../api/virtual-cluster.ts';
import type { WakeReason } from '../../api/wake-reasons.ts';
import { withoutUndefined } from '../../kube/index.ts';
import {
  beginJob,
  cancelJob,
  changeCurrent,
  failAttempt,
  isHeld,
  isSameJob,
  refuseCancel,
  replaceJob,
  startStep,
  succeedJob,
} from '../jobs/job-status.ts';
import { cancelledAuthorities, cancelledRotation, encryptionData } from '../pki/index.ts';
import { placementText, wantedMove } from './moves.ts';
import type { Services } from './services.ts';
import { hasPhaseAsleep, sleepRequest, wakeReason } from './sleep.ts';
import { isRestoreWanted, isSnapshotWanted, restoreRequest, snapshotRequest } from './snapshots.ts';
import type { Tenant } from './tenant.ts';
import { readInternalSecret, writeInternalSecret } from './tenant-secrets.ts';
import { versionChoice } from './version-choice.ts';

/** The long operation that a VirtualCluster needs, read from its spec, status and annotations. */
export interface WantedJob {
  kind: JobKind | 'look';
  /** Of a change of version: where to. */
  target?: string;
}

/** `look`: no long operation is known to be needed; the reconcile finds out. */
export function wantedJob(vc: VirtualCluster, services: Services): WantedJob {
  const { metadata, status } = vc;
  const { clock } = services;
  if (metadata.deletionTimestamp !== undefined) return { kind: 'delete' };
  const current = status?.jobs?.current;
  const { move } = status ?? {};
  if (move !== undefined && move.stage !== 'returning')
    return { kind: 'move', target: placementText(move.to) };
  if (isRestoreWanted(vc)) return { kind: 'restore' };
  const isSnapshot = isSnapshotWanted(vc, clock.now());
  const toBegin = move === undefined ? wantedMove(vc, services) : undefined;
  const moveJob =
    toBegin === undefined || toBegin.refusal !== undefined
      ? undefined
      : ({ kind: 'move', target: placementText(toBegin.to) } as const);
  if (hasPhaseAsleep(vc)) {
    if (wantedWake(vc, services) !== undefined) return { kind: 'wake' };
    return moveJob ?? { kind: isSnapshot ? 'snapshot' : (doneJob(vc) ?? 'look') };
  }
  if (current?.kind === 'wake') return { kind: 'wake' };
  if (status?.identities?.tenant === undefined || current?.kind === 'provision') return { kind: 'provision' };
  // The new version runs; the steps that are left belong to the change.
  if (current?.kind === 'version-change' && current.target !== undefined && current.target === status.version)
    return { kind: 'version-change', target: current.target };
  const target = targetVersion(vc, services);
  if (target !== undefined) return { kind: 'version-change', target };
  if (moveJob !== undefined) return moveJob;
  if (isSnapshot) return { kind: 'snapshot' };
  if (sleepRequest(vc) !== undefined) return { kind: 'sleep' };
  if (authorityRequest(vc) !== undefined || status.authorities !== undefined)
    return { kind: 'authority-renewal' };
  if (renewalRequest(vc) !== undefined) return { kind: 'renewal' };
  if (rotationRequest(vc) !== undefined || status.encryption?.rotation !== undefined)
    return { kind: 'key-rotation' };
  const isRenewal = current?.kind === 'renewal' || Date.parse(status.certificatesDue ?? '') <= clock.now();
  if (isRenewal && !isHeld(vc, 'renewal', clock.now())) return { kind: 'renewal' };
  return { kind: doneJob(vc) ?? 'look' };
}

/**
 * The kind of the current job when what it was begun for is in the status already, and its manager was killed before it came
 * to the end: the steps that are left belong to it. Else a job that nothing asks for any more ends as cancelled.
 */
function doneJob(vc: VirtualCluster): JobKind | undefined {
  const { jobs, snapshots } = vc.status ?? {};
  const current = jobs?.current;
  if (current === undefined || current.failing === true) return undefined;
  const { kind, startedAt } = current;
  const isDone =
    (kind === 'sleep' && hasPhaseAsleep(vc)) ||
    (kind === 'snapshot' && snapshots?.kept?.some(({ at }) => Date.parse(at) >= Date.parse(startedAt))) ||
    (kind === 'key-rotation' &&
      vc.metadata.annotations?.[annotationKeys.rotateEncryptionKey] !== undefined &&
      rotationRequest(vc) === undefined);
  return isDone === true ? kind : undefined;
}

/**
 * Why one that is asleep is to be started: it is woken, or to be changed, for which its control plane has to run.
 * Undefined: it sleeps on.
 */
export function wantedWake(vc: VirtualCluster, services: Services): WakeReason | undefined {
  const woken = wakeReason(vc, services);
  if (woken !== undefined) return woken;
  if (targetVersion(vc, services) !== undefined) return 'VersionChange';
  if (renewalRequest(vc) !== undefined) return 'CertificateRenewal';
  if (authorityRequest(vc) !== undefined) return 'AuthorityRenewal';
  // One that has begun waits until what refuses Secrets is mended: else it would not have fallen asleep.
  const isRotation = rotationRequest(vc) !== undefined && vc.status?.encryption?.rotation === undefined;
  return isRotation ? 'KeyRotation' : undefined;
}

/** Notes why one that is asleep is being started. To be called before what asks for it is followed. */
export function recordWake(tenant: Tenant, services: Services): void {
  const { vc } = tenant;
  const wokenBy = wantedWake(vc, services) ?? (isRestoreWanted(vc) ? 'Restore' : 'Move');
  tenant.status.set(({ sleep: { wokenAt: _, wokenFor: __, ...sleep } = {}, ...status }) => {
    const isDue = wokenBy === 'CronJobDue' || wokenBy === 'JobExpired';
    const wokenFor = isDue ? sleep.dueFor : undefined;
    return { ...status, sleep: { ...sleep, wokenBy, ...(wokenFor !== undefined && { wokenFor }) } };
  });
}

function targetVersion(vc: VirtualCluster, services: Services): string | undefined {
  try {
    return versionChoice(vc, services).change?.to;
  } catch {
    // The step `version` reports what is wrong.
    return undefined;
  }
}

const renewalPauseMs = 60 * 60_000;

/** Whether an annotation asks for something that `applyJobRequests` has not recorded in the status yet. */
export function hasJobRequests(vc: VirtualCluster): boolean {
  return retryRequest(vc) !== undefined || cancelRequest(vc) !== undefined;
}

/** Follows the annotations that retry or cancel a job, and writes the status before anything else is done. */
export async function applyJobRequests(tenant: Tenant, services: Services): Promise<void> {
  const { status } = tenant;
  const retry = retryRequest(tenant.vc);
  if (retry !== undefined) {
    // It says why the move went back that is tried again now.
    if (isHeld(tenant.vc, 'move', services.clock.now())) status.dropCondition('Placed');
    // Why a version was refused that is tried again now. No step would say it anew of one that is asleep.
    if (!hasPhaseAsleep(tenant.vc)) status.dropCondition('VersionCurrent');
    status.set(
      ({ phase, jobs: { held: _, heldMove: __, renewalHeldUntil: ___, ...jobs } = {}, ...rest }) => ({
        ...rest,
        ...(phase === undefined ? {} : { phase: phase === 'Cancelled' ? 'Pending' : phase }),
        jobs: { ...jobs, retried: retry },
      }),
    );
  }
  const job = cancelRequest(tenant.vc);
  if (job !== undefined) await cancel(job, tenant, services);
  await status.flush();
}

function retryRequest(vc: VirtualCluster): string | undefined {
  return newRequest(vc, annotationKeys.retryJob, vc.status?.jobs?.retried);
}

const requests = [
  annotationKeys.cancelJob,
  annotationKeys.retryJob,
  annotationKeys.renewCertificates,
  annotationKeys.renewAuthorities,
  annotationKeys.rotateEncryptionKey,
  annotationKeys.snapshot,
  annotationKeys.restore,
  annotationKeys.sleep,
  annotationKeys.wake,
  annotationKeys.warmFor,
];

/** Whether the spec, the deletion or a request by annotation has changed: work under way may be for the old state. */
export function isDesiredStateChanged(
  { metadata }: VirtualCluster,
  { metadata: before }: VirtualCluster,
): boolean {
  return (
    metadata.generation !== before.generation ||
    metadata.deletionTimestamp !== before.deletionTimestamp ||
    requests.some((key) => metadata.annotations?.[key] !== before.annotations?.[key])
  );
}

/** Value of the annotation that asks for new certificates, if it has not been followed yet. */
export function renewalRequest(vc: VirtualCluster): string | undefined {
  return newRequest(vc, annotationKeys.renewCertificates, vc.status?.jobs?.renewed);
}

/** Value of the annotation that asks for new authorities, until the old ones are gone or the renewal is cancelled. */
export function authorityRequest(vc: VirtualCluster): string | undefined {
  return newRequest(vc, annotationKeys.renewAuthorities, vc.status?.jobs?.authorities);
}

/** Value of the annotation that asks for a new encryption key, until the rotation is finished or cancelled. */
export function rotationRequest(vc: VirtualCluster): string | undefined {
  return newRequest(vc, annotationKeys.rotateEncryptionKey, vc.status?.jobs?.rotated);
}

function cancelRequest({ metadata, status }: VirtualCluster): CurrentJob | undefined {
  const current = status?.jobs?.current;
  if (current === undefined || current.refusal !== undefined) return undefined;
  return metadata.annotations?.[annotationKeys.cancelJob] === current.id ? current : undefined;
}

async function cancel(job: CurrentJob, tenant: Tenant, services: Services): Promise<void> {
  const { status } = tenant;
  const rotated = job.kind === 'key-rotation' ? await cancelRotation(tenant, services) : undefined;
  const authorities =
    job.kind === 'authority-renewal' ? await cancelAuthorities(tenant, services) : undefined;
  const isLate = job.kind === 'authority-renewal' && authorities === undefined;
  const why =
    job.kind === 'key-rotation' && rotated === undefined
      ? isWriting
      : isLate
        ? isSigning
        : refusal(job, tenant.vc);
  if (why !== undefined) {
    status.set((old) => ({ ...old, jobs: refuseCancel(old.jobs, why) }));
    return;
  }
  const now = new Date(services.clock.now());
  const { generation } = tenant.vc.metadata;
  const held =
    job.kind === 'renewal'
      ? { renewalHeldUntil: new Date(now.getTime() + renewalPauseMs).toISOString() }
      : isByRequest(job)
        ? {}
        : holdOf(job.kind, generation);
  if (job.kind === 'provision') {
    // Components that were started would go on running.
    // Written before anything is started. The annotation is the user's.
    const { id } = tenant.vc.status ?? {};
    if (id !== undefined) await services.driver.stop(id, { signal: tenant.signal });
    status.set({ phase: 'Cancelled', ...withoutUndefined({ observedGeneration: generation }) });
    const message =
      'Its creation was cancelled. "vc-manager jobs retry" or a change of the spec begins it anew, "vc-manager delete" ends it.';
    status.condition('Ready', 'False', 'Cancelled', message);
  }
  endRequest(job, tenant, now);
  if (job.kind === 'move')
    status.set(({ move, ...old }) => ({ ...old, ...(move && { move: { ...move, stage: 'returning' } }) }));
  // The request for new certificates ends with its job; certificates that are due are renewed after a pause.
  const renewed = job.kind === 'renewal' ? renewalRequest(tenant.vc) : undefined;
  status.set((old) => ({
    ...old,
    jobs: {
      ...cancelJob(old.jobs, now),
      ...held,
      ...withoutUndefined({ renewed, rotated, authorities }),
    },
  }));
}

/**
 * Ends a move while the old place serves: the next steps remove what was prepared. It is not held back: it begins anew when
 * the spec asks for it and the policy allows it.
 */
export async function withdrawMove(tenant: Tenant, services: Services, why: string): Promise<void> {
  const now = new Date(services.clock.now());
  tenant.status.set(({ move, jobs: { heldMove: _, ...jobs } = {}, ...status }) => ({
    ...status,
    ...(move && { move: { ...move, stage: 'returning' } }),
    // A hold of an earlier move would be the reason of this one.
    jobs: jobs.current?.kind === 'move' ? cancelJob(jobs, now, why) : jobs,
  }));
  await tenant.status.flush();
}

/** What keeps a job from beginning again, as `isHeld` reads it. `why`: absent when it was cancelled on request. */
function holdOf(kind: JobKind, generation?: number, why?: string): Pick<JobStatus, 'held' | 'heldMove'> {
  const hold = { ...(generation !== undefined && { generation }), ...(why !== undefined && { why }) };
  return kind === 'move' ? { heldMove: hold } : { held: { kind, ...hold } };
}

/** Another request begins it anew: nothing has to hold it back. */
function isByRequest({ kind }: CurrentJob): boolean {
  return kind === 'key-rotation' || kind === 'authority-renewal' || kind === 'snapshot' || kind === 'restore';
}

function endRequest({ kind }: CurrentJob, { vc, status }: Tenant, now: Date): void {
  if (kind === 'snapshot') {
    const request = snapshotRequest(vc);
    const ended = request === undefined ? { tried: now.toISOString() } : { taken: request };
    status.set((old) => ({ ...old, snapshots: { ...old.snapshots, ...ended } }));
  }
  const restore = kind === 'restore' ? restoreRequest(vc) : undefined;
  if (restore !== undefined)
    status.set({ restored: { ...restore, at: now.toISOString(), refused: 'Cancelled on request.' } });
}

const isWriting =
  'encryption is being switched on, or Secrets are written with the new key already and have to be rewritten before ' +
  'the old one can go';

/**
 * Takes back a rotation in the PKI Secret, before the status says that it is cancelled. Returns the request that has
 * ended with it; undefined when it cannot be taken back.
 */
async function cancelRotation(tenant: Tenant, services: Services): Promise<string | undefined> {
  const stored = await readInternalSecret(tenant, services, 'pki');
  const state = cancelledRotation(stored, rotationRequest(tenant.vc));
  if (stored === undefined || state?.followed === undefined) return undefined;
  await writeInternalSecret(tenant, services, 'pki', { ...stored, ...encryptionData(state) });
  return state.followed;
}

const isSigning =
  'the new authorities sign already. They stay, and the old ones go at the end of the overlap: to have others, ask for new ones again';

/** The same for a renewal of the authorities. */
async function cancelAuthorities(tenant: Tenant, services: Services): Promise<string | undefined> {
  const stored = await readInternalSecret(tenant, services, 'pki');
  const cancelled = stored && cancelledAuthorities(stored, authorityRequest(tenant.vc));
  if (cancelled === undefined) return undefined;
  await writeInternalSecret(tenant, services, 'pki', cancelled.data);
  return cancelled.followed;
}

function refusal({ kind, replacing, target }: CurrentJob, { status }: VirtualCluster): string | undefined {
  if (kind === 'restore' && status?.restore !== undefined)
    return 'what the tenant has is being replaced; to go back, restore the snapshot that was taken before';
  if (kind === 'move' && status?.move !== undefined && status.move.stage !== 'preparing')
    return 'its old control plane is stopped; it comes back by itself if the new one does not start, and later it can be moved back';
  if (kind === 'delete')
    return 'a deletion cannot be taken back: Kubernetes does not let go of it, and parts are gone';
  if (kind === 'sleep')
    return 'its control plane is being stopped: "vc-manager wake" has it stay awake, or wake up again';
  if (kind === 'wake') return 'the tenant is in use: put it to sleep when it is awake';
  if (!replacing) return undefined;
  if (kind === 'renewal') return 'the new certificates are issued, and the control plane has to take them up';
  return (
    `the API server is being replaced by version ${target}. If that does not start, the one that has run comes back by ` +
    'itself; once it is ready it stays'
  );
}

/** Notes whether the API server is being replaced: from then on a change of version cannot be cancelled. */
export function recordReplacing(tenant: Tenant, replacing: boolean): void {
  tenant.status.set((old) => ({
    ...old,
    // Without `refusal` a cancel request that was refused for this reason is followed.
    jobs: changeCurrent(old.jobs, (job) => {
      if (job.kind !== 'version-change') return job;
      const { replacing: _, refusal: why, ...current } = job;
      return replacing ? { ...current, replacing, ...(why === undefined ? {} : { refusal: why }) } : current;
    }),
  }));
}

/**
 * Notes that what a job does cannot be done, as a new version that does not start or a move that fails: the next reconcile
 * goes back to what was before, and it stays so until it is asked for again.
 */
export function recordHeld(
  tenant: Tenant,
  { clock }: Pick<Services, 'clock'>,
  kind: 'version-change' | 'move',
  why: string,
): void {
  const { generation } = tenant.vc.metadata;
  tenant.status.set((old) => ({
    ...old,
    jobs: {
      ...replaceJob(failAttempt(old.jobs, why), new Date(clock.now())),
      ...holdOf(kind, generation, why.slice(0, 1_000)),
    },
  }));
}

/** Notes that new certificates are issued: the control plane has to load them, so the renewal cannot be cancelled. */
export function recordRenewed(tenant: Tenant, request: string | undefined): void {
  tenant.status.set((old) => ({
    ...old,
    jobs: {
      ...changeCurrent(old.jobs, (current) =>
        current.kind === 'renewal' ? { ...current, replacing: true } : current,
      ),
      ...(request === undefined ? {} : { renewed: request }),
    },
  }));
}

/** Notes that the renewal of the authorities that this request asks for has come to its end. */
export function recordAuthorities(tenant: Tenant, request: string | undefined): void {
  if (request === undefined) return;
  tenant.status.set((old) => ({ ...old, jobs: { ...old.jobs, authorities: request } }));
}

/** Notes that the rotation that this request asks for has come to its end; undefined: none was asked for. */
export function recordRotated(tenant: Tenant, request: string | undefined): void {
  if (request === undefined) return;
  tenant.status.set((old) => ({ ...old, jobs: { ...old.jobs, rotated: request } }));
}

/** What the job that is under way says about how far it is. */
export function recordProgress(tenant: Tenant, message: string): void {
  tenant.status.set((old) => ({
    ...old,
    jobs: changeCurrent(old.jobs, (current) => ({ ...current, message })),
  }));
}

interface JobStep {
  name: string;
  doing: string;
}

/**
 * Records the progress of a job in the status. It never flushes: its changes are written together with those of the
 * steps.
 */
export class JobLog {
  readonly #tenant: Tenant;
  readonly #services: Services;
  readonly #isJob: boolean;
  /** The last step that was begun. */
  #step: JobStep | undefined;

  /** `isAllocating`: the leader only allocates; the manager that takes the job begins it. */
  constructor(tenant: Tenant, services: Services, wanted: WantedJob, isAllocating = false) {
    this.#tenant = tenant;
    this.#services = services;
    this.#isJob = wanted.kind !== 'look';
    const { kind, target } = wanted;
    const now = this.#now();
    const { identity, activeJobs } = services;
    if (kind === 'look') {
      activeJobs.delete(tenant.uid);
      // A job that is not needed any more.
      if (tenant.vc.status?.jobs?.current !== undefined) this.#set((jobs) => replaceJob(jobs, now));
      return;
    }
    if (isAllocating) return;
    const { current } = tenant.vc.status?.jobs ?? {};
    const isSame = current !== undefined && isSameJob(current, { kind, target });
    const id = isSame ? current.id : randomUUID().slice(0, 13);
    const continues = isSame && current.failing !== true && activeJobs.get(tenant.uid) === id;
    activeJobs.set(tenant.uid, id);
    this.#set((jobs) => beginJob(jobs, { kind, target, id, holder: identity, now, continues }));
  }

  step(step: JobStep): void {
    const now = this.#now();
    this.#step = step;
    // Evaluated when the status is written: steps that end between two writes leave no trace.
    if (this.#isJob) this.#set((jobs) => startStep(jobs, this.#step ?? step, now));
    this.#tenant.onStep?.(step);
  }

  /** `step`: where, if not at the last one that was begun. */
  failed(message: string, step?: string): void {
    if (!this.#isJob) return;
    this.#services.activeJobs.delete(this.#tenant.uid);
    this.#set((jobs) => {
      const failed = failAttempt(jobs, message);
      return step === undefined ? failed : changeCurrent(failed, (current) => ({ ...current, step }));
    });
  }

  succeeded(): void {
    if (!this.#isJob) return;
    const now = this.#now();
    this.#services.activeJobs.delete(this.#tenant.uid);
    this.#set((jobs) => succeedJob(jobs, now, this.#tenant.jobMessage));
  }

  #now(): Date {
    return new Date(this.#services.clock.now());
  }

  #set(change: (jobs: JobStatus | undefined) => JobStatus): void {
    this.#tenant.status.set((status) => ({ ...status, jobs: change(status.jobs) }));
  }
}
