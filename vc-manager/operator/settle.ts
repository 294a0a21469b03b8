import type { CurrentJob, JobKind } from '../../api/job-status.ts';
import { annotationKeys } from '../../api/labels.ts';
import type { VirtualCluster } from '../../api/virtual-cluster.ts';
import { cancelJob, changeCurrent, refuseCancel } from '../jobs/index.ts';
import { ownsId } from './removal/index.ts';
import type { Services } from './services.ts';
import type { Tenant } from './tenant.ts';

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
export function isUnsettled(vc: VirtualCluster): boolean {
  return retryAsked(vc) !== undefined || cancelAsked(vc) !== undefined;
}

/** Follows what people ask for by annotation: to try again, to cancel. Written before anything else is done. */
export async function settle(tenant: Tenant, services: Services): Promise<void> {
  const { status } = tenant;
  const retry = retryAsked(tenant.vc);
  if (retry !== undefined) {
    status.set(({ phase, jobs: { held: _, renewalHeldUntil: __, ...jobs } = {}, ...rest }) => ({
      ...rest,
      ...(phase === undefined ? {} : { phase: phase === 'Cancelled' ? 'Pending' : phase }),
      jobs: { ...jobs, retried: retry },
    }));
  }
  const job = cancelAsked(tenant.vc);
  if (job !== undefined) await cancel(job, tenant, services);
  await status.flush();
}

function retryAsked(vc: VirtualCluster): string | undefined {
  return asked(vc, annotationKeys.retryJob, vc.status?.jobs?.retried);
}

/** The request for new certificates that was not followed yet. */
export function renewalAsked(vc: VirtualCluster): string | undefined {
  return asked(vc, annotationKeys.renewCertificates, vc.status?.jobs?.renewed);
}

function asked({ metadata }: VirtualCluster, key: string, followed: string | undefined): string | undefined {
  // As it comes back from the API server: half of a character would not, and never be followed.
  const value = metadata.annotations?.[key]?.slice(0, 64).toWellFormed();
  return value === followed ? undefined : value;
}

function cancelAsked({ metadata, status }: VirtualCluster): CurrentJob | undefined {
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
  const renewed = job.kind === 'renewal' ? renewalAsked(tenant.vc) : undefined;
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
export function noteReplacing(tenant: Tenant, replacing: boolean): void {
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
export function noteRenewed(tenant: Tenant, request: string | undefined): void {
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
