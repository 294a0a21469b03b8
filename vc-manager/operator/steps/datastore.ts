import type { Step } from './step.ts';

/** A user and a prefix of its own in the tenants' datastore. */
export const datastore: Step = {
  name: 'datastore',
  doing: 'Preparing a place in the datastore',
  condition: 'DatastoreReady',
  async run(tenant, services) {
    const { prefix } = await services.datastore.ensureTenant(tenant.id, { signal: tenant.signal });
    tenant.status.condition('DatastoreReady', 'True', 'Granted', `Its keys lie below ${prefix}.`);
  },
};
