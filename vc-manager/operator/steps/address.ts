import { isIPv6 } from 'node:net';
import { driverChanged } from '../errors.ts';
import { choosePort, noteAddress } from '../ports.ts';
import type { Services } from '../services.ts';
import type { Tenant } from '../tenant.ts';
import type { Step } from './step.ts';

/**
 * Where the API server is reached. It stands in kubeconfigs, so it is chosen once and kept: a port of this machine, or
 * what the driver says. The step that chooses the service range writes it down along with that.
 */
export const address: Step = {
  name: 'address',
  doing: 'Choosing an address for the API server',
  condition: 'APIServerReady',
  async run(tenant, services) {
    const { driver, settings } = services;
    // Nothing here can see what another driver runs.
    const earlier = tenant.vc.status?.driver ?? 'process';
    if (tenant.wasStarted && earlier !== settings.driver) throw driverChanged(earlier, settings.driver);
    tenant.status.set({ driver: settings.driver });
    if (driver.locate !== undefined) {
      // It makes what bears the id.
      await tenant.status.flush();
      return locate(tenant, services);
    }
    const port = tenant.vc.status?.advertisedPort ?? (await choosePort(tenant, services, new Set()));
    noteAddress(tenant, services, port);
  },
};

async function locate(tenant: Tenant, { driver }: Services): Promise<void> {
  const { template } = tenant.required(tenant.choice, 'template');
  const withDatastore = template.spec.datastore === 'own';
  const location = await driver.locate?.(tenant.id, { signal: tenant.signal, withDatastore });
  if (location === undefined) return;
  tenant.location = location;
  const { host, port } = location;
  if (location.datastore?.isKept === false) {
    tenant.notes.push(
      'Its etcd has no volume: all data goes with its pod, at the latest when its certificate is renewed after 8 months, and with each change of its template or image. Create it anew under a manager with --storage-class.',
    );
  }
  tenant.status.set({
    endpoint: `https://${isIPv6(host) ? `[${host}]` : host}:${port}`,
    advertisedAddress: host,
    advertisedPort: port,
  });
}
