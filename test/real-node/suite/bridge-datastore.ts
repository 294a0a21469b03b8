import { join } from 'node:path';
import { type Binaries, defaultVersions } from '../../../vc-manager/binaries/index.ts';
import { ProcessDriver } from '../../../vc-manager/drivers/process/process-driver.ts';
import { EtcdAdmin } from '../../../vc-manager/etcd/admin.ts';
import { etcdServerArguments } from '../../../vc-manager/etcd/server-arguments.ts';
import { freePort } from '../../../vc-manager/os/network.ts';
import { etcdServerName, type ManagerPki } from '../../../vc-manager/pki/index.ts';
import { patienceMs } from '../../harness/poll.ts';

const { signal } = new AbortController();
const id = 'datastore';

/** A tenants' etcd as a process of this machine, where pods of the nodes reach it too. */
export class BridgeDatastore {
  readonly endpoint: string;
  readonly admin: EtcdAdmin;
  readonly #driver: ProcessDriver;

  private constructor(endpoint: string, pki: ManagerPki, driver: ProcessDriver) {
    this.endpoint = endpoint;
    this.#driver = driver;
    this.admin = new EtcdAdmin({
      endpoint,
      ca: pki.etcdCa.certPem,
      cert: pki.etcdManager.certPem,
      key: pki.etcdManager.keyPem,
      rootPassword: pki.etcdRootPassword,
    });
  }

  /** `pki`: its certificate has to be for `address`. */
  static async start(options: {
    address: string;
    directory: string;
    pki: ManagerPki;
    binaries: Pick<Binaries, 'ensure'>;
  }): Promise<BridgeDatastore> {
    const { address, directory, pki, binaries } = options;
    // Suites run beside each other, and a port that is free is not held.
    const first = 23_000 + 20 * Number(process.env['VITEST_POOL_ID'] ?? 0);
    const ports: number[] = [];
    for (const host of [address, address, '127.0.0.1'])
      ports.push(await freePort({ host, taken: ports, range: [first, first + 19] }));
    const [clientPort = 0, peerPort = 0, metricsPort = 0] = ports;
    const driver = new ProcessDriver({ root: join(directory, 'processes'), binaries });
    const file = (path: string, content: string) => ({ path, content, mode: 0o600 });
    await driver.ensure(
      {
        id,
        labels: {},
        components: [
          {
            name: 'etcd',
            binary: { name: 'etcd', version: defaultVersions.etcd },
            args: etcdServerArguments({
              name: 'etcd',
              dataDir: '${data}',
              host: address,
              clientPort,
              peerPort,
              metricsPort,
              tls: {
                caFile: '${files}/ca.crt',
                certFile: '${files}/server.crt',
                keyFile: '${files}/server.key',
                serverName: etcdServerName,
              },
              unsafeNoFsync: true,
            }),
            env: {},
            files: [
              file('ca.crt', pki.etcdCa.certPem),
              file('server.crt', pki.etcdServer.certPem),
              file('server.key', pki.etcdServer.keyPem),
            ],
            ports: [],
            probe: {
              scheme: 'http',
              host: '127.0.0.1',
              port: metricsPort,
              path: '/readyz',
              timeoutMs: patienceMs,
            },
            dependsOn: [],
            stopTimeoutMs: 20_000,
          },
        ],
      },
      { signal },
    );
    return new BridgeDatastore(`https://${address}:${clientPort}`, pki, driver);
  }

  async close(): Promise<void> {
    await this.admin.close();
    await this.#driver.remove(id, { signal });
    await this.#driver.close();
  }
}
