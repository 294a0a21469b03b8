import { allocateSlice } from '../../network/index.ts';
import { addressTaken, poolExhausted } from '../errors.ts';
import { releaseReservations, reserveAddresses } from '../reservations.ts';
import type { Services } from '../services.ts';
import type { Tenant } from '../tenant.ts';
import type { Step } from './step.ts';

/**
 * The tenant's part of the service pool. It is written down before its addresses are reserved, and it
 * counts as the tenant's only when they are: creating the reservation is what two managers cannot both do.
 */
export const serviceSlice: Step = {
  name: 'service-slice',
  doing: 'Choosing a range of service addresses',
  condition: 'ServiceSliceReady',
  async run(tenant, services) {
    const { pool } = services;
    const mode = tenant.vc.status?.serviceIPMode ?? pool.mode;
    const refused: string[] = [];
    let slice = tenant.vc.status?.serviceCIDR;
    for (;;) {
      slice ??= await choose(tenant, services, refused);
      tenant.status.set({ serviceCIDR: slice, serviceIPMode: mode });
      await tenant.status.flush();
      if (mode === 'assigned') break;
      const conflict = await reserveAddresses(tenant, services, slice);
      if (conflict === undefined) break;
      if (tenant.wasStarted) throw addressTaken(conflict.address, slice, conflict.holder);
      refused.push(slice);
      await releaseReservations(tenant, services);
      slice = undefined;
    }
    const how = mode === 'slice' ? 'its own' : 'assigned by the super cluster';
    tenant.status.condition('ServiceSliceReady', 'True', 'Reserved', `Service addresses: ${slice}, ${how}.`);
  },
};

function choose(tenant: Tenant, services: Services, refused: readonly string[]): Promise<string> {
  const { claims, pool, settings } = services;
  return claims.exclusively(() => {
    const taken = [...claims.slices(tenant.uid), ...refused];
    const slice = allocateSlice(pool.cidr, settings.slicePrefixLength, taken);
    if (slice === undefined) throw poolExhausted(pool.cidr, settings.slicePrefixLength);
    claims.remember(tenant.uid, { slice });
    return slice;
  });
}
