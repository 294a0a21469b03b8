import { createPrivateKey, X509Certificate } from 'node:crypto';
import { secretNames } from '../../api/names.ts';
import { type KubeObject, resources } from '../../kube/index.ts';
import { tenantUser } from '../etcd/grants.ts';
import { idNotProven } from './errors.ts';
import { find } from './objects.ts';
import type { Services } from './services.ts';
import type { Tenant } from './tenant.ts';

/**
 * Throws `IdNotProven` when something exists under this id, which only an annotation claims, and the VirtualCluster does
 * not show that it is its own: anybody who may create one may write any id into the annotation. The proof is the key of
 * the tenant's etcd client certificate, issued by the manager, in the PKI Secret beside the VirtualCluster, as a restore
 * brings it back. Ids from the status need none: only the manager writes that.
 */
export async function assertIdClaim(tenant: Tenant, services: Services, id: string): Promise<void> {
  const { signal } = tenant;
  const [{ users, roles, prefixes }, running] = await Promise.all([
    services.datastore.listTenants({ signal }),
    services.driver.list(),
  ]);
  if (![...users, ...roles, ...prefixes, ...running].includes(id)) return;
  if (await isProven(tenant, services, id)) return;
  throw idNotProven(id, `${tenant.ref.namespace}/${secretNames(tenant.ref.name).pki}`);
}

async function isProven(tenant: Tenant, { client, managerPki }: Services, id: string): Promise<boolean> {
  const ref = { namespace: tenant.ref.namespace, name: secretNames(tenant.ref.name).pki };
  const secret = await find<KubeObject & { data?: Record<string, string> }>(
    client,
    resources.secrets,
    ref,
    tenant.signal,
  );
  const entry = (name: string): string => Buffer.from(secret?.data?.[name] ?? '', 'base64').toString();
  const { etcdCa } = await managerPki();
  try {
    const certificate = new X509Certificate(entry('etcd-client.crt'));
    return (
      certificate.verify(new X509Certificate(etcdCa.certPem).publicKey) &&
      certificate.checkPrivateKey(createPrivateKey(entry('etcd-client.key'))) &&
      certificate.subject === `CN=${tenantUser(id)}`
    );
  } catch {
    // No certificate, or none that can be read.
    return false;
  }
}
