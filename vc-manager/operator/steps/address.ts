import { choosePort, noteAddress } from '../ports.ts';
import type { Step } from './step.ts';

/**
 * The port of the API server. It stands in kubeconfigs, so it is chosen once and kept. The step that chooses the
 * service range writes it down along with that.
 */
export const address: Step = {
  name: 'address',
  doing: 'Choosing a port for the API server',
  condition: 'APIServerReady',
  async run(tenant, services) {
    const port = tenant.vc.status?.advertisedPort ?? (await choosePort(tenant, services, new Set()));
    noteAddress(tenant, services, port);
  },
};
