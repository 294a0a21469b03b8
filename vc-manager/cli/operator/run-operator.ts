import { join } from 'node:path';
import { pino } from 'pino';
import { Connection, KubeClient, loadKubeconfig } from '../../../kube/index.ts';
import type { DnsChoice } from '../../api/index.ts';
import { Binaries, defaultCacheDirectory } from '../../binaries/index.ts';
import { loadTemplates } from '../../control-plane/index.ts';
import { ProcessDriver } from '../../drivers/index.ts';
import { EtcdAdmin } from '../../etcd/index.ts';
import { Operator } from '../../operator/index.ts';
import { ensureManagerPki, type ManagerPki } from '../../pki/index.ts';
import type { Cli, GlobalFlags } from '../context.ts';
import { ensureStateDirectory } from '../state/state-directory.ts';
import { advertiseAddress } from '../up/advertise-address.ts';
import { controlPlanesDirectory } from '../up/stop.ts';

export interface OperatorFlags extends GlobalFlags {
  etcdEndpoint: string;
  bindAddress: string;
  advertiseAddress?: string;
  endpointHost: string;
  extraHost?: string[];
  portRange: { first: number; last: number };
  servicePool: string;
  slicePrefixLength: number;
  dns: DnsChoice;
  systemNamespace: string;
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
  await ensureStateDirectory(stateDir);
  const address = flags.advertiseAddress ?? advertiseAddress();
  const binaries = new Binaries({ cacheDir: defaultCacheDirectory(env), env, clock });
  const managerPki = (): Promise<ManagerPki> => managerPkiOf(stateDir, address, clock);
  const { etcdCa, etcdManager, etcdRootPassword } = await managerPki();
  const superCluster = {
    ...(await loadKubeconfig(flags.kubeconfig, flags.context, { ...env })),
    userAgent: 'vc-manager',
  };
  const connection = new Connection(superCluster);
  const datastore = new EtcdAdmin({
    endpoint: flags.etcdEndpoint,
    ca: etcdCa.certPem,
    cert: etcdManager.certPem,
    key: etcdManager.keyPem,
    rootPassword: etcdRootPassword,
  });
  const operator = new Operator({
    client: new KubeClient(connection),
    leadersClient: (beforeWrite) => new KubeClient(new Connection({ ...superCluster, beforeWrite })),
    driver: new ProcessDriver({
      root: controlPlanesDirectory(stateDir),
      binaries,
      clock,
      environment: { ...env },
    }),
    datastore,
    templates: await loadTemplates(),
    managerPki,
    logger,
    identity: flags.identity,
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
      parallel: flags.parallel,
      recheckMs: flags.recheck,
    },
  });
  logger.info({ server: connection.server, stateDir }, 'starting');
  try {
    await operator.run(signal);
  } finally {
    await datastore.close();
    await connection.close();
  }
  logger.info('stopped; tenant control planes run on');
}

/** The same hosts as the local stack names, so that the two do not issue over each other. */
export function managerPkiOf(stateDir: string, advertised: string, clock: Cli['clock']): Promise<ManagerPki> {
  return ensureManagerPki(join(stateDir, 'datastore', 'pki'), {
    kubeletProxyHosts: ['127.0.0.1', 'localhost', advertised],
    now: new Date(clock.now()),
  });
}
