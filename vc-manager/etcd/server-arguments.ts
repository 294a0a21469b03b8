import { hostInUrl } from '../../program/addresses.ts';
import { EtcdError } from './errors.ts';

export interface EtcdServerOptions {
  /** Name of the member; kept for the life of the data. */
  readonly name: string;
  /** Only etcd may write there. */
  readonly dataDir: string;
  /** Where API servers and the manager dial. */
  readonly clientPort: number;
  /**
   * The JSON gateway and etcd's pages by HTTPS; absent: at `clientPort`. etcd speaks gRPC by way of Go's HTTP server where
   * both share a port, which costs it a third more CPU for each call.
   */
  readonly httpPort?: number;
  /** For other members. A store of one member has none; etcd wants a listener all the same. */
  readonly peerPort: number;
  /** Plain HTTP on loopback for `/metrics`, `/health`, `/livez` and `/readyz`; none when absent. */
  readonly metricsPort?: number;
  /** Address that it listens on; default loopback. An IPv6 address without brackets. */
  readonly host?: string;
  readonly tls: EtcdServerTls;
  /** Keys and history of all tenants together; at that size etcd refuses writes. Default 8 GiB, the most that etcd recommends. */
  readonly quotaBytes?: number;
  /** Does not wait for the disk: a crash of the machine loses what was acknowledged. For tests only. */
  readonly unsafeNoFsync?: boolean | undefined;
}

/** Paths. The certificate is used as server and, by the JSON gateway, as client of the own server. */
interface EtcdServerTls {
  readonly caFile: string;
  readonly certFile: string;
  readonly keyFile: string;
  /** Common name of the server certificate: the only client that is taken for a peer. */
  readonly serverName: string;
}

const defaultQuotaBytes = 8 * 1024 ** 3;
/**
 * etcd keeps this much history, and up to twice as much. Clients of Kubernetes open their watches anew every 5 to 10
 * minutes. Those of kinds that an API server does not cache (none in the packaged templates) go on at the version of their
 * list: as long as etcd still has it, it reads everything written since, by all tenants, and holds up every write
 * meanwhile. Where it has gone, the client lists again, which costs next to nothing.
 */
const historyKept = '2m30s';
/**
 * How many versions etcd removes at once; 1,000 by default. All writes of all tenants wait meanwhile, and for each version
 * that a tenant has made large the disk may have to be read: a thousand of 1 MB took 1.5 s, twenty 0.06 s.
 */
const compactedAtOnce = 20;

/**
 * The command line of an etcd of one member that takes only clients with a certificate of its authority.
 * Throws EtcdError `InvalidOptions`.
 */
export function etcdServerArguments(options: EtcdServerOptions): string[] {
  validate(options);
  const { name, dataDir, tls } = options;
  const at = hostInUrl(options.host ?? '127.0.0.1');
  const clientUrl = `https://${at}:${options.clientPort}`;
  const peerUrl = `https://${at}:${options.peerPort}`;
  return [
    `--name=${name}`,
    `--data-dir=${dataDir}`,
    `--listen-client-urls=${clientUrl}`,
    `--advertise-client-urls=${clientUrl}`,
    ...(options.httpPort === undefined
      ? []
      : [`--listen-client-http-urls=https://${at}:${options.httpPort}`]),
    `--client-cert-auth=true`,
    `--trusted-ca-file=${tls.caFile}`,
    `--cert-file=${tls.certFile}`,
    `--key-file=${tls.keyFile}`,
    // A tenant's certificate comes from the same authority as the peers': only one name may be a peer.
    `--listen-peer-urls=${peerUrl}`,
    `--initial-advertise-peer-urls=${peerUrl}`,
    `--initial-cluster=${name}=${peerUrl}`,
    `--peer-client-cert-auth=true`,
    `--peer-trusted-ca-file=${tls.caFile}`,
    `--peer-cert-file=${tls.certFile}`,
    `--peer-key-file=${tls.keyFile}`,
    `--peer-cert-allowed-cn=${tls.serverName}`,
    `--tls-min-version=TLS1.3`,
    // API servers are started without compaction of their own: each would compact the keys of all.
    `--auto-compaction-mode=periodic`,
    `--auto-compaction-retention=${historyKept}`,
    `--compaction-batch-limit=${compactedAtOnce}`,
    `--quota-backend-bytes=${options.quotaBytes ?? defaultQuotaBytes}`,
    ...(options.metricsPort === undefined
      ? []
      : [`--listen-metrics-urls=http://127.0.0.1:${options.metricsPort}`]),
    `--logger=zap`,
    `--log-outputs=stderr`,
    `--log-level=warn`,
    ...(options.unsafeNoFsync === true ? ['--unsafe-no-fsync=true'] : []),
  ];
}

function validate(options: EtcdServerOptions): void {
  const { clientPort, httpPort, peerPort, metricsPort, quotaBytes } = options;
  if (!/^[a-z0-9]([a-z0-9-]*[a-z0-9])?$/.test(options.name)) {
    throw invalid(`"${options.name}" cannot name a member: use lower-case letters, digits and "-".`);
  }
  const ports = [clientPort, httpPort, peerPort, metricsPort].filter((port) => port !== undefined);
  const bad = ports.find((port) => !Number.isInteger(port) || port < 1 || port > 65_535);
  if (bad !== undefined) throw invalid(`${bad} is not a port: use a whole number from 1 to 65535.`);
  if (new Set(ports).size !== ports.length) throw invalid(`The ports ${ports.join(', ')} have to differ.`);
  if (quotaBytes !== undefined && !(Number.isSafeInteger(quotaBytes) && quotaBytes > 0)) {
    throw invalid(`A quota of ${quotaBytes} bytes is no quota: use a whole number above 0.`);
  }
}

function invalid(message: string): EtcdError {
  return new EtcdError('InvalidOptions', message);
}
