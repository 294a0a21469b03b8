import { hkdfSync, randomUUID } from 'node:crypto';
import { freemem, hostname, totalmem } from 'node:os';
import { type Command, InvalidArgumentError, Option } from 'commander';
import { pino } from 'pino';
import { Counter, collectDefaultMetrics, Gauge, Registry } from 'prom-client';
import { type DriverName, defaultDriver, traitsOf } from '../../../api/drivers.ts';
import { type UsageDay, usageFields } from '../../../api/usage.ts';
import { type DnsChoice, dnsChoices } from '../../../api/virtual-cluster.ts';
import {
  Connection,
  type ConnectionOptions,
  KubeClient,
  loadKubeconfig,
  messageOf,
} from '../../../kube/index.ts';
import { type Address, dnsDomain, repeatable, systemNamespaceOption } from '../../../program/flags.ts';
import { HealthServer } from '../../../program/health-server.ts';
import { loadTemplates } from '../../control-plane/template.ts';
import type { OnProblem } from '../../drivers/driver.ts';
import { EtcdAdmin } from '../../etcd/admin.ts';
import { checkRedisUrl } from '../../jobs/job-runner.ts';
import { Operator } from '../../operator/operator.ts';
import type { OperatorOptions, WarmPoolSize } from '../../operator/services.ts';
import type { GatewaySettings } from '../../operator/settings.ts';
import { openStore } from '../../snapshot/open-store.ts';
import {
  defaultAdvertiseAddress,
  duration,
  egressTarget,
  gatewayAddress,
  hostAndPort,
  ipAddress,
  memoryQuantity,
  portRange,
  wholeNumber,
} from '../arguments.ts';
import type { Cli, GlobalFlags } from '../context.ts';
import { addDashboardOptions, type DashboardFlags, listeningDashboard } from '../dashboard/serve.ts';
import { createDriver, type DriverFlags, defaultStorageClass, driverChoices } from '../drivers.ts';
import { CliError, invalidArgument } from '../errors.ts';
import { managerPkiProvider, type PkiFlags } from '../manager-pki.ts';
import { snapshotKeys, snapshotStoreFlag, snapshotsDirectory } from '../snapshot-store.ts';
import { ensureStateDirectory, stateChoice } from '../state-directory.ts';
import { dashboardBackend } from './dashboard-backend.ts';

const help = `
Makes and removes tenant control planes for the VirtualClusters of a super cluster. Control planes run on when the
manager stops; the next one on the same state directory takes them over. Of several managers one works at a time, unless
--redis lets them share jobs (a queue of BullMQ). Nothing is lost with Redis: while it is away, one manager works on.

The datastore is an etcd with client certificates of the authority in STATE/datastore/pki, or in the Secret of
--pki-secret, which is made on the first start.

With --driver compose control planes are Docker Compose projects on this machine's Docker engine, on the host's network.
The engine keeps them running without a manager. "docker info" and "docker compose version" have to work here.

With --driver kubernetes control planes run in the super cluster, each in a namespace of its own, and are reached at
service addresses: the manager and the syncer have to run where those lead somewhere, which is in the cluster.

Examples:
  vc-manager operator --kubeconfig FILE --etcd-endpoint https://10.0.0.5:2379 \\
    --state-dir /var/lib/skerry --bind-address 0.0.0.0 --advertise-address 10.0.0.5
  vc-manager operator --driver kubernetes --tenant-replicas 2 \\
    --etcd-endpoint https://skerry-etcd.skerry-system.svc:2379`;

export function configure(command: Command, cli: Cli): void {
  command
    .requiredOption('--etcd-endpoint <url>', "the tenants' datastore")
    .option(
      '--etcd-http-endpoint <url>',
      'where that etcd serves its JSON gateway, if it has --listen-client-http-urls (default: its client URL)',
    )
    .addOption(
      new Option(
        '--driver <driver>',
        'what runs control planes: processes of this machine, containers of its Docker engine, or pods',
      )
        .choices(driverChoices)
        .default(defaultDriver),
    )
    .addOption(
      new Option(
        '--other-driver <driver>',
        'one more driver, for VirtualClusters that name it and to move them to; repeatable',
      ).argParser(otherDriver),
    )
    .option('--bind-address <address>', "where tenants' API servers listen", ipAddress, '0.0.0.0')
    .option(
      '--advertise-address <address>',
      'how pods reach them (default: an address of this machine)',
      ipAddress,
    )
    .option('--endpoint-host <host>', 'host in the kubeconfigs that are handed out', '127.0.0.1')
    .option(
      '--extra-host <host>',
      "one more name or address in tenants' certificates; repeatable",
      repeatable,
    )
    .addOption(
      new Option('--port-range <first-last>', "ports for tenants' API servers")
        .argParser(portRange)
        .default({ first: 21_000, last: 21_999 }, '21000-21999'),
    )
    .option(
      '--tenant-replicas <n>',
      'API servers and controllers per tenant (kubernetes)',
      wholeNumber(1, 9),
      1,
    )
    .option(
      '--process-keeper <socket>',
      'Unix socket of a program that starts control planes, where this one may not outlive them (process): see docs/docker.md',
    )
    .option('--image-registry <registry>', 'in place of registry.k8s.io (compose, kubernetes)')
    .option(
      '--storage-class <name>',
      `for an etcd of a tenant's own; "${defaultStorageClass}": the cluster's default (kubernetes). Without it such an etcd loses its data with its pod`,
    )
    .option('--storage-size <quantity>', 'for the same', '2Gi')
    .option(
      '--tenant-egress <cidr[:ports]>',
      "what else tenants' API servers may dial, as 10.1.0.0/16, 10.1.0.9:443 or 127.0.0.1:8000-8999, such as a syncer outside of the cluster; repeatable (kubernetes; process, compose: on this machine, where root confines them; default there: port 10250, where vc-syncer answers as kubelets)",
      egressTarget,
    )
    .option(
      '--gateway <host:port>',
      "kubeconfigs name this address of vc-gateway instead of each API server's own; without a host, as in :7443, they name ID.DOMAIN, which DNS then has to know",
      gatewayAddress,
    )
    .option(
      '--gateway-ports <first-last>',
      'each tenant gets a port of its own at vc-gateway as well, for clients that send no server name; kubeconfigs name it',
      portRange,
    )
    .option(
      '--gateway-pod-address <ip>',
      'address at which pods reach vc-gateway, so that their requests wake their tenant; needs --gateway-ports; must not be the address of a Service',
    )
    .option(
      '--gateway-ports-for-pods',
      'only pods are told the ports of --gateway-ports; kubeconfigs name --gateway; needs --gateway-pod-address',
    )
    .option('--gateway-domain <domain>', 'that vc-gateway was started with; needs --gateway', dnsDomain)
    .option('--service-pool <cidr>', 'range of service addresses for all tenants', '10.112.0.0/12')
    .option('--slice-prefix-length <n>', "size of each tenant's part of it", wholeNumber(1, 124), 22)
    .addOption(
      new Option('--dns <server>', 'DNS server of VirtualClusters that name none when they are created')
        .choices([...dnsChoices])
        .default('coredns'),
    )
    .option('--redis <url>', 'share jobs with other managers, as redis://HOST:6379 (or set SKERRY_REDIS)')
    .addOption(systemNamespaceOption('for what belongs to Skerry itself'))
    .option(
      '--pki-secret <name>',
      'keep its authorities in this Secret of the system namespace, for several managers to share (default: in the state directory)',
    )
    .option(
      '--etcd-secret <name>',
      "with --pki-secret: where the datastore's server certificate is put",
      'skerry-etcd',
    )
    .option(
      '--kubelet-proxy-host <host>',
      'one more name or address at which tenants reach a syncer, for its certificate; "*." in front: all names below; repeatable',
      repeatable,
    )
    .option(
      '--health-address <host:port>',
      'where /healthz, /readyz and /metrics are served (default: nowhere)',
      hostAndPort,
    )
    .option('--parallel <n>', 'tenants that are worked on at once', wholeNumber(1, 64), 4)
    .option(
      '--warm <n>',
      'control planes of the default template that wait for an owner, so that "create" takes a moment',
      wholeNumber(0, 100),
      0,
    )
    .option(
      '--warm-memory <quantity>',
      'what all that wait may take, as 2Gi, by what their templates ask for (default: a quarter of this machine; with --driver kubernetes no limit)',
      memoryQuantity,
    )
    .addOption(
      new Option(
        '--recheck <duration>',
        'how often each tenant is looked at when nothing happens, or up to a fifth sooner',
      )
        .argParser(duration)
        .default(60_000, '1m'),
    )
    .addOption(
      new Option('--identity <name>', 'who holds the lease; must differ from every other manager').default(
        `${hostname()}-${randomUUID().slice(0, 8)}`,
        'host name and a random word',
      ),
    )
    .option(
      snapshotStoreFlag,
      'where snapshots of tenants are kept: a directory, or s3://BUCKET/PREFIX with credentials as AWS_* variables and files have them (default: STATE/snapshots; with --pki-secret nowhere)',
    )
    .option(
      '--snapshot-recipient <age1...>',
      'snapshots are encrypted for this recipient of age; repeatable',
      repeatable,
    )
    .option('--snapshot-identity-file <file>', 'of age: what encrypted snapshots are restored with')
    .option('--log-level <level>', 'trace, debug, info, warn or error', 'info')
    .option(
      '--dashboard-listen <host:port>',
      'where the dashboard is served (default: nowhere); beyond loopback only with TLS',
      hostAndPort,
    );
  addDashboardOptions(command)
    .addHelpText('after', help)
    .action(async (_, chosen: Command) => {
      const flags = chosen.optsWithGlobals<OperatorFlags>();
      await runOperator(cli, { ...flags, stateDir: stateChoice(cli.env, flags).directory });
    });
}

interface OperatorFlags extends GlobalFlags, DriverFlags, PkiFlags, DashboardFlags {
  dashboardListen?: Address;
  driver: DriverName;
  otherDriver?: DriverName[];
  tenantReplicas: number;
  healthAddress?: Address;
  bindAddress: string;
  advertiseAddress?: string;
  endpointHost: string;
  extraHost?: string[];
  gateway?: Omit<GatewaySettings, 'domain'>;
  gatewayDomain?: string;
  gatewayPorts?: { first: number; last: number };
  gatewayPodAddress?: string;
  gatewayPortsForPods?: boolean;
  portRange: { first: number; last: number };
  servicePool: string;
  slicePrefixLength: number;
  dns: DnsChoice;
  redis?: string;
  parallel: number;
  warm: number;
  warmMemory?: number;
  recheck: number;
  snapshotStore?: string;
  snapshotRecipient?: string[];
  snapshotIdentityFile?: string;
  identity: string;
  logLevel: string;
}

function otherDriver(value: string, before: DriverName[] = []): DriverName[] {
  const found = driverChoices.find((each) => each === value);
  if (found === undefined) throw new InvalidArgumentError(`it is one of ${driverChoices.join(', ')}`);
  return [...before, found];
}

/** Those beside `driver`, by name. */
export function otherDrivers<T>(
  { driver, otherDriver: names = [] }: Pick<OperatorFlags, 'driver' | 'otherDriver'>,
  make: (name: DriverName) => T,
): Partial<Record<DriverName, T>> {
  return Object.fromEntries(names.filter((name) => name !== driver).map((name) => [name, make(name)]));
}

/** Runs the manager until a signal arrives. */
async function runOperator(cli: Cli, flags: OperatorFlags & { stateDir: string }): Promise<void> {
  const { clock, signal, env } = cli;
  const { stateDir } = flags;
  const logger = pino({ level: flags.logLevel, base: null, timestamp: pino.stdTimeFunctions.isoTime });
  const redis = redisOf(flags, env);
  await ensureStateDirectory(stateDir);
  const address = flags.advertiseAddress ?? defaultAdvertiseAddress();
  const health = new ManagerHealth(() => clock.monotonic());
  const superCluster = {
    ...(await loadKubeconfig(flags.kubeconfig, flags.context, { ...env })),
    userAgent: 'vc-manager',
    onCall: health.onCall,
  };
  const dashboardListens = flags.dashboardListen && health.waitFor('the dashboard does not listen yet');
  const listening = flags.healthAddress && (await health.listen(flags.healthAddress));
  const connection = new Connection(superCluster);
  const client = new KubeClient(connection);
  const managerPki = managerPkiProvider(flags, { ...cli, stateDir, address, client });
  const onProblem: OnProblem = (error, what) => logger.warn({ err: error }, what);
  const place = { stateDir, client, clock, env, onProblem };
  const driver = createDriver(flags.driver, place, flags);
  const { etcdCa, etcdManager, etcdRootPassword } = await managerPki();
  const datastore = new EtcdAdmin({
    endpoint: flags.etcdHttpEndpoint ?? flags.etcdEndpoint,
    ca: etcdCa.certPem,
    cert: etcdManager.certPem,
    key: etcdManager.keyPem,
    rootPassword: etcdRootPassword,
  });
  const operator = new Operator({
    client,
    fencedClient: (beforeWrite) => new KubeClient(new Connection({ ...superCluster, beforeWrite })),
    driver,
    otherDrivers: otherDrivers(flags, (name) => createDriver(name, place, flags)),
    datastore,
    templates: await loadTemplates(),
    managerPki,
    logger,
    identity: flags.identity,
    redis,
    // Pods are where a scheduler puts them.
    machineMemory: () => (traitsOf(flags.driver).runsIn === 'machine' ? machineMemory() : undefined),
    onWarmPool: health.onWarmPool,
    onUsage: health.onUsage,
    snapshots: await snapshotsOf(flags, env),
    settings: {
      namespace: flags.systemNamespace,
      bindAddress: flags.bindAddress,
      advertiseAddress: address,
      endpointHost: flags.endpointHost,
      extraHosts: flags.extraHost ?? [],
      gateway: gatewayOf(flags),
      portRange: flags.portRange,
      servicePool: flags.servicePool,
      slicePrefixLength: flags.slicePrefixLength,
      etcdEndpoint: flags.etcdEndpoint,
      dns: flags.dns,
      driver: flags.driver,
      replicas: flags.tenantReplicas,
      parallel: flags.parallel,
      warm: flags.warm,
      warmMemoryBytes: flags.warmMemory,
      recheckMs: flags.recheck,
    },
  });
  const { confinement } = driver;
  logger.info({ server: connection.server, stateDir, driver: flags.driver, confinement }, 'starting');
  const stopDashboard = new AbortController();
  const dashboard =
    flags.dashboardListen &&
    (await listeningDashboard(cli, {
      backend: dashboardBackend,
      superCluster,
      address: flags.dashboardListen,
      stateDir,
      systemNamespace: flags.systemNamespace,
      flags,
      // Managers with the same authorities accept each other's sessions.
      sessionKey: new Uint8Array(hkdfSync('sha256', etcdRootPassword, '', 'skerry dashboard sessions', 32)),
      onProblem: (problem) => logger.warn({ problem }, 'the dashboard does not show what is'),
    }));
  dashboardListens?.();
  const shown = dashboard?.run(AbortSignal.any([signal, stopDashboard.signal]));
  shown?.catch((error: unknown) => logger.error({ error }, 'the dashboard has failed'));
  try {
    await operator.run(signal);
  } finally {
    stopDashboard.abort();
    await shown?.catch(() => undefined);
    await datastore.close();
    await connection.close();
    await listening?.close();
  }
  logger.info('stopped; tenant control planes run on');
}

/** A manager whose authorities are in a Secret has no directory that lasts. */
async function snapshotsOf(
  flags: OperatorFlags & { stateDir: string },
  env: Cli['env'],
): Promise<OperatorOptions['snapshots']> {
  const kept = flags.pkiSecret === undefined ? snapshotsDirectory(flags.stateDir) : undefined;
  const place = flags.snapshotStore ?? kept;
  const keys = await snapshotKeys(flags);
  return place === undefined ? undefined : { store: await openStore(place, env), ...keys };
}

function gatewayOf(flags: OperatorFlags): GatewaySettings | undefined {
  const { gateway, gatewayDomain: domain, gatewayPorts: ports, gatewayPodAddress: podAddress } = flags;
  if (flags.gatewayPortsForPods === true && podAddress === undefined)
    throw invalidArgument('--gateway-ports-for-pods needs --gateway-pod-address');
  if ([gateway, domain, ports, podAddress].every((flag) => flag === undefined)) return undefined;
  if (gateway === undefined || domain === undefined)
    throw invalidArgument('--gateway and --gateway-domain need each other, and --gateway-ports needs both');
  return {
    ...gateway,
    domain,
    ports,
    podAddress,
    portsForPods: flags.gatewayPortsForPods,
  };
}

/** A URL with a password belongs into the environment: every user of the machine can read arguments. */
function redisOf({ redis }: OperatorFlags, env: Cli['env']): { url: string } | undefined {
  const url = redis ?? env['SKERRY_REDIS'];
  return url === undefined || url === '' ? undefined : { url: checkRedisUrl(url) };
}

/** Of this machine, or of the control group that holds this process, if that has a limit. */
function machineMemory(): { totalBytes: number; availableBytes: number } {
  const limit = process.constrainedMemory();
  return {
    totalBytes: limit > 0 ? Math.min(limit, totalmem()) : totalmem(),
    availableBytes: Math.min(process.availableMemory(), freemem()),
  };
}

type CallListener = NonNullable<ConnectionOptions['onCall']>;

/** Tenants with series of their own; all others are added up. */
const maxTenantSeries = 250;
/** After this time without an answer of the super cluster, `/readyz` fails. */
const unansweredLimitMs = 60_000;

/** Serves `/healthz` (the process answers), `/readyz` (the super cluster has answered lately) and `/metrics`. */
export class ManagerHealth {
  readonly #registry = new Registry();
  readonly #calls: Counter;
  readonly #warm: Gauge;
  readonly #usage: Counter;
  readonly #usageTenants = new Set<string>();
  readonly #now: () => number;
  #answeredAt: number | undefined;
  #missing: string | undefined;

  /** `now`: milliseconds of a monotonic clock. */
  constructor(now: () => number) {
    this.#now = now;
    this.#calls = new Counter({
      name: 'skerry_manager_api_calls_total',
      help: 'Calls of the super cluster, by HTTP status; "none" where there was no answer.',
      labelNames: ['verb', 'resource', 'code'],
      registers: [this.#registry],
    });
    this.#warm = new Gauge({
      name: 'skerry_manager_warm_control_planes',
      help: 'Control planes without an owner: ready, other (being made, changed or removed), and how many are wanted.',
      labelNames: ['state'],
      registers: [this.#registry],
    });
    this.#usage = new Counter({
      name: 'skerry_tenant_usage_total',
      help: 'What tenants have used while this manager led: hours of pods, cores, GiB, and calls of their API servers.',
      labelNames: ['tenant', 'resource'],
      registers: [this.#registry],
    });
    collectDefaultMetrics({ register: this.#registry });
  }

  /** To be called after every request to the super cluster. */
  readonly onCall: CallListener = ({ verb, resource, status }) => {
    this.#calls.inc({ verb, resource, code: status === 0 ? 'none' : String(status) });
    if (status > 0 && status < 500) this.#answeredAt = this.#now();
  };

  /** To be called with what a tenant has used since the last call; undefined: it is gone, and its label is free again. */
  readonly onUsage = (tenant: string, used: Partial<UsageDay> | undefined): void => {
    if (used === undefined) {
      if (!this.#usageTenants.delete(tenant)) return;
      for (const resource of usageFields) this.#usage.remove({ tenant, resource });
      return;
    }
    const isKnown = this.#usageTenants.has(tenant);
    if (!isKnown && this.#usageTenants.size < maxTenantSeries) this.#usageTenants.add(tenant);
    const label = isKnown || this.#usageTenants.has(tenant) ? tenant : 'other';
    for (const [resource, amount] of Object.entries(used))
      if (amount > 0) this.#usage.inc({ tenant: label, resource }, amount);
  };

  readonly onWarmPool = (pool: WarmPoolSize): void => {
    for (const [state, count] of Object.entries(pool)) this.#warm.set({ state }, count);
  };

  /** Not ready, for this reason, until what is returned is called. */
  waitFor(problem: string): () => void {
    this.#missing = problem;
    return () => {
      this.#missing = undefined;
    };
  }

  /** Why the manager is not ready; undefined when it is. */
  get problem(): string | undefined {
    if (this.#missing !== undefined) return this.#missing;
    if (this.#answeredAt === undefined) return 'the super cluster has not answered yet';
    const silent = this.#now() - this.#answeredAt;
    if (silent <= unansweredLimitMs) return undefined;
    return `the super cluster has not answered for ${Math.round(silent / 1000)} s`;
  }

  /** Listens until `close` is called. Returns the port. Throws `StartFailed` when the address cannot be bound. */
  async listen({ host, port }: Address): Promise<{ port: number; close: () => Promise<void> }> {
    const server = new HealthServer({
      metrics: { contentType: this.#registry.contentType, render: () => this.#registry.metrics() },
      ready: { manager: () => this.problem ?? true },
    });
    const bound = await server.listen(port, host).catch((cause: unknown) => {
      throw new CliError('StartFailed', `${messageOf(cause)} (--health-address)`, { cause });
    });
    return { port: bound, close: () => server.close() };
  }
}
