import type { Step } from '../steps/index.ts';
import { ownsId } from './owns-id.ts';

export const stopControlPlane: Step = {
  name: 'stop-control-plane',
  doing: 'Stopping the control plane',
  async run(tenant, services) {
    const id = ownsId(tenant, services);
    if (id !== undefined) await services.driver.stop(id, { signal: tenant.signal });
  },
};

/** Keys, user and role. Nothing of the tenant runs any more that could write new keys. */
export const removeDatastore: Step = {
  name: 'remove-datastore',
  doing: 'Removing its data from the datastore',
  async run(tenant, services) {
    const id = ownsId(tenant, services);
    if (id !== undefined) await services.datastore.removeTenant(id, { signal: tenant.signal });
  },
};

/** Processes, files, logs. */
export const removeControlPlane: Step = {
  name: 'remove-control-plane',
  doing: 'Removing the files of the control plane',
  async run(tenant, services) {
    const id = ownsId(tenant, services);
    if (id !== undefined) await services.driver.remove(id, { signal: tenant.signal });
  },
};
