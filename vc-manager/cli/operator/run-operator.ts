import { pino } from 'pino';
import type { DnsChoice, DriverName } from '../../../api/virtual-cluster.ts';
import { Connection, KubeClient, loadKubeconfig } from '../../../kube/index.ts';
import { loadTemplates } from '../../control-plane/index.ts';
import { EtcdAdmin } from '../../etcd/admin.ts';
import { checkRedisUrl } from '../../jobs/index.ts';
import { Operator } from '../../operator/index.ts';
import type { Cli, GlobalFlags } from '../context.ts';
import { ensureStateDirectory } from '../state/state-directory.ts';
import { advertiseAddress } from '../up/advertise-address.ts';
import { type DriverFlags, makeDriver } from './drivers.ts';
import { type HealthAddress, ManagerHealth } from './health-server.ts';
import { managerPkiSource, type PkiFlags } from './manager-pki.ts';

export { managerPkiOf } from './manager-pki.ts';

export interface OperatorFlags extends GlobalFlags, DriverFlags, PkiFlags {
  driver: DriverName;
  tenantReplicas: number;
  healthAddress?: HealthAddress;
  bindAddress: string;
  advertiseAddress?: string;
  endpointHost: string;
  extraHost?: string[];
  portRange: { first: number; last: number };
  servicePool: string;
  slicePrefixLength: number;
  dns: DnsChoice;
  redis?: string;
  parallel: number;
  recheck: number;
  identity: string;
  logLevel: string;
}

/** The manager as a program: until a signal comes. */
export async function runOperator(cli: Cli, flags: OperatorFlags & { stateDir: string }): Promise<void> {
  const { clock, signal, env } = cli;
  const { stateDir } = flags;
  const logger = pino({ level: flags.logLevel, base: null, timestamp: pino.stdTimeFunctions.isoTime });
  const redis = redisOf(flags, env);
  await ensureStateDirectory(stateDir);
  const address = flags.advertiseAddress ?? advertiseAddress();
  const health = new ManagerHealth(() => clock.monotonic());
  const superCluster = {
    ...(await loadKubeconfig(flags.kubeconfig, flags.context, { ...env })),
    userAgent: 'vc-manager',
    onCall: health.onCall,
  };
  const listening = flags.healthAddress && (await health.listen(flags.healthAddress));
  const connection = new Connection(superCluster);
  const client = new KubeClient(connection);
  const managerPki = managerPkiSource(flags, { ...cli, stateDir, address, client });
  const { etcdCa, etcdManager, etcdRootPassword } = await managerPki();
  const datastore = new EtcdAdmin({
    endpoint: flags.etcdEndpoint,
    ca: etcdCa.certPem,
    cert: etcdManager.certPem,
    key: etcdManager.keyPem,
    rootPassword: etcdRootPassword,
  });
  const operator = new Operator({
    client,
    fencedClient: (beforeWrite) => new KubeClient(new Connection({ ...superCluster, beforeWrite })),
    driver: makeDriver(flags.driver, { stateDir, client, clock, env }, flags),
    datastore,
    templates: await loadTemplates(),
    managerPki,
    logger,
    identity: flags.identity,
    redis,
    settings: {
      namespace: flags.systemNamespace,
      bindAddress: flags.bindAddress,
      advertiseAddress: address,
      endpointHost: flags.endpointHost,
      extraHosts: flags.extraHost ?? [],
      portRange: flags.portRange,
      servicePool: flags.servicePool,
      slicePrefixLength: flags.slicePrefixLength,
      etcdEndpoint: flags.etcdEndpoint,
      dns: flags.dns,
      driver: flags.driver,
      replicas: flags.tenantReplicas,
      parallel: flags.parallel,
      recheckMs: flags.recheck,
    },
  });
  logger.info({ server: connection.server, stateDir, driver: flags.driver }, 'starting');
  try {
    await operator.run(signal);
  } finally {
    await datastore.close();
    await connection.close();
    await listening?.close();
  }
  logger.info('stopped; tenant control planes run on');
}

/** The environment is for passwords: arguments are seen by everybody on the machine. */
function redisOf({ redis }: OperatorFlags, env: Cli['env']): { url: string } | undefined {
  const url = redis ?? env['SKERRY_REDIS'];
  return url === undefined || url === '' ? undefined : { url: checkRedisUrl(url) };
}
