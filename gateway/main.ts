import { hostname } from 'node:os';
import { isDeepStrictEqual } from 'node:util';
import { Command } from 'commander';
import { type Logger, pino } from 'pino';
import type { VirtualCluster } from '../api/virtual-cluster.ts';
import { isUnclaimed } from '../api/warm-pool.ts';
import {
  type KubeClient,
  loadKubeconfig,
  messageOf,
  Reflector,
  resources,
  Store,
  systemClock,
  untilAborted,
  withClient,
} from '../kube/index.ts';
import {
  type Address,
  address,
  dnsDomain,
  flagHelp,
  positive,
  systemNamespaceOption,
} from '../program/flags.ts';
import { HealthServer } from '../program/health-server.ts';
import { openFileLimits } from '../program/open-files.ts';
import { packageVersion } from '../program/package-root.ts';
import { Activity } from './activity.ts';
import { Gateway, maxHellos, tooFewOpenFiles } from './gateway.ts';
import { GatewayMetrics } from './gateway-metrics.ts';
import { GatewayHeartbeat, heartbeatIdentity } from './heartbeat.ts';
import { Readiness } from './readiness.ts';
import { Routes } from './routes.ts';
import { listenOrStandBy, portHolder } from './standby.ts';
import { TenantLimits } from './tenant-limits.ts';

interface Flags {
  kubeconfig?: string;
  context?: string;
  domain: string;
  systemNamespace: string;
  listen: Address;
  metricsAddress: Address;
  connections: number;
  tenantConnections: number;
  tenantRate: number;
  tenantBurst: number;
  proxyProtocol: boolean;
  drainSeconds: number;
  restartSeconds: number;
  logLevel: string;
}

function command(): Command {
  return new Command('vc-gateway')
    .description(
      'One address for the API servers of all tenants: passes connections on by TLS server name, without opening them.',
    )
    .configureHelp(flagHelp)
    .option('--kubeconfig <file>', 'kubeconfig of the super cluster (default: $KUBECONFIG or ~/.kube/config)')
    .option('--context <name>', 'context of that kubeconfig')
    .requiredOption('--domain <domain>', 'tenants are reached by the server name ID.DOMAIN', dnsDomain)
    .addOption(systemNamespaceOption('for what belongs to Skerry itself'))
    .option('--listen <host:port>', 'where tenants connect', address, { host: '127.0.0.1', port: 7443 })
    .option('--metrics-address <host:port>', 'where /metrics, /healthz and /readyz are', address, {
      host: '127.0.0.1',
      port: 10454,
    })
    .option('--connections <n>', 'connections at once, over all tenants', positive, 10_000)
    .option(
      '--tenant-connections <n>',
      'connections of one tenant at once, and no more than its fair share',
      positive,
      2_000,
    )
    .option('--tenant-rate <n>', 'new connections of one tenant in a second, for long', positive, 100)
    .option('--tenant-burst <n>', 'new connections of one tenant in a moment', positive, 500)
    .option(
      '--proxy-protocol',
      'each connection begins with a header of the PROXY protocol, version 1 or 2',
      false,
    )
    .option('--drain-seconds <n>', 'how long open connections may go on when it is told to end', positive, 30)
    .option(
      '--restart-seconds <n>',
      'how long clients wait for an API server that is started anew',
      positive,
      15,
    )
    .option('--log-level <level>', 'trace, debug, info, warn or error', 'info');
}

async function main(): Promise<void> {
  const flags = command().parse().opts<Flags>();
  const logger = pino({ level: flags.logLevel, base: null, timestamp: pino.stdTimeFunctions.isoTime });
  const stop = new AbortController();
  for (const signal of ['SIGINT', 'SIGTERM'] as const)
    process.on(signal, () => stop.abort(new Error(`received ${signal}`)));
  const superCluster = await loadKubeconfig(flags.kubeconfig, flags.context);
  await withClient({ ...superCluster, userAgent: 'vc-gateway' }, (client) =>
    serve(flags, client, logger, stop.signal),
  );
}

const changesMs = 50;
const retryPortsMs = 5_000;

async function serve(flags: Flags, client: KubeClient, logger: Logger, signal: AbortSignal): Promise<void> {
  const clock = systemClock;
  const routes = new Routes(flags.domain);
  const metrics = new GatewayMetrics({ processMetrics: true });
  const limits = new TenantLimits(
    {
      ...{ all: flags.connections, connections: flags.tenantConnections },
      ...{ rate: flags.tenantRate, burst: flags.tenantBurst },
    },
    () => clock.monotonic(),
  );
  const tooFew = tooFewOpenFiles((await openFileLimits())?.soft, flags.connections);
  if (tooFew !== undefined) logger.warn(tooFew);
  const { proxyProtocol } = flags;
  // However many tenants have, clients can say who they are.
  const connections = flags.connections + maxHellos;
  const following = new AbortController();
  const store = new Store<VirtualCluster>();
  const reflector = new Reflector<VirtualCluster>({
    client,
    resource: resources.virtualClusters,
    store,
    clock,
    onProblem: ({ error, phase }) => logger.warn({ err: error, phase }, 'cannot follow VirtualClusters'),
  });
  const routesKnown = reflector.synced(signal).catch(() => undefined);
  const readiness = new Readiness({ clock, patienceMs: flags.restartSeconds * 1_000 });
  const activity = new Activity({
    ...{ client, namespace: flags.systemNamespace },
    ...{ routes, readiness, clock, logger },
  });
  const heartbeat = new GatewayHeartbeat({
    ...{ client, namespace: flags.systemNamespace, clock, logger },
    ...{ identity: heartbeatIdentity(hostname()), version: packageVersion() },
  });
  const gateway = new Gateway({
    ...{ readiness, routes, routesKnown, limits, metrics, connections, proxyProtocol, clock },
    wake: (route, gone) => activity.wake(route, AbortSignal.any([signal, gone])),
  });
  /** Why it does not serve yet. */
  let waitsFor: string | undefined = 'it has not begun to listen';
  let told: string[] = [];
  const follow = async (): Promise<void> => {
    const all = routes.all();
    const tenants = new Set(all.map(({ tenant }) => tenant));
    gateway.keepOnly(tenants);
    metrics.keepOnly(tenants);
    if (waitsFor !== undefined) return;
    const problems = await gateway.listenForTenants(all);
    if (!isDeepStrictEqual(problems, told)) {
      if (problems.length > 0)
        logger.warn({ problems }, 'cannot listen at the ports of some tenants; trying again');
      else logger.info('listening at the ports of all tenants');
      told = problems;
    }
    if (problems.length > 0) followed(retryPortsMs);
  };
  let due: NodeJS.Timeout | undefined;
  /** Once for many changes; what is due soon takes the place of what is due later. */
  const followed = (afterMs = changesMs): void => {
    if (signal.aborted || (due !== undefined && afterMs !== changesMs)) return;
    clearTimeout(due);
    due = setTimeout(() => {
      due = undefined;
      follow().catch((error: unknown) => {
        logger.error({ err: error }, 'cannot follow a change of tenants; trying again');
        followed(retryPortsMs);
      });
    }, afterMs);
  };
  store.subscribe((event) => {
    if (event.type === 'deleted') routes.remove(event.object);
    // There are no credentials yet for a control plane that waits for an owner.
    else if (!isUnclaimed(event.object)) routes.put(event.object);
    activity.routesChanged();
    if (reflector.hasSynced) followed();
  });
  void routesKnown.then(() => followed());
  const health = new HealthServer({
    metrics: { contentType: metrics.contentType, render: () => metrics.render() },
    ready: {
      // Without the super cluster it goes on with what it knows.
      routes: () => reflector.hasSynced,
      accepting: () => !signal.aborted,
      listening: () => waitsFor ?? true,
    },
  });
  const running = Promise.all([
    reflector.run(following.signal).catch(() => undefined),
    activity.run(() => gateway.takeUsed(), following.signal),
    heartbeat.run(following.signal),
  ]);
  try {
    await health.listen(flags.metricsAddress.port, flags.metricsAddress.host);
    const port = await listenOrStandBy({
      ...{ ...flags.listen, clock, signal, random: Math.random },
      listen: () => gateway.listen(flags.listen.port, flags.listen.host),
      holder: async () => {
        await Promise.race([routesKnown, untilAborted(signal)]);
        signal.throwIfAborted();
        const { domain } = flags;
        return portHolder({ ...flags.listen, domain, proxyProtocol, signal, id: routes.all()[0]?.id });
      },
      onWait: (why) => {
        waitsFor = why;
        logger.warn(flags.listen, why);
      },
    });
    waitsFor = undefined;
    if (reflector.hasSynced) followed();
    logger.info({ host: flags.listen.host, port, domain: flags.domain }, 'serving');
    await untilAborted(signal);
    logger.info({ seconds: flags.drainSeconds }, 'waiting for open connections to end');
    await gateway.close(AbortSignal.timeout(flags.drainSeconds * 1_000));
  } catch (error) {
    // It was told to end while it waited for its port.
    if (!signal.aborted) throw error;
  } finally {
    clearTimeout(due);
    following.abort(new Error('the gateway ends'));
    await running;
    await health.close();
  }
}

main().catch((error: unknown) => {
  console.error(`vc-gateway: ${messageOf(error)}`);
  process.exitCode = 1;
});
