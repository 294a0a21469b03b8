import type { Services } from '../services.ts';
import type { Step } from '../step-runner.ts';
import type { Tenant } from '../tenant.ts';
import { moveInternalSecret } from '../tenant-secrets.ts';
import { moveReservations } from './service-slice.ts';

/**
 * Of a control plane from the warm pool: what bears the name and the UID of the member bears those of its owner from here
 * on. The member goes when the status says so.
 */
export const takeOver: Step = {
  name: 'take-over',
  doing: 'Taking over a control plane that was waiting',
  async run(tenant: Tenant, services: Services) {
    const { fromPool } = tenant.vc.status ?? {};
    if (fromPool === undefined || fromPool.moved === true) return;
    const member = `${services.settings.namespace}/${fromPool.member}`;
    await Promise.all([
      moveInternalSecret(tenant, services, 'pki', member),
      moveReservations(tenant, services, fromPool.uid),
    ]);
    // Written with what the next steps have to say.
    tenant.status.set((status) => ({ ...status, fromPool: { ...fromPool, moved: true } }));
  },
};
