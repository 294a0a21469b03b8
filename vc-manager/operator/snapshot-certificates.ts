import type { SnapshotHeader } from '../snapshot/archive.ts';
import { certificatesAbsent, certificatesInUse, certificatesNotEncrypted } from './errors.ts';
import type { Services } from './services.ts';
import type { SnapshotServices } from './snapshots.ts';
import type { Tenant } from './tenant.ts';
import { findInternalSecret, type SecretData } from './tenant-secrets.ts';

/*
 * What makes kubeconfigs and tokens of a tenant valid: it travels in a snapshot only when that is asked for, and only
 * encrypted. The authorities by which tenants are told apart, and those of datastores, belong to the place.
 */

const travelling = [
  'client-ca.crt',
  'client-ca.key',
  'serving-ca.crt',
  'serving-ca.key',
  'service-account.key',
];
/** In place of these others are made. */
const ofPlace = ['front-proxy-ca', 'kubelet-client-ca'].flatMap((name) => [`${name}.crt`, `${name}.key`]);

/** Whether the value of an annotation asks for a snapshot with them, or for them to be put back. */
export function asksForCertificates(request: string | undefined): boolean {
  return request?.endsWith(' certificates') === true;
}

/** What of the tenant's PKI goes into a snapshot. Throws when it would be readable, or is being changed. */
export function certificatesOf(
  tenant: Tenant,
  data: SecretData,
  { recipients }: SnapshotServices,
): SecretData {
  if (recipients.length === 0) throw certificatesNotEncrypted();
  if (tenant.vc.status?.authorities !== undefined)
    throw certificatesAbsent('its authorities are being renewed: ask again when that is over');
  return Object.fromEntries(travelling.map((name) => [name, data[name] ?? '']));
}

/** Throws when the snapshot has none, or the tenant that they are of is still here, or another one was made with them. */
export async function certificatesIn(
  { certificates, id, identity, namespace, name }: SnapshotHeader,
  { uid, signal }: Tenant,
  services: Pick<Services, 'virtualClusters' | 'client' | 'settings'>,
): Promise<SecretData> {
  if (certificates === undefined)
    throw certificatesAbsent(
      'the snapshot holds none: take one with "vc-manager snapshot NAME --with-certificates"',
    );
  for (const { metadata, spec, status } of services.virtualClusters.list()) {
    if (metadata.uid === uid) continue;
    if (status?.identities?.tenant === identity && identity !== '')
      throw certificatesInUse(`${namespace}/${name}`);
    if (spec?.restoreCertificates !== true || status?.id === undefined) continue;
    const key = `${metadata.namespace}/${metadata.name}`;
    // The first that is made with them takes the id over where that is free; where it was not, its Secret tells.
    if (status.id === id) throw certificatesInUse(key);
    const pki = await findInternalSecret({ key, signal }, services, status.id, 'pki');
    const has = new Set(Object.values(pki ?? {}));
    if (travelling.some((entry) => has.has(certificates[entry] || 'none'))) throw certificatesInUse(key);
  }
  return Object.fromEntries(travelling.map((entry) => [entry, certificates[entry] ?? '']));
}

/** The PKI of a tenant that has none yet, which is completed with what belongs to this place. */
export function pkiWith(certificates: SecretData): SecretData {
  return { ...Object.fromEntries(ofPlace.map((name) => [name, ''])), ...certificates };
}
