import { isIPv6 } from 'node:net';
import { defaultDriver } from '../../../api/drivers.ts';
import { Wakeup, withoutUndefined } from '../../../kube/index.ts';
import { hostInUrl } from '../../../program/addresses.ts';
import type { TemplateChoice } from '../../control-plane/template.ts';
import type { DatastoreLocation } from '../../drivers/driver.ts';
import { freePort } from '../../os/network.ts';
import { isOlder } from '../caches.ts';
import { driverChanged, driverNotConfigured, portsExhausted, RequeueAfter } from '../errors.ts';
import { checkDriver } from '../moves.ts';
import type { Services } from '../services.ts';
import type { GatewaySettings } from '../settings.ts';
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
    const earlier = tenant.vc.status?.driver ?? defaultDriver;
    const { driver: wanted } = tenant.vc.spec ?? {};
    if (!tenant.wasStarted && wanted !== undefined) {
      checkDriver(tenant.vc, wanted, services);
      if (wanted !== settings.driver) throw driverNotConfigured(wanted, [...services.drivers.keys()]);
    }
    if (tenant.wasStarted && earlier !== settings.driver) throw driverChanged(earlier, settings.driver);
    tenant.status.set({ driver: settings.driver });
    await recordGateway(tenant, services);
    tenant.location = undefined;
    tenant.ownDatastore = undefined;
    if (driver.locate !== undefined) {
      // `locate` creates objects that carry the id: the status has to have it first.
      await tenant.status.flush();
      return locate(tenant, services);
    }
    const port = tenant.vc.status?.advertisedPort ?? allocatePort(tenant, services, new Set());
    recordAddress(tenant, services, port);
    const choice = tenant.required(tenant.choice, 'template');
    if (hasOwnDatastore(choice))
      tenant.ownDatastore = locateOnMachine(tenant, services, choice, new Set([port]));
  },
};

export function hasOwnDatastore({ template }: TemplateChoice): boolean {
  return template.spec.datastore === 'own';
}

/**
 * Where an etcd of its own listens on this machine, for its API server and the manager alone. Its ports stand in the
 * status: flush before anything listens there.
 */
export function locateOnMachine(
  tenant: Tenant,
  services: Services,
  { template }: TemplateChoice,
  refused: ReadonlySet<number> = new Set(),
): DatastoreLocation {
  const names = template.spec.components
    .flatMap(({ ports = [] }) => ports)
    .filter((each) => each !== apiServer);
  const numbers = (tenant.vc.status?.datastorePorts ?? []).filter((each) => !refused.has(each));
  while (numbers.length < names.length)
    numbers.push(choosePortFor(tenant, services, new Set([...refused, ...numbers])));
  services.allocations.remember(tenant.uid, { datastorePorts: numbers });
  tenant.status.set({ datastorePorts: numbers });
  const host = isIPv6(services.settings.bindAddress) ? '::1' : '127.0.0.1';
  const ports = Object.fromEntries(names.map((name, index) => [name, numbers[index] ?? 0]));
  return { host, port: ports[datastoreName] ?? 0, names: [], isKept: true, bindAddress: host, ports };
}

/** Components, which name their ports by themselves. */
const apiServer = 'kube-apiserver';
const datastoreName = 'etcd';

async function locate(tenant: Tenant, { driver }: Services): Promise<void> {
  const withDatastore = hasOwnDatastore(tenant.required(tenant.choice, 'template'));
  const location = await driver.locate?.(tenant.id, { signal: tenant.signal, withDatastore });
  if (location === undefined) return;
  tenant.location = location;
  tenant.ownDatastore = location.datastore;
  const { host, port } = location;
  if (location.datastore?.isKept === false) {
    tenant.notes.push(
      'Its etcd has no volume: all data goes with its pod, at the latest when its certificate is renewed after 8 months, and with each change of its template or image. Create it anew under a manager with --storage-class.',
    );
  }
  tenant.status.set({
    endpoint: `https://${hostInUrl(host)}:${port}`,
    advertisedAddress: host,
    advertisedPort: port,
  });
}

/** Where people, and pods, reach the API server when there is a gateway. */
async function recordGateway(tenant: Tenant, services: Services): Promise<void> {
  const { gateway } = services.settings;
  if (gateway === undefined) {
    tenant.status.set(({ gateway: _, ...rest }) => rest);
    return;
  }
  if (gateway.ports === undefined) {
    setGateway(tenant, gateway, undefined);
    return;
  }
  const refused = new Set<number>();
  for (;;) {
    const port = await gatewayPort(tenant, services, gateway.ports, refused);
    const isNew = tenant.vc.status?.gateway?.port !== port;
    setGateway(tenant, gateway, port);
    if (services.driver.isShared !== true) return;
    if (await isItsOwn(tenant, services, { port, isNew })) return;
    refused.add(port);
  }
}

function setGateway(tenant: Tenant, gateway: GatewaySettings, port: number | undefined): void {
  // Without a port a server name would be needed, which pods do not send.
  const isForPods = port !== undefined && tenant.vc.spec?.sleep?.wakeForPods !== false;
  const podAddress = isForPods ? gateway.podAddress : undefined;
  // The id is written together with it.
  tenant.status.set((status) => {
    const serverName = gatewayServerName(status.id ?? '', gateway);
    const { host = serverName } = gateway;
    const server = `https://${hostInUrl(host)}:${gateway.portsForPods === true ? gateway.port : (port ?? gateway.port)}`;
    return { ...status, gateway: withoutUndefined({ server, serverName, port, podAddress }) };
  });
}

export function gatewayServerName(id: string, { domain }: GatewaySettings): string {
  return `${id}.${domain}`;
}

/**
 * One that it has is kept, if it is not in `refused`: kubeconfigs contain it. A new one is free on this machine, if it is
 * the gateway's; the others go into `refused`.
 */
async function gatewayPort(
  tenant: Tenant,
  services: Services,
  range: PortRange,
  refused: Set<number>,
): Promise<number> {
  const has = tenant.vc.status?.gateway?.port;
  if (has !== undefined && !refused.has(has)) return has;
  for (;;) {
    const taken = services.allocations.gatewayPorts(tenant.uid);
    const port = choosePort(range, services.random, (each) => taken.has(each) || refused.has(each));
    services.allocations.remember(tenant.uid, { gatewayPort: port });
    if (await isFree(port)) return port;
    refused.add(port);
  }
}

/**
 * Whether no other VirtualCluster has its port: managers that share work choose side by side. The cache shows writes in
 * their order. So of two that have written the same port, one sees the other's when it sees its own, and gives way. A port
 * that was given out before is kept, unless an older one has it too.
 */
async function isItsOwn(
  tenant: Tenant,
  { allocations, virtualClusters, clock }: Services,
  { port, isNew }: { port: number; isNew: boolean },
): Promise<boolean> {
  const { uid, ref, signal, status } = tenant;
  await status.flush();
  const changed = new Wakeup();
  const stop = virtualClusters.subscribe(({ object }) => {
    if (object.metadata.uid === uid) changed.signal();
  });
  const endMs = clock.monotonic() + shownWithinMs;
  try {
    while (virtualClusters.get(ref)?.status?.gateway?.port !== port) {
      const leftMs = endMs - clock.monotonic();
      if (leftMs <= 0)
        throw new RequeueAfter(`Waiting to see that port ${port} is its own`, 0, { reason: 'Waiting' });
      await changed.waitFor(leftMs, clock, signal);
    }
  } finally {
    stop();
  }
  const others = allocations.othersAtGatewayPort(tenant.vc, port);
  return others.every((other) => !isNew && tenant.wasReady && isOlder(tenant.vc, other));
}

/** A cache that lags more has lost its watch. */
const shownWithinMs = 10_000;

async function isFree(port: number): Promise<boolean> {
  return freePort({ host: '0.0.0.0', range: [port, port] }).then(
    () => true,
    () => false,
  );
}

/** A port for its API server that no VirtualCluster has and that is not in `refused`. */
export function allocatePort(tenant: Tenant, services: Services, refused: ReadonlySet<number>): number {
  const port = choosePortFor(tenant, services, refused);
  services.allocations.remember(tenant.uid, { port });
  return port;
}

function choosePortFor(
  tenant: Tenant,
  { allocations, settings, random }: Services,
  refused: ReadonlySet<number>,
): number {
  const taken = allocations.ports(tenant.uid);
  const { advertisedPort, datastorePorts = [] } = tenant.vc.status ?? {};
  for (const own of [advertisedPort ?? 0, ...datastorePorts]) taken.add(own);
  return choosePort(settings.portRange, random, (each) => taken.has(each) || refused.has(each));
}

interface PortRange {
  first: number;
  last: number;
}

/** The search begins at a random place: another manager on this machine may have the same range. */
function choosePort(
  { first, last }: PortRange,
  random: () => number,
  isTaken: (port: number) => boolean,
): number {
  const size = last - first + 1;
  const start = Math.floor(random() * size);
  for (let tried = 0; tried < size; tried++) {
    const port = first + ((start + tried) % size);
    if (!isTaken(port)) return port;
  }
  throw portsExhausted(first, last);
}

/** Sets the port and the addresses in the status; flush before anything listens there. */
export function recordAddress(tenant: Tenant, { settings }: Services, port: number): void {
  tenant.status.set({
    endpoint: `https://${hostInUrl(settings.endpointHost)}:${port}`,
    advertisedAddress: settings.advertiseAddress,
    advertisedPort: port,
  });
}
