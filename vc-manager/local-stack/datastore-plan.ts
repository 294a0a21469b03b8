import type { ComponentPlan } from '../control-plane/plan.ts';
import { etcdServerArguments } from '../etcd/server-arguments.ts';
import { etcdServerName, type KeyPair, type ManagerPki } from '../pki/index.ts';
import type { StackPorts } from './stack-ports.ts';

interface EtcdComponentOptions {
  /** Of the component and of the etcd member. */
  name: string;
  version: string;
  ports: { client: number; http: number; peer: number; metrics: number };
  caPem: string;
  server: KeyPair;
  /** Common name of the server certificate. */
  serverName: string;
  unsafeNoFsync?: boolean | undefined;
}

/** An etcd of one member on loopback. */
export function etcdComponent(options: EtcdComponentOptions): ComponentPlan {
  const { name, ports } = options;
  return {
    name,
    binary: { name: 'etcd', version: options.version },
    args: etcdServerArguments({
      name,
      dataDir: '${data}',
      clientPort: ports.client,
      httpPort: ports.http,
      peerPort: ports.peer,
      metricsPort: ports.metrics,
      tls: {
        caFile: '${files}/ca.crt',
        certFile: '${files}/server.crt',
        keyFile: '${files}/server.key',
        serverName: options.serverName,
      },
      unsafeNoFsync: options.unsafeNoFsync,
    }),
    env: {},
    files: [
      { path: 'ca.crt', content: options.caPem, mode: 0o600 },
      { path: 'server.crt', content: options.server.certPem, mode: 0o600 },
      { path: 'server.key', content: options.server.keyPem, mode: 0o600 },
    ],
    ports: [
      { name: 'client', port: ports.client, host: '127.0.0.1' },
      { name: 'http', port: ports.http, host: '127.0.0.1' },
      { name: 'peer', port: ports.peer, host: '127.0.0.1' },
      { name: 'metrics', port: ports.metrics, host: '127.0.0.1' },
    ],
    probe: { scheme: 'http', host: '127.0.0.1', port: ports.metrics, path: '/readyz', timeoutMs: 60_000 },
    dependsOn: [],
    stopTimeoutMs: 20_000,
  };
}

interface DatastorePlanOptions {
  etcdVersion: string;
  pki: ManagerPki;
  ports: StackPorts;
  /** For tests: faster, and loses data when the machine crashes. */
  unsafeNoFsync?: boolean | undefined;
}

/** The tenants' etcd. */
export function datastorePlan(options: DatastorePlanOptions): ComponentPlan[] {
  const { pki, ports } = options;
  return [
    etcdComponent({
      name: 'datastore',
      version: options.etcdVersion,
      ports: {
        client: ports['datastore-client'],
        http: ports['datastore-http'],
        peer: ports['datastore-peer'],
        metrics: ports['datastore-metrics'],
      },
      caPem: pki.etcdCa.certPem,
      server: pki.etcdServer,
      serverName: etcdServerName,
      unsafeNoFsync: options.unsafeNoFsync,
    }),
  ];
}
