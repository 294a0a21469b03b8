import type { VirtualCluster, VirtualClusterPhase } from '../../api/virtual-cluster.ts';
import { Connection, type ConnectionOptions, isNotFound, KubeClient, resources } from '../../kube/index.ts';
import type { Fence, Job, JobRun, Outcome } from '../jobs/index.ts';
import { explain } from './errors.ts';
import { assertHeld } from './fencing.ts';
import { applyJobRequests, hasJobRequests, isHeld, JobLog, type WantedJob, wantedJob } from './jobs.ts';
import { removalSteps } from './removal.ts';
import type { Services } from './services.ts';
import { StatusWriter } from './status-writer.ts';
import { parallel, runSteps, type Stage, type StepHooks } from './step-runner.ts';
import { address } from './steps/address.ts';
import { bootstrap } from './steps/bootstrap.ts';
import { certificates, credentials } from './steps/certificates.ts';
import { controllers, controlPlane, datastore } from './steps/control-plane.ts';
import { dns } from './steps/dns.ts';
import { identity } from './steps/identity.ts';
import { policy } from './steps/policy.ts';
import { reservations, serviceSlice } from './steps/service-slice.ts';
import { version } from './steps/version.ts';
import { Tenant } from './tenant.ts';

export type { Step } from './step-runner.ts';
export { runEach as runStages, type Stage, StepError as StepFailed } from './step-runner.ts';
export { uidOfKubeSystem } from './steps/bootstrap.ts';

/** What there may be only one of: chosen, and written down, before anything is made. */
export const allocationSteps: readonly Stage[] = [policy, identity, version, address, serviceSlice];

/**
 * From a VirtualCluster to a control plane that can be used. Who waits for one waits for its API server: controllers
 * start while the rest is done, and are waited for at the end.
 */
export const provisionSteps: readonly Stage[] = [
  ...allocationSteps,
  parallel([reservations, certificates], [datastore]),
  controlPlane,
  bootstrap,
  dns,
  credentials,
  controllers,
];

export interface ReconcileOptions extends JobRun {
  services: Services;
  /** Asked before anything is changed. */
  fence: Fence;
  connect?: ((options: ConnectionOptions) => KubeClient) | undefined;
}

/** Looks at a VirtualCluster as it stands and does what is missing. */
export async function reconcileVirtualCluster(job: Job, options: ReconcileOptions): Promise<Outcome> {
  const { services } = options;
  return withTenant(job, options, async (tenant) => {
    try {
      if (hasJobRequests(tenant.vc)) await applyJobRequests(tenant, services);
    } catch (error) {
      if (options.signal.aborted) throw error;
      services.logger.warn({ err: error, virtualCluster: job.key }, explain(error).message);
      return { kind: 'failed' };
    }
    const { metadata } = tenant.vc;
    if (metadata.deletionTimestamp !== undefined) return remove(tenant, services);
    if (isHeld(tenant.vc, 'provision', services.clock.now())) return { kind: 'done' };
    return provision(tenant, services, job.failures);
  });
}

/** Undefined when everything is chosen. */
export async function allocateForVirtualCluster(
  job: Job,
  options: ReconcileOptions,
): Promise<Outcome | undefined> {
  return withTenant(job, options, (tenant) => allocate(tenant, options.services, job.failures));
}

async function withTenant<T>(
  { key, uid }: Job,
  { services, fence, connect, signal, onStep }: ReconcileOptions,
  work: (tenant: Tenant) => Promise<T>,
): Promise<T | Outcome> {
  const { client, clock, logger } = services;
  const [namespace = '', name = ''] = key.split('/');
  let current: VirtualCluster;
  try {
    current = await client.get<VirtualCluster>(resources.virtualClusters, { namespace, name }, { signal });
  } catch (error) {
    if (isNotFound(error)) return { kind: 'done' };
    if (signal.aborted) throw error;
    const { message, retryAfterMs } = explain(error);
    logger.warn({ virtualCluster: key }, message);
    return { kind: 'failed', ...(retryAfterMs === undefined ? {} : { retryAfterMs }) };
  }
  // A job that an earlier one of this name has left: what its worker holds is not this one's Lease.
  if (current.metadata.uid !== uid) return { kind: 'done' };
  const status = new StatusWriter({ client, clock, signal, current });
  const tenant = new Tenant({
    virtualCluster: current,
    status,
    signal,
    clock,
    onStep,
    connect: (each) => connectTo(each, fence, connect),
  });
  try {
    return await work(tenant);
  } finally {
    await tenant.close();
  }
}

function connectTo(
  tenant: Tenant,
  fence: Fence,
  connect: ReconcileOptions['connect'] = (options) => new KubeClient(new Connection(options)),
): KubeClient {
  const { servingCa, leafs } = tenant.required(tenant.pki, 'certificates');
  return connect({
    server: tenant.required(tenant.vc.status?.endpoint, 'endpoint'),
    ca: servingCa.certPem,
    cert: leafs.manager.certPem,
    key: leafs.manager.keyPem,
    userAgent: 'skerry-vc-manager',
    beforeWrite: () => assertHeld(fence),
  });
}

/** So many failures in a row count as lasting, whatever their kind. */
const lastingFailures = 5;

/** One pass over a VirtualCluster that is to exist: all steps, and what came of it. */
export async function provision(tenant: Tenant, services: Services, failures: number): Promise<Outcome> {
  const wanted = wantedJob(tenant.vc, services);
  const job = new JobLog(tenant, services, wanted);
  return runSteps(provisionSteps, tenant, services, {
    ...provisionHooks(tenant, { job, wanted, failures }),
    done: async () => {
      const { status } = tenant;
      const { generation } = tenant.vc.metadata;
      const message = [`The API server is at ${tenant.vc.status?.endpoint}.`, ...tenant.notes].join(' ');
      status.condition('Ready', 'True', 'Available', message);
      status.set({ phase: 'Ready', ...(generation === undefined ? {} : { observedGeneration: generation }) });
      job.succeeded();
      await status.flush();
      const { settings, clock } = services;
      const dueMs = (tenant.renewAt?.getTime() ?? Number.POSITIVE_INFINITY) - clock.now();
      return {
        kind: 'done',
        againAfterMs: Math.max(1_000, Math.min(settings.recheckMs, dueMs, tenant.lookAgainMs)),
      };
    },
  });
}

/**
 * Only what is chosen for a new one, of which there may be only one of a kind: by the manager that leads, before any
 * other works on it. Undefined when all is chosen.
 */
export async function allocate(
  tenant: Tenant,
  services: Services,
  failures: number,
): Promise<Outcome | undefined> {
  const wanted: WantedJob = { kind: 'provision' };
  const job = new JobLog(tenant, services, wanted, true);
  let isChosen = false;
  const outcome = await runSteps(allocationSteps, tenant, services, {
    ...provisionHooks(tenant, { job, wanted, failures }),
    done: async () => {
      isChosen = true;
      return { kind: 'done' };
    },
  });
  return isChosen ? undefined : outcome;
}

function provisionHooks(
  tenant: Tenant,
  { job, wanted, failures }: { job: JobLog; wanted: WantedJob; failures: number },
): Omit<StepHooks, 'done'> {
  const { status } = tenant;
  const { phase, observedGeneration } = tenant.vc.status ?? {};
  const { generation } = tenant.vc.metadata;
  const observed = generation === undefined ? {} : { observedGeneration: generation };
  const isNew = phase === undefined || phase === 'Pending' || phase === 'Cancelled';
  const isChanged = phase === 'Failed' && observedGeneration !== generation;
  if (isNew || (isChanged && !tenant.wasReady)) status.set({ phase: 'Provisioning' });
  if (wanted.kind === 'version-change' && phase === 'Ready') status.set({ phase: 'Upgrading' });
  const tellsProgress = phase !== 'Ready' && phase !== 'Upgrading';
  return {
    job,
    before: (step) => {
      if (tellsProgress) status.condition('Ready', 'False', 'Provisioning', step.doing);
    },
    failed: (lasting) => {
      status.set(observed);
      if (lasting || failures + 1 >= lastingFailures)
        status.set({ phase: 'Failed' satisfies VirtualClusterPhase });
    },
    waits: () => status.set({ phase: 'Pending', ...observed }),
  };
}

/** One pass over a VirtualCluster that is to go. */
export async function remove(tenant: Tenant, services: Services): Promise<Outcome> {
  const { status } = tenant;
  const job = new JobLog(tenant, services, { kind: 'delete' });
  // Only once: what is waited for says more.
  if (tenant.vc.status?.phase !== 'Deleting') {
    status.set({ phase: 'Deleting' });
    status.condition('Ready', 'False', 'Deleting', 'The control plane and all that it has is being removed.');
  }
  let isTold = tenant.vc.status?.phase === 'Deleting';
  return runSteps(removalSteps, tenant, services, {
    job,
    // The syncer learns from the phase that it has to leave. Later steps are told with what they wait for.
    before: async () => {
      if (!isTold) await status.flush();
      isTold = true;
    },
    failed: () => {},
    done: async () => ({ kind: 'done' }),
  });
}
