import { portsExhausted } from './errors.ts';
import type { Services } from './services.ts';
import type { Tenant } from './tenant.ts';

/**
 * A port of the range that no VirtualCluster has and that is not in `refused`. The search begins at a
 * random place: another manager on this machine may have the same range.
 */
export function choosePort(
  tenant: Tenant,
  { claims, settings, random }: Services,
  refused: ReadonlySet<number>,
): Promise<number> {
  const { first, last } = settings.portRange;
  return claims.exclusively(() => {
    const taken = claims.ports(tenant.uid);
    const size = last - first + 1;
    const start = Math.floor(random() * size);
    for (let tried = 0; tried < size; tried++) {
      const port = first + ((start + tried) % size);
      if (taken.has(port) || refused.has(port)) continue;
      claims.remember(tenant.uid, { port });
      return port;
    }
    throw portsExhausted(first, last);
  });
}

/** Notes the port and the addresses that follow from it; to be written before anything listens there. */
export function noteAddress(tenant: Tenant, { settings }: Services, port: number): void {
  tenant.status.set({
    endpoint: `https://${bracketed(settings.endpointHost)}:${port}`,
    advertisedAddress: settings.advertiseAddress,
    advertisedPort: port,
  });
}

function bracketed(host: string): string {
  return host.includes(':') ? `[${host}]` : host;
}
