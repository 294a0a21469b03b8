import { join } from 'node:path';
import { type Binaries, defaultVersions } from '../../vc-manager/binaries/index.ts';
import { ProcessDriver } from '../../vc-manager/drivers/index.ts';
import { EtcdAdmin } from '../../vc-manager/etcd/admin.ts';
import { datastorePlan, stackPorts } from '../../vc-manager/local-stack/index.ts';
import { ensureManagerPki, type ManagerPki } from '../../vc-manager/pki/index.ts';
import type { DriverWorld } from './driver-world.ts';

const { signal } = new AbortController();
const id = 'datastore';

/** The tenants' etcd as a process of this machine, on 127.0.0.1, in a directory of its own. */
export class LocalDatastore {
  readonly pki: ManagerPki;
  readonly datastore: DriverWorld['datastore'];
  readonly #driver: ProcessDriver;
  readonly #admin: EtcdAdmin;

  private constructor(pki: ManagerPki, driver: ProcessDriver, admin: EtcdAdmin, endpoint: string) {
    this.pki = pki;
    this.#driver = driver;
    this.#admin = admin;
    this.datastore = {
      endpoint,
      ensureTenant: (tenant) => admin.ensureTenant(tenant),
      removeTenant: (tenant) => admin.removeTenant(tenant),
    };
  }

  static async start(directory: string, binaries: Pick<Binaries, 'ensure'>): Promise<LocalDatastore> {
    const pki = await ensureManagerPki(join(directory, 'pki'), { now: new Date() });
    const ports = await stackPorts(join(directory, 'ports.json'));
    const driver = new ProcessDriver({ root: join(directory, 'processes'), binaries });
    const components = datastorePlan({
      etcdVersion: defaultVersions.etcd,
      pki,
      ports,
      unsafeNoFsync: true,
    });
    await driver.ensure({ id, labels: {}, components }, { signal });
    const endpoint = `https://127.0.0.1:${ports['datastore-client']}`;
    const admin = new EtcdAdmin({
      endpoint,
      ca: pki.etcdCa.certPem,
      cert: pki.etcdManager.certPem,
      key: pki.etcdManager.keyPem,
      rootPassword: pki.etcdRootPassword,
    });
    return new LocalDatastore(pki, driver, admin, endpoint);
  }

  async close(): Promise<void> {
    await this.#admin.close();
    await this.#driver.remove(id, { signal });
    await this.#driver.close();
  }
}
