import type { Step } from './step.ts';

/** A user and a prefix of its own in the tenants' datastore. */
export const datastore: Step = {
  name: 'datastore',
  doing: 'Preparing a place in the datastore',
  condition: 'DatastoreReady',
  async run(tenant, services) {
    if (tenant.choice?.template.spec.datastore === 'own') {
      tenant.status.set({ datastore: 'own' });
      tenant.status.condition('DatastoreReady', 'True', 'Own', 'It has an etcd of its own.');
      return;
    }
    tenant.status.set({ datastore: 'shared' });
    const { prefix } = await services.datastore.ensureTenant(tenant.id, { signal: tenant.signal });
    tenant.status.condition('DatastoreReady', 'True', 'Granted', `Its keys lie below ${prefix}.`);
  },
};
