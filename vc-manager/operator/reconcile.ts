import type { VirtualCluster, VirtualClusterPhase } from '../../api/virtual-cluster.ts';
import { isWarmPoolMember, warmClaim } from '../../api/warm-pool.ts';
import {
  Connection,
  type ConnectionOptions,
  findCondition,
  isNotFound,
  KubeClient,
  resources,
  withoutUndefined,
} from '../../kube/index.ts';
import type { Job, JobRun, ReconcileResult } from '../jobs/job-runner.ts';
import { isHeld } from '../jobs/job-status.ts';
import type { Fence } from '../jobs/tenant-lock.ts';
import { explain } from './errors.ts';
import { assertHeld } from './fencing.ts';
import {
  applyJobRequests,
  hasJobRequests,
  JobLog,
  recordProgress,
  recordWake,
  type WantedJob,
  wantedJob,
  wantedWake,
  withdrawMove,
} from './jobs.ts';
import { moveWithdrawalReason, servicesFor } from './moves.ts';
import { removalSteps } from './removal.ts';
import type { Services } from './services.ts';
import { hasPhaseAsleep } from './sleep.ts';
import { StatusWriter } from './status-writer.ts';
import { parallel, runSteps, type Stage, type StepHooks } from './step-runner.ts';
import { address } from './steps/address.ts';
import { apiCalls } from './steps/api-calls.ts';
import { bootstrap } from './steps/bootstrap.ts';
import { authorities, certificates, credentials } from './steps/certificates.ts';
import { controllers, controlPlane, datastore, isNoSuchVersion } from './steps/control-plane.ts';
import { datastoreUsage } from './steps/datastore-usage.ts';
import { fillDefaults, keepDefaults } from './steps/defaults.ts';
import { dns } from './steps/dns.ts';
import { encryption } from './steps/encryption.ts';
import { adaptFromSnapshot, fillFromSnapshot } from './steps/from-snapshot.ts';
import { identity, takeOver } from './steps/identity.ts';
import {
  beginMove,
  copyDatastore,
  finishMove,
  locateOtherDatastore,
  placement,
  prepareMove,
  rollBackMove,
} from './steps/move.ts';
import { policy } from './steps/policy.ts';
import { beginRestore, finishRestore, restore } from './steps/restore.ts';
import { reservations, serviceSlice } from './steps/service-slice.ts';
import { awake, fallAsleep, stayAsleep, wakeDatastore } from './steps/sleep.ts';
import { isSnapshotNext, snapshot } from './steps/snapshot.ts';
import { version } from './steps/version.ts';
import { Tenant } from './tenant.ts';
import { releaseClaimedMember } from './warm-members.ts';

/** Allocations that no other VirtualCluster may have: chosen and written into the status before anything is made. */
const allocationSteps: readonly Stage[] = [policy, identity, takeOver, version, address, serviceSlice];

/**
 * From a VirtualCluster to a control plane that can be used. A tenant waits for its API server first of all: the
 * controllers start while later steps run, and are waited for at the end.
 */
const provisionSteps: readonly Stage[] = [
  ...allocationSteps,
  locateOtherDatastore,
  parallel([reservations, certificates], [datastore]),
  snapshot,
  restore,
  fillFromSnapshot,
  fillDefaults,
  datastoreUsage,
  controlPlane,
  awake,
  adaptFromSnapshot,
  keepDefaults,
  bootstrap,
  dns,
  credentials,
  controllers,
  encryption,
  authorities,
  finishRestore,
  finishMove,
  apiCalls,
  fallAsleep,
];

interface ReconcileOptions extends JobRun {
  services: Services;
  /** Held while anything is changed. */
  fence: Fence;
  connect?: ((options: ConnectionOptions) => KubeClient) | undefined;
}

/** Reads one VirtualCluster and does what is missing. Rejects only for its signal. */
export async function reconcileVirtualCluster(job: Job, options: ReconcileOptions): Promise<ReconcileResult> {
  return withTenant(job, options, async (tenant) => {
    const services = servicesFor(tenant.vc, options.services);
    try {
      const claim = isWarmPoolMember(tenant.vc, services.settings.namespace)
        ? warmClaim(tenant.vc)
        : undefined;
      const released = claim && (await releaseClaimedMember(tenant, services, claim));
      if (released !== undefined) return released;
      if (hasJobRequests(tenant.vc)) await applyJobRequests(tenant, services);
      const withdrawn = moveWithdrawalReason(tenant.vc, services);
      if (withdrawn !== undefined) await withdrawMove(tenant, services, withdrawn);
    } catch (error) {
      if (options.signal.aborted) throw error;
      services.logger.warn({ err: error, virtualCluster: job.key }, explain(error).message);
      return { kind: 'failed' };
    }
    const { metadata } = tenant.vc;
    if (metadata.deletionTimestamp !== undefined) return remove(tenant, services);
    if (isHeld(tenant.vc, 'provision', services.clock.now())) return keepPolicy(tenant, services);
    if (hasPhaseAsleep(tenant.vc)) {
      // One that was about to be moved is woken by what is left of that.
      const isReturning = tenant.vc.status?.move?.stage === 'returning';
      const wanted: WantedJob = isReturning ? { kind: 'move' } : wantedJob(tenant.vc, services);
      if (wanted.kind !== 'wake' && wanted.kind !== 'restore' && wanted.kind !== 'move')
        return rest(tenant, services, wanted);
      if (wanted.kind === 'restore' && wantedWake(tenant.vc, services) === undefined) {
        const asleep = await restoreAsleep(tenant, services, wanted);
        if (asleep !== undefined) return asleep;
      }
      // A move wakes it when all is prepared, and may fail before.
      const isPreparing = wanted.kind === 'move' && !isReturning;
      const isWoken = !isPreparing || wantedWake(tenant.vc, services) !== undefined;
      if (hasPhaseAsleep(tenant.vc) && isWoken) recordWake(tenant, services);
    }
    const moved = await move(tenant, services, job.failures);
    if (moved !== undefined) return moved;
    // It may have another driver by now.
    return provision(tenant, servicesFor(tenant.vc, options.services), job.failures);
  });
}

/**
 * Only the allocations of a new VirtualCluster: by the leader, before a job for it is offered to other managers.
 * Undefined when everything is allocated.
 */
export async function allocateForVirtualCluster(
  job: Job,
  options: ReconcileOptions,
): Promise<ReconcileResult | undefined> {
  const wanted: WantedJob = { kind: 'provision' };
  return withTenant(job, options, (tenant) => {
    const services = servicesFor(tenant.vc, options.services);
    return runSteps<undefined>(allocationSteps, tenant, services, {
      ...provisionHooks(tenant, services, {
        job: new JobLog(tenant, services, wanted, true),
        wanted,
        failures: job.failures,
      }),
      done: async () => undefined,
    });
  });
}

async function withTenant<T>(
  { key, uid }: Job,
  { services, fence, connect, signal, onStep }: ReconcileOptions,
  work: (tenant: Tenant) => Promise<T>,
): Promise<T | ReconcileResult> {
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
    return { kind: 'failed', retryAfterMs };
  }
  // A job for an earlier VirtualCluster of this name: its worker holds the Lease of that one.
  if (current.metadata.uid !== uid) return { kind: 'done' };
  const status = new StatusWriter({ client, clock, signal, current });
  const tenant = new Tenant({
    virtualCluster: current,
    status,
    signal,
    clock,
    onStep,
    connect: (each) => connectTo(each, { services, fence, connect }),
  });
  try {
    return await work(tenant);
  } finally {
    await tenant.close();
  }
}

/**
 * What a tenant's API server sends is the tenant's invention: JSON may take twenty times its size in memory, and as many
 * answers are read at once as there are workers. An object in etcd has 1.5 MiB at most, and a page may be that one.
 */
const tenantReadLimits = {
  objectBytes: 2 * 1024 * 1024,
  pageBytes: 4 * 1024 * 1024,
  listBytes: 32 * 1024 * 1024,
  eventBytes: 2 * 1024 * 1024,
  answerValues: 250_000,
  listValues: 500_000,
};

function connectTo(
  tenant: Tenant,
  {
    services: { readTime, readTimes },
    fence,
    connect = (options) => new KubeClient(new Connection(options)),
  }: Pick<ReconcileOptions, 'services' | 'fence' | 'connect'>,
): KubeClient {
  const known = readTimes.get(tenant.uid) ?? readTime.tenant();
  readTimes.set(tenant.uid, known);
  const { trust, leafs } = tenant.required(tenant.pki, 'certificates');
  return connect({
    server: tenant.required(tenant.vc.status?.endpoint, 'endpoint'),
    ca: trust.servingCa,
    cert: leafs.manager.certPem,
    key: leafs.manager.keyPem,
    userAgent: 'skerry-vc-manager',
    readLimits: tenantReadLimits,
    meter: known.lists,
    answerMeter: known.answers,
    beforeWrite: () => assertHeld(fence),
  });
}

/** As many failures in a row set the phase Failed, whatever their kind. */
const lastingFailures = 5;

/** What of a move comes before the control plane is started at the new place; undefined: there is none, or that is over. */
async function move(
  tenant: Tenant,
  services: Services,
  failures: number,
): Promise<ReconcileResult | undefined> {
  const wanted = wantedJob(tenant.vc, services);
  const stage = tenant.vc.status?.move?.stage ?? 'preparing';
  if (wanted.kind !== 'move' || (stage !== 'preparing' && stage !== 'copying')) return undefined;
  const job = new JobLog(tenant, services, wanted);
  return runSteps<ReconcileResult | undefined>(
    [policy, version, address, beginMove, locateOtherDatastore, certificates, prepareMove, copyDatastore],
    tenant,
    services,
    {
      ...provisionHooks(tenant, services, { job, wanted, failures }),
      done: async () => {
        if (tenant.unfinished === undefined) return undefined;
        endJob(tenant, job, wanted);
        await tenant.status.flush();
        return { kind: 'done', againAfterMs: tenant.unfinished.againAfterMs };
      },
    },
  );
}

async function provision(tenant: Tenant, services: Services, failures: number): Promise<ReconcileResult> {
  const wanted = wantedJob(tenant.vc, services);
  const job = new JobLog(tenant, services, wanted);
  return runSteps<ReconcileResult>(provisionSteps, tenant, services, {
    ...provisionHooks(tenant, services, { job, wanted, failures }),
    done: async () => {
      const { status } = tenant;
      const { generation } = tenant.vc.metadata;
      if (hasPhaseAsleep(tenant.vc)) return rested(tenant, job, wanted);
      const { gateway, endpoint } = tenant.vc.status ?? {};
      const message = [`The API server is at ${gateway?.server ?? endpoint}.`, ...tenant.notes].join(' ');
      status.condition('Ready', 'True', 'Available', message);
      status.set({ phase: 'Ready', ...withoutUndefined({ observedGeneration: generation }) });
      endJob(tenant, job, wanted);
      await status.flush();
      const { unfinished } = tenant;
      const { settings, clock, random } = services;
      // It has waited for the job that is over, and no event tells of it again.
      const isMoveNext = wantedJob(tenant.vc, services).kind === 'move';
      const lookAgainMs = isMoveNext
        ? 0
        : Math.min(tenant.lookAgainMs, unfinished?.againAfterMs ?? Number.POSITIVE_INFINITY);
      const dueMs = (tenant.renewAt?.getTime() ?? Number.POSITIVE_INFINITY) - clock.now();
      // Those that were created together, or found by a new manager, are not looked at together for ever.
      const recheckMs = settings.recheckMs * (1 - recheckJitter * random());
      return {
        kind: 'done',
        againAfterMs: Math.max(1_000, Math.min(recheckMs, dueMs, lookAgainMs)),
      };
    },
  });
}

function endJob(tenant: Tenant, job: JobLog, { kind }: WantedJob): void {
  const { unfinished } = tenant;
  // What waits for something else is none of what puts it to sleep or wakes it.
  const isOfOther = unfinished?.maySleep === true && (kind === 'sleep' || kind === 'wake');
  if (unfinished === undefined || isOfOther) job.succeeded();
  else if (unfinished.failing !== undefined) job.failed(unfinished.failing, unfinished.step);
  else recordProgress(tenant, unfinished.progress ?? '');
}

function provisionHooks(
  tenant: Tenant,
  services: Services,
  { job, wanted, failures }: { job: JobLog; wanted: WantedJob; failures: number },
): Omit<StepHooks<ReconcileResult>, 'done'> {
  const { status } = tenant;
  const { phase, observedGeneration, conditions, jobs } = tenant.vc.status ?? {};
  const { generation } = tenant.vc.metadata;
  const observed = withoutUndefined({ observedGeneration: generation });
  const isNew = phase === undefined || phase === 'Pending' || phase === 'Cancelled';
  const isChanged = phase === 'Failed' && observedGeneration !== generation;
  if (isNew || (isChanged && !tenant.wasReady)) status.set({ phase: 'Provisioning' });
  if (wanted.kind === 'version-change' && phase === 'Ready') status.set({ phase: 'Upgrading' });
  const showsProgress =
    phase !== 'Ready' &&
    phase !== 'Upgrading' &&
    phase !== 'Asleep' &&
    phase !== 'Restoring' &&
    phase !== 'Moving';
  return {
    job,
    before: (step) => {
      if (showsProgress) status.condition('Ready', 'False', 'Provisioning', step.doing);
    },
    failed: async (lasting, error) => {
      await rollBackMove(tenant, services, error);
      status.set(observed);
      // It goes on where it was.
      if (tenant.vc.status?.move !== undefined) return;
      // It goes back to the version that it runs.
      if (tenant.change !== undefined && isNoSuchVersion(error)) return;
      if (lasting || failures + 1 >= lastingFailures)
        status.set({ phase: 'Failed' satisfies VirtualClusterPhase });
    },
    waits: () => status.set({ phase: 'Pending', ...observed }),
    keepFailure: (ahead) => {
      const { current } = jobs ?? {};
      if (current?.failing !== true || observedGeneration !== generation) return false;
      if (!ahead.some(({ name }) => name === current.step)) return false;
      const { reason = '', message = '' } = findCondition(conditions, 'Ready') ?? {};
      status.condition('Ready', 'False', reason, message);
      status.set((old) => ({ ...old, jobs: { ...old.jobs, current } }));
      return true;
    },
  };
}

/** Of one whose creation was cancelled. It may have got as far as to have objects in the super cluster, which are held to this. */
async function keepPolicy(tenant: Tenant, services: Services): Promise<ReconcileResult> {
  if (tenant.vc.status?.id === undefined) return { kind: 'done' };
  return runSteps<ReconcileResult>([policy], tenant, services, {
    job: new JobLog(tenant, services, { kind: 'look' }),
    before: () => {},
    failed: () => {},
    done: async () => {
      await tenant.status.flush();
      return { kind: 'done' };
    },
  });
}

/** A share of the time between two rechecks. */
const recheckJitter = 0.2;

/** Nothing of it runs, and nothing of it is looked after but its policy, until it is needed. */
const asleepRecheckMs = 10 * 60_000;

/** Wakes none for a restore that is refused, or has to wait; undefined: it has begun. */
async function restoreAsleep(
  tenant: Tenant,
  services: Services,
  wanted: WantedJob,
): Promise<ReconcileResult | undefined> {
  const job = new JobLog(tenant, services, wanted);
  return runSteps<ReconcileResult | undefined>(
    [policy, version, address, certificates, beginRestore],
    tenant,
    services,
    {
      ...{ job, before: () => {}, failed: () => {} },
      done: async () => (hasPhaseAsleep(tenant.vc) ? rested(tenant, job, wanted) : undefined),
    },
  );
}

async function rest(tenant: Tenant, services: Services, wanted: WantedJob): Promise<ReconcileResult> {
  const job = new JobLog(tenant, services, wanted);
  const isDatastoreAsleep = tenant.vc.status?.datastore === 'own' && isSnapshotNext(tenant, services);
  const steps = isDatastoreAsleep
    ? [policy, placement, version, address, certificates, wakeDatastore, snapshot, stayAsleep]
    : [policy, placement, stayAsleep, snapshot];
  return runSteps<ReconcileResult>(steps, tenant, services, {
    ...{ job, before: () => {}, failed: () => {} },
    done: () => rested(tenant, job, wanted),
  });
}

async function rested(tenant: Tenant, job: JobLog, wanted: WantedJob): Promise<ReconcileResult> {
  endJob(tenant, job, wanted);
  await tenant.status.flush();
  const againMs = Math.min(tenant.lookAgainMs, tenant.unfinished?.againAfterMs ?? asleepRecheckMs);
  return { kind: 'done', againAfterMs: Math.min(Math.max(1_000, againMs), asleepRecheckMs) };
}

async function remove(tenant: Tenant, services: Services): Promise<ReconcileResult> {
  const { status } = tenant;
  const job = new JobLog(tenant, services, { kind: 'delete' });
  // Once only: later the condition says what the removal waits for.
  if (tenant.vc.status?.phase !== 'Deleting') {
    status.set({ phase: 'Deleting' });
    status.condition('Ready', 'False', 'Deleting', 'The control plane and all that it has is being removed.');
  }
  let isPhaseWritten = tenant.vc.status?.phase === 'Deleting';
  return runSteps<ReconcileResult>(removalSteps, tenant, services, {
    job,
    // The syncer leaves when it sees the phase.
    before: async () => {
      if (!isPhaseWritten) await status.flush();
      isPhaseWritten = true;
    },
    failed: () => {},
    done: async () => ({ kind: 'done' }),
  });
}
