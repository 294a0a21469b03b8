import { allocateSlice } from '../../network/index.ts';
import { addressTaken, poolExhausted } from '../errors.ts';
import { releaseReservations, reserveAddresses } from '../reservations.ts';
import type { Services } from '../services.ts';
import type { Tenant } from '../tenant.ts';
import type { Step } from './step.ts';

/**
 * The tenant's part of the service pool. It is written down before its addresses are reserved, along with all
 * that earlier steps have chosen.
 */
export const serviceSlice: Step = {
  name: 'service-slice',
  doing: 'Choosing a range of service addresses',
  condition: 'ServiceSliceReady',
  async run(tenant, services) {
    await note(tenant, services, tenant.vc.status?.serviceCIDR ?? (await choose(tenant, services, [])));
  },
};

/** It counts as the tenant's only when its addresses are: creating their reservation is what two managers cannot both do. */
export const reservations: Step = {
  name: 'reservations',
  doing: 'Reserving service addresses',
  condition: 'ServiceSliceReady',
  async run(tenant, services) {
    const refused: string[] = [];
    let slice = tenant.required(tenant.vc.status?.serviceCIDR, 'service slice');
    const mode = tenant.vc.status?.serviceIPMode;
    while (mode !== 'assigned') {
      const conflict = await reserveAddresses(tenant, services, slice);
      if (conflict === undefined) break;
      if (tenant.wasStarted) throw addressTaken(conflict.address, slice, conflict.holder);
      refused.push(slice);
      await releaseReservations(tenant, services);
      slice = await choose(tenant, services, refused);
      await note(tenant, services, slice);
    }
    const how = mode === 'slice' ? 'its own' : 'assigned by the super cluster';
    tenant.status.condition('ServiceSliceReady', 'True', 'Reserved', `Service addresses: ${slice}, ${how}.`);
  },
};

async function note(tenant: Tenant, { pool }: Services, serviceCIDR: string): Promise<void> {
  tenant.status.set(({ serviceIPMode = pool.mode, ...status }) => ({
    ...status,
    serviceIPMode,
    serviceCIDR,
  }));
  await tenant.status.flush();
}

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
