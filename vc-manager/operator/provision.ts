import type { VirtualClusterPhase } from '../../api/virtual-cluster.ts';
import type { Outcome } from '../jobs/index.ts';
import { type WantedJob, wantedJob } from './job-kind.ts';
import { JobLog } from './job-log.ts';
import { type Hooks, perform } from './pass.ts';
import type { Services } from './services.ts';
import { choosingStages, provisionStages } from './steps/index.ts';
import type { Tenant } from './tenant.ts';

/** So many failures in a row count as lasting, whatever their kind. */
const lastingFailures = 5;

/** One pass over a VirtualCluster that is to exist: all steps, and what came of it. */
export async function provision(tenant: Tenant, services: Services, failures: number): Promise<Outcome> {
  const wanted = wantedJob(tenant.vc, services);
  const job = new JobLog(tenant, services, wanted);
  return perform(provisionStages, tenant, services, {
    ...hooks(tenant, { job, wanted, failures }),
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
export async function choose(
  tenant: Tenant,
  services: Services,
  failures: number,
): Promise<Outcome | undefined> {
  const wanted: WantedJob = { kind: 'provision' };
  const job = new JobLog(tenant, services, wanted, true);
  let isChosen = false;
  const outcome = await perform(choosingStages, tenant, services, {
    ...hooks(tenant, { job, wanted, failures }),
    done: async () => {
      isChosen = true;
      return { kind: 'done' };
    },
  });
  return isChosen ? undefined : outcome;
}

function hooks(
  tenant: Tenant,
  { job, wanted, failures }: { job: JobLog; wanted: WantedJob; failures: number },
): Omit<Hooks, 'done'> {
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
