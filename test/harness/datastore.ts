import { readFile } from 'node:fs/promises';
import { join } from 'node:path';
import { EtcdAdmin } from '../../vc-manager/etcd/admin.ts';
import { EtcdGateway, EtcdSession } from '../../vc-manager/etcd/gateway.ts';

/** Where the tenants' etcd of a stack listens for API servers. */
export function datastoreEndpoint(stateDir: string): Promise<string> {
  return endpointAt(stateDir, 'datastore-client');
}

async function endpointAt(stateDir: string, port: 'datastore-client' | 'datastore-http'): Promise<string> {
  const ports = JSON.parse(await readFile(join(stateDir, 'datastore', 'ports.json'), 'utf8')) as Record<
    typeof port,
    number
  >;
  return `https://127.0.0.1:${ports[port]}`;
}

/** The bytes of a key in the tenants' etcd, as latin1 text; empty when there is none. */
export async function storedValue(stateDir: string, key: string): Promise<string> {
  const { rootPassword, ...connection } = await managerAccess(stateDir);
  const gateway = new EtcdGateway(connection);
  try {
    const session = new EtcdSession(gateway, rootPassword);
    const found = await session.call('/v3/kv/range', { key: Buffer.from(key).toString('base64') });
    const { kvs: [first] = [] } = found as { kvs?: { value?: string }[] };
    return Buffer.from(first?.value ?? '', 'base64').toString('latin1');
  } finally {
    await gateway.close();
  }
}

/** Opens the tenants' etcd with the manager's own credentials. To be closed. */
export async function openDatastore(stateDir: string): Promise<EtcdAdmin> {
  return new EtcdAdmin(await managerAccess(stateDir));
}

async function managerAccess(stateDir: string): Promise<ConstructorParameters<typeof EtcdAdmin>[0]> {
  const read = (file: string): Promise<string> => readFile(join(stateDir, 'datastore', 'pki', file), 'utf8');
  return {
    endpoint: await endpointAt(stateDir, 'datastore-http'),
    ca: await read('etcd-ca.crt'),
    cert: await read('etcd-manager.crt'),
    key: await read('etcd-manager.key'),
    rootPassword: (await read('etcd-root.password')).trim(),
  };
}
