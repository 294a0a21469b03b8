import { readFile } from 'node:fs/promises';
import { join } from 'node:path';
import { EtcdAdmin } from '../../vc-manager/etcd/admin.ts';

/** Where the tenants' etcd of a stack listens. */
export async function datastoreEndpoint(stateDir: string): Promise<string> {
  const ports = JSON.parse(await readFile(join(stateDir, 'datastore', 'ports.json'), 'utf8')) as {
    'datastore-client': number;
  };
  return `https://127.0.0.1:${ports['datastore-client']}`;
}

/** Opens the tenants' etcd with the manager's own credentials. To be closed. */
export async function openDatastore(stateDir: string): Promise<EtcdAdmin> {
  const read = (file: string): Promise<string> => readFile(join(stateDir, 'datastore', 'pki', file), 'utf8');
  return new EtcdAdmin({
    endpoint: await datastoreEndpoint(stateDir),
    ca: await read('etcd-ca.crt'),
    cert: await read('etcd-manager.crt'),
    key: await read('etcd-manager.key'),
    rootPassword: (await read('etcd-root.password')).trim(),
  });
}
