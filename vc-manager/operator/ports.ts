import { portsExhausted } from './errors.ts';
import type { Services } from './services.ts';
import type { Tenant } from './tenant.ts';

/** The lowest port of the range that no VirtualCluster has and that is not in `refused`. */
export function choosePort(
  tenant: Tenant,
  { claims, settings }: Services,
  refused: ReadonlySet<number>,
): Promise<number> {
  const { first, last } = settings.portRange;
  return claims.exclusively(() => {
    const taken = claims.ports(tenant.uid);
    for (let port = first; port <= last; port++) {
      if (taken.has(port) || refused.has(port)) continue;
      claims.remember(tenant.uid, { port });
      return port;
    }
    throw portsExhausted(first, last);
  });
}

/** Writes the port and the addresses that follow from it down, before anything listens there. */
export async function publishAddress(tenant: Tenant, { settings }: Services, port: number): Promise<void> {
  tenant.status.set({
    endpoint: `https://${bracketed(settings.endpointHost)}:${port}`,
    advertisedAddress: settings.advertiseAddress,
    advertisedPort: port,
  });
  await tenant.status.flush();
}

function bracketed(host: string): string {
  return host.includes(':') ? `[${host}]` : host;
}
