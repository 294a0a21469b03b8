import { randomUUID } from 'node:crypto';
import type { CurrentJob, JobKind, JobStatus } from '../../api/job-status.ts';
import { annotationKeys } from '../../api/labels.ts';
import type { VirtualCluster } from '../../api/virtual-cluster.ts';
import {
  atStep,
  beginJob,
  cancelJob,
  changeCurrent,
  failAttempt,
  isSameJob,
  refuseCancel,
  replaceJob,
  succeedJob,
} from '../jobs/index.ts';
import type { Step } from './reconcile.ts';
import { ownsId } from './removal.ts';
import type { Services } from './services.ts';
import type { Tenant } from './tenant.ts';
import { versionChoice } from './version-choice.ts';

/** What is wanted for a VirtualCluster, by what stands in it. */
export interface WantedJob {
  kind: JobKind | 'look';
  /** Of a change of version: where to. */
  target?: string;
}

/** `look`: nothing long is known to be missing. */
export function wantedJob(vc: VirtualCluster, services: Services): WantedJob {
  const { metadata, status } = vc;
  const { clock } = services;
  if (metadata.deletionTimestamp !== undefined) return { kind: 'delete' };
  const current = status?.jobs?.current;
  if (status?.identities?.tenant === undefined || current?.kind === 'provision') return { kind: 'provision' };
  // It runs what it should; what is left to do is part of the change.
  if (current?.kind === 'version-change' && current.target !== undefined && current.target === status.version)
    return { kind: 'version-change', target: current.target };
  const target = targetVersion(vc, services);
  if (target !== undefined) return { kind: 'version-change', target };
  if (renewalRequest(vc) !== undefined) return { kind: 'renewal' };
  const isRenewal = current?.kind === 'renewal' || Date.parse(status.certificatesDue ?? '') <= clock.now();
  if (isRenewal && !isHeld(vc, 'renewal', clock.now())) return { kind: 'renewal' };
  return { kind: 'look' };
}

function targetVersion(vc: VirtualCluster, services: Services): string | undefined {
  try {
    return versionChoice(vc, services).change?.to;
  } catch {
    // The step that chooses says what is wrong.
    return undefined;
  }
}

const renewalPauseMs = 60 * 60_000;

/** Whether a cancelled job is not to begin again yet. */
export function isHeld({ metadata, status }: VirtualCluster, kind: JobKind, nowMs: number): boolean {
  const { held, renewalHeldUntil } = status?.jobs ?? {};
  if (kind === 'renewal') return nowMs < Date.parse(renewalHeldUntil ?? '');
  return held?.kind === kind && held.generation === metadata.generation;
}

export function isHeldChange(vc: VirtualCluster): boolean {
  return isHeld(vc, 'version-change', 0);
}

/** Whether somebody has asked for something that `settle` has not answered yet. */
export function hasJobRequests(vc: VirtualCluster): boolean {
  return retryRequest(vc) !== undefined || cancelRequest(vc) !== undefined;
}

/** Follows what people ask for by annotation: to try again, to cancel. Written before anything else is done. */
export async function applyJobRequests(tenant: Tenant, services: Services): Promise<void> {
  const { status } = tenant;
  const retry = retryRequest(tenant.vc);
  if (retry !== undefined) {
    status.set(({ phase, jobs: { held: _, renewalHeldUntil: __, ...jobs } = {}, ...rest }) => ({
      ...rest,
      ...(phase === undefined ? {} : { phase: phase === 'Cancelled' ? 'Pending' : phase }),
      jobs: { ...jobs, retried: retry },
    }));
  }
  const job = cancelRequest(tenant.vc);
  if (job !== undefined) await cancel(job, tenant, services);
  await status.flush();
}

function retryRequest(vc: VirtualCluster): string | undefined {
  return newRequest(vc, annotationKeys.retryJob, vc.status?.jobs?.retried);
}

/** The request for new certificates that was not followed yet. */
export function renewalRequest(vc: VirtualCluster): string | undefined {
  return newRequest(vc, annotationKeys.renewCertificates, vc.status?.jobs?.renewed);
}

function newRequest(
  { metadata }: VirtualCluster,
  key: string,
  followed: string | undefined,
): string | undefined {
  // As it comes back from the API server: half of a character would not, and never be followed.
  const value = metadata.annotations?.[key]?.slice(0, 64).toWellFormed();
  return value === followed ? undefined : value;
}

function cancelRequest({ metadata, status }: VirtualCluster): CurrentJob | undefined {
  const current = status?.jobs?.current;
  if (current === undefined || current.refusal !== undefined) return undefined;
  return metadata.annotations?.[annotationKeys.cancelJob] === current.id ? current : undefined;
}

async function cancel(job: CurrentJob, tenant: Tenant, services: Services): Promise<void> {
  const { status } = tenant;
  const why = refusal(job);
  if (why !== undefined) {
    status.set((old) => ({ ...old, jobs: refuseCancel(old.jobs, why) }));
    return;
  }
  const now = new Date(services.clock.now());
  const { generation } = tenant.vc.metadata;
  const held =
    job.kind === 'renewal'
      ? { renewalHeldUntil: new Date(now.getTime() + renewalPauseMs).toISOString() }
      : { held: { kind: job.kind, ...(generation === undefined ? {} : { generation }) } };
  if (job.kind === 'provision') {
    // What it has begun would go on, for nobody.
    const id = ownsId(tenant, services);
    if (id !== undefined) await services.driver.stop(id, { signal: tenant.signal });
    status.set({
      phase: 'Cancelled',
      ...(generation === undefined ? {} : { observedGeneration: generation }),
    });
    const message =
      'Its creation was cancelled. "vc-manager jobs retry" or a change of the spec begins it anew, "vc-manager delete" ends it.';
    status.condition('Ready', 'False', 'Cancelled', message);
  }
  // A request for new certificates is over with its job; those that are due are tried again.
  const renewed = job.kind === 'renewal' ? renewalRequest(tenant.vc) : undefined;
  status.set((old) => ({
    ...old,
    jobs: { ...cancelJob(old.jobs, now), ...held, ...(renewed === undefined ? {} : { renewed }) },
  }));
}

function refusal({ kind, replacing, target }: CurrentJob): string | undefined {
  if (kind === 'delete')
    return 'a deletion cannot be taken back: Kubernetes does not let go of it, and parts are gone';
  if (!replacing) return undefined;
  if (kind === 'renewal') return 'the new certificates are issued, and the control plane has to take them up';
  return (
    `the API server is being replaced by version ${target}. If that does not start, set spec.version back to the ` +
    'version that has run; once it is ready it stays'
  );
}

/** Before the API server is touched a change can be cancelled; one that never was touched too. */
export function recordReplacing(tenant: Tenant, replacing: boolean): void {
  tenant.status.set((old) => ({
    ...old,
    // A request that was refused for this is followed when it is no longer so.
    jobs: changeCurrent(old.jobs, (job) => {
      // A renewal has a say of its own.
      if (job.kind !== 'version-change') return job;
      const { replacing: _, refusal: why, ...current } = job;
      return replacing ? { ...current, replacing, ...(why === undefined ? {} : { refusal: why }) } : current;
    }),
  }));
}

/** Certificates are what they should be; what is left of a renewal is taking them up, and there is no way back. */
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

/**
 * Notes in the status how a job goes. Nothing is written for its own sake: what it notes goes with what the pass writes
 * in any case.
 */
export class JobLog {
  readonly #tenant: Tenant;
  readonly #services: Services;
  readonly #isJob: boolean;
  /** Where this pass has come to. */
  #step: Step | undefined;

  /** `isChoosing`: the leader only prepares it; whoever does it begins it. */
  constructor(tenant: Tenant, services: Services, wanted: WantedJob, isChoosing = false) {
    this.#tenant = tenant;
    this.#services = services;
    this.#isJob = wanted.kind !== 'look';
    const { kind, target } = wanted;
    const now = this.#now();
    if (kind === 'look') {
      // Left of what is not wanted any more.
      if (tenant.vc.status?.jobs?.current !== undefined) this.#set((jobs) => replaceJob(jobs, now));
      return;
    }
    if (isChoosing) return;
    const { identity, activeJobIds: begun } = services;
    const { current } = tenant.vc.status?.jobs ?? {};
    const isSame = current !== undefined && isSameJob(current, { kind, target });
    const id = isSame ? current.id : randomUUID().slice(0, 13);
    const continues = isSame && current.failing !== true && begun.has(id);
    begun.add(id);
    this.#set((jobs) => beginJob(jobs, { kind, target, id, holder: identity, now, continues }));
  }

  step(step: Step): void {
    const now = this.#now();
    this.#step = step;
    // What is written together is the last of them: a pass that comes to where one was before changes nothing.
    if (this.#isJob) this.#set((jobs) => atStep(jobs, this.#step ?? step, now));
    this.#tenant.onStep?.(step);
  }

  failed(message: string): void {
    if (!this.#isJob) return;
    this.#services.activeJobIds.delete(this.#tenant.vc.status?.jobs?.current?.id ?? '');
    this.#set((jobs) => failAttempt(jobs, message));
  }

  succeeded(): void {
    if (!this.#isJob) return;
    const now = this.#now();
    this.#services.activeJobIds.delete(this.#tenant.vc.status?.jobs?.current?.id ?? '');
    this.#set((jobs) => succeedJob(jobs, now));
  }

  #now(): Date {
    return new Date(this.#services.clock.now());
  }

  #set(change: (jobs: JobStatus | undefined) => JobStatus): void {
    this.#tenant.status.set((status) => ({ ...status, jobs: change(status.jobs) }));
  }
}
