import { isIPv6 } from 'node:net';
import { driverChanged, portsExhausted } from '../errors.ts';
import type { Services } from '../services.ts';
import type { Step } from '../step-runner.ts';
import type { Tenant } from '../tenant.ts';

/**
 * The address of the API server. Kubeconfigs contain it, so it is chosen once and kept: a port of this machine, or what
 * the driver says. The step `service-slice` writes it into the status together with its own choice.
 */
export const address: Step = {
  name: 'address',
  doing: 'Choosing an address for the API server',
  condition: 'APIServerReady',
  async run(tenant, services) {
    const { driver, settings } = services;
    // This driver cannot see what another one runs.
    const earlier = tenant.vc.status?.driver ?? 'process';
    if (tenant.wasStarted && earlier !== settings.driver) throw driverChanged(earlier, settings.driver);
    tenant.status.set({ driver: settings.driver });
    if (driver.locate !== undefined) {
      // `locate` creates objects that carry the id: the status has to have it first.
      await tenant.status.flush();
      return locate(tenant, services);
    }
    const port = tenant.vc.status?.advertisedPort ?? allocatePort(tenant, services, new Set());
    recordAddress(tenant, services, port);
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

/**
 * A port of the range that no VirtualCluster has and that is not in `refused`. The search begins at a
 * random place: another manager on this machine may have the same range.
 */
export function allocatePort(
  tenant: Tenant,
  { allocations, settings, random }: Services,
  refused: ReadonlySet<number>,
): number {
  const { first, last } = settings.portRange;
  const taken = allocations.ports(tenant.uid);
  const size = last - first + 1;
  const start = Math.floor(random() * size);
  for (let tried = 0; tried < size; tried++) {
    const port = first + ((start + tried) % size);
    if (taken.has(port) || refused.has(port)) continue;
    allocations.remember(tenant.uid, { port });
    return port;
  }
  throw portsExhausted(first, last);
}

/** Sets the port and the addresses in the status; flush before anything listens there. */
export function recordAddress(tenant: Tenant, { settings }: Services, port: number): void {
  tenant.status.set({
    endpoint: `https://${bracketed(settings.endpointHost)}:${port}`,
    advertisedAddress: settings.advertiseAddress,
    advertisedPort: port,
  });
}

function bracketed(host: string): string {
  return host.includes(':') ? `[${host}]` : host;
}
