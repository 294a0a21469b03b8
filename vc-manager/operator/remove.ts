import type { Outcome } from '../jobs/index.ts';
import { JobLog } from './job-log.ts';
import { perform } from './pass.ts';
import { removalSteps } from './removal/index.ts';
import type { Services } from './services.ts';
import type { Tenant } from './tenant.ts';

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
  return perform(removalSteps, tenant, services, {
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
