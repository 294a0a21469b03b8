import { createPrivateKey, X509Certificate } from 'node:crypto';
import { tenantUser } from '../etcd/grants.ts';
import { idNotProven } from './errors.ts';
import type { Services } from './services.ts';
import type { Tenant } from './tenant.ts';
import { findFormerPki, findInternalSecret, internalSecretRef, type SecretData } from './tenant-secrets.ts';

/**
 * Throws `IdNotProven` when something exists under this id, which only an annotation claims, and the VirtualCluster does
 * not show that it is its own: a user who may create one may write any id into the annotation. The proof is the key of
 * the tenant's etcd client certificate, issued by the manager, in the PKI Secret that bears the name of this VirtualCluster,
 * as a restore brings it back. Ids from the status need none: only the manager writes that.
 */
export async function assertIdClaim(tenant: Tenant, services: Services, id: string): Promise<void> {
  const { signal } = tenant;
  const [{ users, roles, prefixes }, running] = await Promise.all([
    services.datastore.listTenants({ signal }),
    Promise.all([...services.drivers.values()].map((driver) => driver.list())),
  ]);
  if (![...users, ...roles, ...prefixes, ...running.flat()].includes(id)) return;
  if (await isProven(tenant, services, id)) return;
  const { namespace, name } = internalSecretRef(services, id, 'pki');
  throw idNotProven(id, `${namespace}/${name}`);
}

async function isProven(tenant: Tenant, services: Services, id: string): Promise<boolean> {
  const pki = await findInternalSecret(tenant, services, id, 'pki');
  if (pki !== undefined && (await isIssuedFor(id, pki, services))) return true;
  return (await findProvenFormerPki(tenant, services, id)) !== undefined;
}

/** The PKI that an earlier version has kept beside the VirtualCluster, if this manager has issued it for this id. */
export async function findProvenFormerPki(
  tenant: Tenant,
  services: Services,
  id: string,
): Promise<SecretData | undefined> {
  const pki = await findFormerPki(tenant, services);
  return pki !== undefined && (await isIssuedFor(id, pki, services)) ? pki : undefined;
}

async function isIssuedFor(id: string, pki: SecretData, { managerPki }: Services): Promise<boolean> {
  const { etcdCa } = await managerPki();
  try {
    const certificate = new X509Certificate(pki['etcd-client.crt'] ?? '');
    return (
      certificate.verify(new X509Certificate(etcdCa.certPem).publicKey) &&
      certificate.checkPrivateKey(createPrivateKey(pki['etcd-client.key'] ?? '')) &&
      certificate.subject === `CN=${tenantUser(id)}`
    );
  } catch {
    // No certificate, or none that can be read.
    return false;
  }
}
